package torture

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// TestWriters kills the supervisor at random instants while programs print at full speed, in the
// ways in which real programs do. Raw lines are in the logs exactly once and in order, records at
// least once and whole.
func TestWriters(t *testing.T) {
	writers := []struct {
		name            string
		size, instances int
	}{{"100 bytes a write", 100, 1}, {"4,000 bytes a write", 4000, 1}, {"64,000 bytes a write", 64000, 1}, {"100 bytes a write, 50 programs", 100, 50}}
	for _, w := range writers {
		for _, format := range []string{"raw", "text", "json"} {
			t.Run(w.name+", "+format, func(t *testing.T) {
				each := *kills << 18 / w.instances
				s := harness.NewSite(t, fmt.Sprintf(`
					[program.web]
					command = "child writes %d %d"
					replicas = %d
					restart = "never"
					log = { format = %q, max_size = "4MB", keep = 100000 }
					`, w.size, each, w.instances, format))
				d := s.Start(func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--restart-max=20ms") })
				rng, killed := rand.New(rand.NewPCG(*seed, uint64(w.size))), 0
				for running := true; running; killed++ {
					harness.Window(t, time.Duration(1+rng.IntN(30))*time.Millisecond)
					pid := d.Pid
					s.Kill(pid, syscall.SIGKILL)
					harness.Until(t, "another superd answers", func() bool {
						d.FindSupervisor()
						return d.Pid != pid && len(s.All()) == w.instances
					})
					// If superd has reaped one and is killed before that is on record, the next
					// one waits for an exit status that nobody has
					running = slices.ContainsFunc(s.All(), func(st harness.Status) bool { return st.Exit == nil && harness.Alive(st.Pid) })
				}
				harness.Until(t, "all ends are on record", func() bool {
					return !slices.ContainsFunc(s.All(), func(st harness.Status) bool { return st.Exit == nil })
				})
				if code := d.Insist(syscall.SIGTERM); code != 0 {
					t.Errorf("superd ends with status %d", code)
				}
				lines := 0
				for i := range w.instances {
					l := &ledger{instance: "web"}
					if w.instances > 1 {
						l.instance = fmt.Sprint("web@", i+1)
					}
					l.path = s.Path("log/" + l.instance + ".log")
					if format != "raw" {
						l.labels = map[string]*ledger{"stdout": {instance: l.instance, repeats: map[string]int{}}}
					}
					if err := l.readAll(); err != nil {
						t.Fatal(err)
					}
					of := l
					if l.labels != nil {
						of = l.labels["stdout"]
					}
					lines += of.lines
					for _, fault := range append(l.faults, of.faults...) {
						t.Errorf("seed %d: %s", *seed, fault)
					}
					if !of.ended {
						t.Errorf("seed %d: the log of %s lacks the last line; it has %d", *seed, of.instance, of.last)
					}
				}
				t.Logf("%d lines, %d kills", lines, killed)
			})
		}
	}
}
