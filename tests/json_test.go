package tests

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"superd/tests/golden"
	"superd/tests/harness"
)

// TestJSONStays: scripts of users read the JSON of commands that is made by the command itself. The
// test of what superd answers on its socket is in package control/server.
func TestJSONStays(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.db]
		command = "sleep infinity"
		[program.web]
		command  = "sleep infinity"
		requires = ["db"]
		`)
	s.Start()
	s.WaitState("db", "running")
	s.Write("wrong.toml", "[program.web]\ncomand = \"true\"\n")
	var now []string
	for _, command := range []string{
		"check --json wrong.toml",
		"check --security --json superd.toml",
		"doctor --json",
		"version --features --json",
		"ctl is-active --json db",
		"ctl is-failed --json db",
		"ctl list-dependencies --json web",
		"ctl show --json web",
	} {
		out := s.Run(strings.Fields(command)...).Out
		var value any
		if err := json.Unmarshal([]byte(out), &value); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		keys := map[string]bool{}
		addKeys(keys, "", value)
		for key := range keys {
			// Of a finding, as it is on this machine; and what this kernel has
			if command == "doctor --json" && !slices.Contains([]string{
				".ok", ".findings[].name", ".findings[].works", ".findings[].needed", ".findings[].for",
			}, key) {
				continue
			}
			if strings.HasPrefix(key, ".features.") {
				continue
			}
			now = append(now, fmt.Sprintf("superd %s: %s", command, key))
		}
	}
	slices.Sort(now)
	golden.Promise(t, "json.txt", now)
}

// addKeys adds the paths of the keys of a value, such as ".findings[].name".
func addKeys(keys map[string]bool, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, below := range v {
			keys[path+"."+key] = true
			addKeys(keys, path+"."+key, below)
		}
	case []any:
		for _, below := range v {
			addKeys(keys, path+"[]", below)
		}
	}
}
