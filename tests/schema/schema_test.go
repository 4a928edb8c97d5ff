// Package schema has the tools of others read what superd gives to tools: taplo the JSON Schema of
// the configuration, redocly the description of the API.
//
// make test-schema installs them by npm and runs this.
package schema

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var tools = flag.String("tools", "", "`directory` of taplo and redocly; without it the tests are skipped")

// patience bounds the run of a tool.
const patience = 2 * time.Minute

// tool returns a command that runs a tool in a directory.
func tool(t *testing.T, dir, name string, args ...string) *exec.Cmd {
	t.Helper()
	if *tools == "" {
		t.Skip("make test-schema runs this")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	if name != "node" {
		name = filepath.Join(*tools, name)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	// Neither tool is to look for another version, or report what it does.
	cmd.Env = append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true", "NO_COLOR=1", "CI=1")
	return cmd
}

// TestTaploAcceptsExamples: taplo has no objection to the examples, whose first line names the
// schema.
func TestTaploAcceptsExamples(t *testing.T) {
	out, err := tool(t, "../..", "taplo", "lint", "examples/**/*.toml").CombinedOutput()
	if found := regexp.MustCompile(`found files total=(\d\d+)`).FindString(string(out)); err != nil || found == "" {
		t.Errorf("taplo lint: %v\n%s", err, out)
	}
}

// withSchema returns a directory that has the schema.
func withSchema(t *testing.T) (dir string) {
	t.Helper()
	schema, err := os.ReadFile("../../docs/superd.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	write(t, dir, "superd.schema.json", string(schema))
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTaploRefusesMistakes checks where taplo sees mistakes, by line and column.
func TestTaploRefusesMistakes(t *testing.T) {
	dir := withSchema(t)
	tests := []struct{ line, at, says string }{
		{`comand = "web"`, "4:1", "'comand' was unexpected"},
		{`backoff = { initially = "1s" }`, "4:13", "'initially' was unexpected"},
		{`restart = "sometimes"`, "4:11", `not one of ["always","on-failure","never"]`},
		{`replicas = "2"`, "4:12", `not of type "integer"`},
		{`replicas = 10001`, "4:12", "greater than the maximum of 10000"},
		{`stop_timeout = "10"`, "4:16", "does not match"},
		{`start_timeout = "0s"`, "4:17", "not allowed"},
		{`stop_signal = "SIGTREM"`, "4:15", "not valid under any"},
		{`log.max_size = "10M"`, "4:16", "does not match"},
		{`pre_start = [["nice", 1]]`, "4:23", `not of type "string"`},
	}
	for i, tt := range tests {
		text := "#:schema ./superd.schema.json\n[program.web]\ncommand = \"web\"\n" + tt.line + "\n"
		write(t, dir, fmt.Sprintf("%02d.toml", i), text)
	}
	out, err := tool(t, dir, "taplo", "lint", "*.toml").CombinedOutput()
	if err == nil {
		t.Errorf("taplo accepts all files\n%s", out)
	}
	reports := strings.Split(string(out), "\nerror: ")
	for i, tt := range tests {
		place := fmt.Sprintf("%02d.toml:%s\n", i, tt.at)
		if !slices.ContainsFunc(reports, func(report string) bool {
			return strings.Contains(report, tt.says) && strings.Contains(report, place)
		}) {
			t.Errorf("taplo does not say %q of %s at %s:\n%s", tt.says, tt.line, tt.at, out)
		}
	}
}

// TestRedocly: redocly has no objection to the description of the API.
func TestRedocly(t *testing.T) {
	out, err := tool(t, "../..", "redocly", "lint", "--config=tests/schema/redocly.yaml", "docs/openapi.yaml").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Your API description is valid") || strings.Contains(string(out), "You have") {
		t.Errorf("redocly lint: %v\n%s", err, out)
	}
}
