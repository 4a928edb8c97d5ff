package torture

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestReadyLineInTheLog kills superd when it has just written a program's readiness line to the
// log: the next superd finds the line.
func TestReadyLineInTheLog(t *testing.T) {
	for _, tt := range []struct{ format, failpoint string }{{"raw", "splice.after"}, {"text", "record.after-write"}, {"json", "record.after-take"}} {
		t.Run(tt.format, func(t *testing.T) {
			s := harness.NewSite(t, fmt.Sprintf(`
				[program.web]
				command = ["sh", "-c", "read x < DIR/gate; echo listening on 80; exec sleep infinity"]
				ready = { line = '^listening on \d+$' }
				log.format = %q
				restart = "never"
				`, tt.format))
			once := s.Path("once")
			s.Env = append(s.Env, "SUPERD_FAILPOINT="+tt.failpoint+":1", "SUPERD_FAILPOINT_ONCE="+once)
			open := s.Gate("gate")
			d := s.Start()
			web := s.WaitStatus("web", "has been started", func(st harness.Status) bool { return st.State == "starting" && st.Pid != 0 }).Pid
			open()
			harness.Until(t, "superd has crashed at "+tt.failpoint, func() bool {
				text, _ := os.ReadFile(once)
				crashed, err := strconv.Atoi(strings.TrimSpace(string(text)))
				return err == nil && !harness.Alive(crashed)
			})
			d.FindSupervisor()
			if st := s.WaitState("web", "running"); st.Pid != web || !st.Ready {
				t.Errorf("%v, want that %d is ready", st, web)
			}
		})
	}
}
