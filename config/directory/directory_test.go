package directory

import (
	"slices"
	"strings"
	"testing"

	"superd/config/environ"
)

func TestPaths(t *testing.T) {
	var run environ.Variables
	run.Set("SUPERD_REPLICA", "2")
	run.Set("SUPERD_NAME", "a")
	roots := Roots{[Kinds]string{Runtime: "/run"}, []string{"/run/superd"}}
	for _, tt := range []struct {
		kind  Kind
		names []string
		want  []string
		err   string // part of it
	}{
		{Runtime, []string{"a", "a-${SUPERD_REPLICA}"}, []string{"/run/a", "/run/a-2"}, ""},
		{Runtime, []string{"${SUPERD_NAME}/c"}, []string{"/run/a/c"}, ""},
		{Cache, nil, nil, ""},
		{State, []string{"a"}, nil, "expand state_directory: superd does not run as root, and HOME or XDG_STATE_HOME is not set"},
		{Runtime, []string{"superd/x"}, nil, "/run/superd/x is a directory of superd itself"},
		{Runtime, []string{"superd"}, nil, "/run/superd is a directory of superd itself"},
		{Runtime, []string{"a${SUPERD_INSTANCE}"}, nil, "expand runtime_directory: ${SUPERD_INSTANCE}"},
		{Runtime, []string{"${SUPERD_NAME}/../b"}, nil, "must be a plain path"},
	} {
		got, err := roots.Paths(tt.kind, Set{Names: tt.names}, run)
		switch {
		case tt.err == "" && err != nil, tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s %q: error %v, want %q", tt.kind.Key(), tt.names, err, tt.err)
		case !slices.Equal(got, tt.want):
			t.Errorf("%s %q: %q, want %q", tt.kind.Key(), tt.names, got, tt.want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{{"/run/a", "/run/a", true}, {"/run/a/b", "/run/a", true}, {"/run/ab", "/run/a", false}, {"/run", "/run/a", false}} {
		if got := Within(tt.path, tt.dir); got != tt.want {
			t.Errorf("%s in %s: %t", tt.path, tt.dir, got)
		}
	}
}
