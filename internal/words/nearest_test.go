package words

import (
	"testing"
)

func TestNearest(t *testing.T) {
	candidates := []string{"command", "directory", "environment", "env_file", "restart", "web", "db", "stop_timeout", "start_timeout"}
	for name, want := range map[string]string{
		"comand": "command", "cmomand": "command", "COMMAND": "command", "commands": "command", "stop-timeout": "stop_timeout",
		"stoptimeout": "stop_timeout", "env": "environment", "wbe": "web", "dbb": "db", "xyz": "", "": "", "completely": "", "dir": "directory",
	} {
		if got := Nearest(name, candidates); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
