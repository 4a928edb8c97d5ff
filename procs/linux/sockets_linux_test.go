package linux

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/procs/host"
)

// TestSocketsArePassed: the program has its sockets under their numbers and no others, and knows
// its pid, with and without the exec shim, and beside a readiness descriptor.
func TestSocketsArePassed(t *testing.T) {
	dir := t.TempDir()
	open := func(n int) (all []*host.SharedFD) {
		for i := range n {
			fd, err := unix.Open(filepath.Join(dir, fmt.Sprint(i)), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, host.NewSharedFD(fd, func(fd int) { unix.Close(fd) }))
		}
		return all
	}
	script := `test "$LISTEN_PID" = $$$$ && echo told; cd /proc/$$$$/fd && for n in *; do
		case $(readlink $n) in ` + dir + `/*) echo $n=$(basename $(readlink $n));; pipe*) test $n -gt 2 && echo $n=ready;; esac; done | sort -n`
	for _, shim := range []bool{false, true} {
		for _, tt := range []struct{ sockets, first, ready int }{
			{1, 3, 0}, {2, 3, 5}, {5, 3, 8}, {5, 3, 9}, {3, 3, 20}, {9, 3, 12}, {1, 0, 3}, {1, 0, 0}, {0, 0, 4},
		} {
			program := &config.Program{Command: shell(script), Settings: &config.Settings{InheritEnvironment: true}}
			if shim {
				program.Umask = ptr(uint32(0o22))
			}
			s := newStarter(t, program)
			s.spec.Sockets, s.spec.FirstSocket, s.spec.ReadyFD = open(tt.sockets), tt.first, tt.ready
			want := ""
			if s.spec.TellsPid = tt.first > 0; s.spec.TellsPid {
				s.spec.Own.Set("LISTEN_PID", "")
				want = "told\n"
			}
			for i := range tt.sockets {
				want += fmt.Sprintf("%d=%d\n", tt.first+i, i)
			}
			if tt.ready > 0 {
				want += fmt.Sprintf("%d=ready\n", tt.ready)
			}
			got, exit := s.run(t)
			if got != want || !exit.Success() {
				t.Errorf("%+v, shim %v: it has %q, %v, want %q", tt, shim, strings.Fields(got), exit, strings.Fields(want))
			}
			for _, socket := range s.spec.Sockets {
				socket.Release()
			}
		}
	}
}
