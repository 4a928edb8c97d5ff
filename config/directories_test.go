package config

import (
	"slices"
	"strings"
	"testing"

	"superd/config/environ"
)

func TestRootsOf(t *testing.T) {
	for _, tt := range []struct {
		uid  int
		vars map[string]string
		want [DirectoryKinds]string
	}{
		{0, map[string]string{"XDG_RUNTIME_DIR": "/x"}, [DirectoryKinds]string{"/run", "/var/lib", "/var/cache", "/var/log"}},
		{1000, map[string]string{"HOME": "/home/a"}, [DirectoryKinds]string{"", "/home/a/.local/state", "/home/a/.cache", "/home/a/.local/state/log"}},
		{1000, map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1000/", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "c"},
			[DirectoryKinds]string{"/run/user/1000", "/s", "/h/.cache", "/s/log"}},
		{1000, nil, [DirectoryKinds]string{}},
	} {
		if got := RootsOf(func(name string) string { return tt.vars[name] }, tt.uid).Roots; got != tt.want {
			t.Errorf("RootsOf(%v, %d) = %q, want %q", tt.vars, tt.uid, got, tt.want)
		}
	}
}

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
