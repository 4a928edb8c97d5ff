package tests

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// TestNoSignalForUnrelatedProcesses: in a namespace of 400 pids each is soon reused. Programs
// crash, leave children and are restarted there while unrelated processes come and go: none of
// these ever gets a signal.
func TestNoSignalForUnrelatedProcesses(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		needRoot(t)
		s := harness.NewSite(t, `
			[defaults]
			backoff = { initial = "5ms", factor = 1.0 }
			[program.crash]
			command = "false"
			[program.short]
			command = "sleep 0.02"
			[program.parent]
			command = ["sh", "-c", "sleep 1000 & sleep 0.01; exit 1"]
			[program.restarted]
			command = "sleep infinity"
			[program.stopped]
			command = ["sh", "-c", "sleep 0.01"]
			`)
		const unrelated = 700
		script := fmt.Sprintf("child unrelated %d '%s' > /dev/null 2>&1 &\n", unrelated, s.Path("unrelated"))
		if pidsOfNamespace() {
			script = "echo 400 > /proc/sys/kernel/pid_max\n" + script
		}
		d := s.Start(append(options, harness.AsInit(script))...)
		harness.Until(t, "all strangers have come and gone", func() bool {
			for _, path := range []string{"restarted/restart", "stopped/stop", "stopped/start"} {
				if code, body, err := s.Request("POST", "/v1/programs/"+path+"?wait=0"); code != 200 {
					t.Fatalf("POST %s: %d, %s, %v", path, code, body, err)
				}
			}
			return s.Read("unrelated") != ""
		})
		if got, want := s.Read("unrelated"), fmt.Sprintf("%d processes, failed: <nil>\n", unrelated); got != want {
			t.Errorf("%s", got)
		}
		for _, name := range []string{"crash", "short", "parent"} {
			if st := s.Status(name); st.Restarts < 3 {
				t.Errorf("%v: want more restarts meanwhile", st)
			}
		}
		s.MustCtl("shutdown")
		if exit := d.Wait(); exit != 0 {
			t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
		}
	})
}

// pidsOfNamespace reports whether pid_max belongs to the namespace, as since Linux 6.14, and not to
// the machine.
func pidsOfNamespace() bool {
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err != nil {
		return false
	}
	fmt.Sscanf(strings.TrimRight(string(name.Release[:]), "\x00"), "%d.%d", &major, &minor)
	return major > 6 || major == 6 && minor >= 14
}
