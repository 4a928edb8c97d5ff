package bench

import (
	"fmt"
	"testing"
	"time"

	"superd/tests/harness"
)

// recovery kills superd and measures from the exec of the next one until it has taken over all programs and says that it is ready.
func recovery(b *testing.B, t *figures, children int) {
	s := harness.NewSite(b, quiet(children))
	manager := s.Manager()
	d := s.Launch(harness.NoKeeper)
	manager.Wait("READY=1", 1)
	before := s.WaitRunning()
	s.Settle(d.Pid)
	d.Kill()

	begin := time.Now()
	s.Launch(harness.NoKeeper)
	manager.Wait("READY=1", 2)
	took := time.Since(begin)
	for name, pid := range s.WaitRunning() {
		if before[name] != pid {
			b.Fatalf("%s has pid %d now, it had %d", name, pid, before[name])
		}
	}
	b.ReportMetric(took.Seconds(), "s-to-recovered")
	t.add(fmt.Sprintf("from exec of the next superd until %d programs are taken over", children), "%v", took.Round(time.Millisecond))
}
