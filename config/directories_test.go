package config

import (
	"slices"
	"strings"
	"testing"

	"superd/config/environ"
)

func TestDirectoryPaths(t *testing.T) {
	p := program(t, `program.a = { command = "x", runtime_directory = ["a", "a-${SUPERD_REPLICA}"], state_directory = "b/${SUPERD_NAME}/c" }`)
	var run environ.Variables
	run.Set("SUPERD_REPLICA", "2")
	run.Set("SUPERD_NAME", "a")
	roots := DirectoryRoots{[DirectoryKinds]string{RuntimeDirectory: "/run"}, []string{"/run/superd"}}
	if got, err := p.DirectoryPaths(RuntimeDirectory, roots, run); err != nil || !slices.Equal(got, []string{"/run/a", "/run/a-2"}) {
		t.Errorf("runtime directories: %q, %v", got, err)
	}
	if _, err := p.DirectoryPaths(StateDirectory, roots, run); err == nil || !strings.Contains(err.Error(), "HOME or XDG_STATE_HOME is not set") {
		t.Errorf("state directories without a root: %v", err)
	}
	p.Directories[RuntimeDirectory].Names = []string{"superd/x"}
	if _, err := p.DirectoryPaths(RuntimeDirectory, roots, run); err == nil || !strings.Contains(err.Error(), "a directory of superd itself") {
		t.Errorf("superd's own directory: %v", err)
	}
	if got, err := p.DirectoryPaths(CacheDirectory, roots, run); got != nil || err != nil {
		t.Errorf("cache directories: %q, %v; want none", got, err)
	}
}
