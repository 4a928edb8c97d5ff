package sandbox

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// BenchmarkStart measures how long superd takes to start 1,000 programs, and the processor time of
// superd and these, from start to stop, by the program. Other load on the machine changes the
// former.
func BenchmarkStart(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	for _, kind := range []struct{ name, sandbox string }{
		{"none", ""},
		{"no_new_privileges", "sandbox.no_new_privileges = true"}, // the exec shim alone
		{"strict", `sandbox.preset = "strict"`},
	} {
		b.Run(kind.name, func(b *testing.B) {
			var took, cpu time.Duration
			for b.Loop() {
				t, c := startMany(b, kind.sandbox)
				took, cpu = took+t, cpu+c
			}
			each := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(b.N) / programs }
			b.ReportMetric(each(took), "ms/program")
			b.ReportMetric(each(cpu), "cpu-ms/program")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const programs = 1000

// startMany starts superd with many programs, waits until they run, and stops it.
func startMany(b *testing.B, settings string) (took, cpu time.Duration) {
	b.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "[defaults]\ncommand = ['sleep', 'infinity']\ndirectory = '/'\n%s\n", settings)
	for i := range programs {
		fmt.Fprintf(&text, "[program.p%d]\n", i)
	}
	s := harness.NewSite(b, text.String())
	begin := time.Now()
	d := s.Launch()
	d.ErrOut.Wait(b, "msg=ready")
	took = time.Since(begin)
	if want := fmt.Sprintf(`state="%d instances: %d running"`, programs, programs); !strings.Contains(d.ErrOut.String(), want) {
		b.Fatalf("not all are running: superd's messages lack %s", want)
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	return took, d.CPU()
}
