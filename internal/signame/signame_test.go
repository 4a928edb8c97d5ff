package signame

import (
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNames: the table of names is the kernel's.
func TestNames(t *testing.T) {
	for sig := syscall.Signal(1); sig < realtimeMin; sig++ {
		want := unix.SignalName(sig)
		if want == "" {
			want = strconv.Itoa(int(sig)) // glibc's own, without a name
		}
		if got := Name(sig); got != want {
			t.Errorf("Name(%d) = %q, want %q", sig, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for in, want := range map[string]syscall.Signal{
		"SIGTERM": syscall.SIGTERM, "term": syscall.SIGTERM, " Usr1 ": syscall.SIGUSR1, "15": 15, "64": 64,
		"SIGRTMIN": 34, "rtmin+3": 37, "SIGRTMAX-1": 63, "SIGRTMAX": 64,
	} {
		if got, err := Parse(in); got != want || err != nil {
			t.Errorf("Parse(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "-1", "65", "SIG", "SIGFOO", "SIGRTMIN-1", "SIGRTMIN+31", "SIGRTMIN3", "SIGRTMIN+", "SIGSIGTERM", "99999999999999999999"} {
		if got, err := Parse(in); err == nil {
			t.Errorf("Parse(%q) = %d, want an error", in, got)
		}
	}
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if got, err := Parse(Name(sig)); got != sig || err != nil {
			t.Errorf("Parse(%q) = %d, %v, want %d", Name(sig), got, err, sig)
		}
	}
}
