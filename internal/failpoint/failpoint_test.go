package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestFailpoints(t *testing.T) {
	build := func(args ...string) string {
		binary := filepath.Join(t.TempDir(), "child")
		args = append(append([]string{"build", "-o", binary}, args...), "./testdata/child")
		if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v\n%s", args, err, out)
		}
		return binary
	}
	plain, armed := build(), build("-tags", "failpoints")
	there := filepath.Join(t.TempDir(), "there")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all := "a.one b.one a.two a.one"
	tests := []struct {
		name, binary, environment string
		want                      string // the failpoints up to the last; all: it survives
	}{
		{"nothing is asked for", armed, "", all},
		{"the first passage", armed, "SUPERD_FAILPOINT=a.one:1", "a.one"},
		{"the second passage", armed, "SUPERD_FAILPOINT=a.one:2", all + " killed"},
		{"a passage too many", armed, "SUPERD_FAILPOINT=a.one:3", all},
		{"a prefix", armed, "SUPERD_FAILPOINT=a.*:2", "a.one b.one a.two"},
		{"no prefix", armed, "SUPERD_FAILPOINT=a.:1", all},
		{"the right role", armed, "SUPERD_FAILPOINT=b.one:1 SUPERD_FAILPOINT_ROLE=supervisor", "a.one b.one"},
		{"another role", armed, "SUPERD_FAILPOINT=b.one:1 SUPERD_FAILPOINT_ROLE=keeper", all},
		{"once", armed, "SUPERD_FAILPOINT=b.one:1 SUPERD_FAILPOINT_ONCE=" + filepath.Join(t.TempDir(), "new"), "a.one b.one"},
		{"once and no more", armed, "SUPERD_FAILPOINT=b.one:1 SUPERD_FAILPOINT_ONCE=" + there, all},
		{"an ordinary binary", plain, "SUPERD_FAILPOINT=a.one:1", all},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), tt.binary, append([]string{"supervisor"}, strings.Fields(all)...)...)
			cmd.Env = append(slices.Clone(os.Environ()), strings.Fields(tt.environment)...)
			out, err := cmd.Output()
			want, survives := strings.CutSuffix(tt.want, " killed")
			survives = !survives && want == all
			if got := strings.Join(strings.Fields(string(out)), " "); got != want {
				t.Errorf("it passed %q, want %q", got, want)
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); survives && err != nil ||
				!survives && (!ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
				t.Errorf("it ended with %v, is to live: %v", err, survives)
			}
		})
	}
}
