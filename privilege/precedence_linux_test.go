package privilege

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A session of its own gets the precedence, that of the tests does not.
func TestTakePrecedence(t *testing.T) {
	if os.Getenv("TAKE_PRECEDENCE") != "" {
		if err := TakePrecedence(); err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile("/proc/self/autogroup")
		os.Stdout.Write(text)
		os.Exit(0)
	}
	if _, err := os.ReadFile("/proc/self/autogroup"); err != nil {
		t.Skip(err)
	}
	for _, own := range []bool{true, false} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestTakePrecedence$")
		cmd.Env = append(os.Environ(), "TAKE_PRECEDENCE=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: own}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := strings.Contains(string(out), " nice -10\n"); got != (own && os.Geteuid() == 0) {
			t.Errorf("a session of its own: %t: %q", own, out)
		}
	}
}
