package privilege

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPrecedence: a session of superd's own gets the precedence and loses it again; that of the
// tests does not get it.
func TestPrecedence(t *testing.T) {
	show := func() {
		text, _ := os.ReadFile("/proc/self/autogroup")
		_, nice, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		os.Stdout.WriteString(nice + ";")
	}
	if os.Getenv("PRECEDENCE_TEST") != "" {
		set := Precedence(os.Getpid())
		if set == nil {
			os.Stdout.WriteString("none")
			os.Exit(0)
		}
		for _, first := range []bool{true, false, true} {
			if err := set(first); err != nil {
				t.Fatal(err)
			}
			show()
		}
		Precedence(os.Getpid()) // of the successor
		show()
		os.Exit(0)
	}
	if _, err := os.ReadFile("/proc/self/autogroup"); err != nil {
		t.Skip(err)
	}
	for _, own := range []bool{true, false} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestPrecedence$")
		cmd.Env = append(os.Environ(), "PRECEDENCE_TEST=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: own}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		want := "none"
		if own && has(unix.CAP_SYS_ADMIN) && has(unix.CAP_SYS_NICE) {
			want = "nice -10;nice 0;nice -10;nice 0;"
		}
		if string(out) != want {
			t.Errorf("a session of its own: %t: %q, want %q", own, out, want)
		}
	}
}
