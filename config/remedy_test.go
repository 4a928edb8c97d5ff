package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// proposed matches the value that a message proposes.
var proposed = regexp.MustCompile(`write (?:a duration such as |it as )?(\[[^\]]*\]|"[^"]*")`)

// TestRemediesAreValid: the value that a message proposes is accepted in place of the wrong one.
func TestRemediesAreValid(t *testing.T) {
	const program = "[program.a]\ncommand = \"true\"\n"
	values := []string{`-1`, `0`, `5`, `1.5`, `-1.5`, `1e300`, `true`, `""`, `"5"`, `"-1"`, `"0"`, `"5 s"`, `"-1 s"`, `"x"`, `"@every 5"`, `"@every -5"`,
		`"5K"`, `[]`, `["ls -l"]`, `99`, `300`, `"999"`, `{}`}
	keys := []string{"backoff.max", "backoff.initial", "backoff.factor", "backoff.reset_after", "start_timeout", "stop_timeout", "start_limit.within",
		"start_limit.retry_after", "replicas", "groups", "requires", "after", "success_exit_codes", "supplementary_groups", "stop_signal", "user", "umask",
		"directory", "restart", "type", "log.max_size", "log.max_age", "log.keep", "log.mode", "log.compress", "limits.nofile", "limits.memory", "limits.cpu",
		"schedule", "schedule_jitter", "ready.tcp", "ready.http", "ready.line", "ready.interval", "health.timeout", "command", "environment", "env_file", "sockets", "socket_pass",
		"idle_timeout", "max_connections", "drain_timeout", "rolling.surge", "rolling.pause"}
	path := filepath.Join(t.TempDir(), "superd.toml")
	mistakes := func(key, value string) Errors {
		text := program
		if key == "command" {
			text = "[program.a]\n"
		}
		if err := os.WriteFile(path, []byte(text+key+" = "+value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path)
		if c == nil {
			t.Fatalf("%s = %s: %v", key, value, err)
		}
		return c.Errors
	}
	ofValue := func(all Errors, key string) string {
		for _, e := range all {
			if e.Key == "program.a."+key {
				return e.Err.Error()
			}
		}
		return ""
	}
	tried := 0
	for _, key := range keys {
		for _, value := range values {
			message := ofValue(mistakes(key, value), key)
			for _, word := range []string{"strconv", "invalid syntax", "parsing ", "time:", "error parsing"} {
				if strings.Contains(message, word) {
					t.Errorf("%s = %s: %s has the words of a parser, %q", key, value, message, word)
				}
			}
			for _, found := range proposed.FindAllStringSubmatch(message, -1) {
				tried++
				remaining := ofValue(mistakes(key, found[1]), key)
				if remaining != "" && !strings.Contains(remaining, "only one-shots") && !strings.Contains(remaining, "there is no program") && !strings.Contains(remaining, "there is no socket") &&
					!strings.Contains(remaining, "has no meaning") && !strings.Contains(remaining, "itself") && !strings.Contains(remaining, "must not be less than") {
					t.Errorf("%s = %s: %s\nbut %s: %s", key, value, message, found[1], remaining)
				}
			}
		}
	}
	if tried < 50 {
		t.Errorf("%d remedies were tried: the test knows no messages any more", tried)
	}
}

// TestEmptyFileIsAMistake: a truncated, empty file must not remove all programs.
func TestEmptyFileIsAMistake(t *testing.T) {
	for _, text := range []string{"", "\ufeff", "\ufeff\r\n \t\n"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "superd.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "is empty: write") {
			t.Errorf("%q: %v, want a mistake", text, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "main.toml"), []byte("include = [\"superd.toml\"]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := Load(filepath.Join(dir, "main.toml")); err == nil && len(c.Errors) == 0 {
			t.Errorf("an included file of %q is no mistake", text)
		}
	}
	for _, text := range []string{"# all is commented out\n", "[superd]\n"} {
		path := filepath.Join(t.TempDir(), "superd.toml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := Load(path); err != nil || len(c.Warnings) != 1 {
			t.Errorf("%q: %v, want a warning", text, err)
		}
	}
}
