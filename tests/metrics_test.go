package tests

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"superd/tests/harness"
)

// series are the values of all series, by name and labels.
type series map[string]float64

// readSeries parses metrics in the classic text format.
func readSeries(t *testing.T, text string) series {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("metrics not understood: %v\n%s", err, text)
	}
	all := series{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			key := name
			for _, l := range m.GetLabel() {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			all[key] = m.GetGauge().GetValue()
			if family.GetType() == dto.MetricType_COUNTER {
				all[key] = m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// scrape returns what `superd metrics` prints.
func scrape(t *testing.T, s *harness.Site) series {
	t.Helper()
	r := s.Run("metrics", "--runtime-dir", s.RuntimeDir)
	if r.Exit != 0 {
		t.Fatalf("superd metrics: exit status %d\n%s%s", r.Exit, r.Out, r.ErrOut)
	}
	return readSeries(t, r.Out)
}

// TestCountersContinue: no counter decreases when superd is killed or upgraded, and none is zero
// that had a value.
func TestCountersContinue(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.crashes]
		command = ["sh", "-c", "echo some output; exit 3"]
		backoff = { initial = "50ms", max = "50ms" }

		[program.stays]
		command = ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo ready; exec sleep infinity"]
		ready = { line = "ready" }
		`)
	s.BuildUI()
	d := s.Start()
	s.WaitState("stays", "running")
	const (
		exits  = "superd_program_exits_total program=crashes replica=1 result=failure"
		output = "superd_program_log_bytes_total program=crashes replica=1"
		used   = "superd_program_cpu_seconds_total program=stays replica=1"
		events = "superd_events_total type=exit"
	)
	after := func(before series, runs float64, what string) (now series) {
		t.Helper()
		harness.Until(t, what+" further runs have ended", func() bool {
			now = scrape(t, s)
			return now[exits] >= before[exits]+runs
		})
		for name, value := range before {
			if strings.Contains(name, "_total") && now[name] < value {
				t.Errorf("after %s, %s is %v: it was %v", what, name, now[name], value)
			}
		}
		return now
	}
	first := after(series{}, 3, "the start")
	for _, name := range []string{exits, output, used, events} {
		if first[name] == 0 {
			t.Errorf("%s is 0", name)
		}
	}
	if got := first["superd_program_state program=stays replica=1 state=running"]; got != 1 {
		t.Errorf("the state of a running program is %v, want 1", got)
	}
	d.Kill()
	s.Start()
	second := after(first, 2, "kill -9")
	s.MustCtl("upgrade", "--binary", s.BuildVersion("two", "2.0"))
	third := after(second, 2, "an upgrade")
	if third["superd_build_info commit= version=2.0"]+second["superd_build_info commit= version=2.0"] != 1 {
		t.Errorf("the version before and after the upgrade: %v, %v", second, third)
	}
	// What an exit leads to is counted as often
	starts := third["superd_program_starts_total program=crashes replica=1 reason=restarted"] +
		third["superd_program_starts_total program=crashes replica=1 reason=started"]
	if ended := third[exits]; starts < ended || starts > ended+1 {
		t.Errorf("%v starts and %v exits", starts, ended)
	}
}

// TestMetricsCommand: `superd metrics` without superd, without superd-ui, and as a server.
func TestMetricsCommand(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, laterOnly)
	if r := s.Run("metrics"); r.Exit != 1 || !strings.Contains(r.ErrOut, "no superd-ui beside") {
		t.Errorf("without superd-ui: exit status %d, %q", r.Exit, r.ErrOut)
	}
	s.BuildUI()
	file := s.Path("superd.prom")
	if r := s.Run("metrics", "--runtime-dir", s.RuntimeDir, "-o", file); r.Exit != 4 || r.ErrOut == "" {
		t.Errorf("without superd: exit status %d, %q; want 4", r.Exit, r.ErrOut)
	}
	if got := readSeries(t, s.Read("superd.prom")); len(got) != 1 || got["superd_up"] != 0 {
		t.Errorf("without superd: %v", got)
	}
	d := s.Start()
	s.WaitState("later", "stopped")
	if r := s.Run("metrics", "--runtime-dir", s.RuntimeDir, "-o", file); r.Exit != 0 || r.Out != "" {
		t.Errorf("exit status %d, %q, %q", r.Exit, r.Out, r.ErrOut)
	}
	if got := readSeries(t, s.Read("superd.prom")); got["superd_up"] != 1 {
		t.Errorf("with superd: %v", got)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode of the file: %v, %v; want 0644", info.Mode(), err)
	}
	if left, err := filepath.Glob(s.Path(".superd.prom.*")); len(left) > 0 || err != nil {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if r := s.Run("metrics", "--runtime-dir", s.RuntimeDir, "--openmetrics"); !strings.HasSuffix(r.Out, "# EOF\n") {
		t.Errorf("OpenMetrics: %q", r.Out)
	}
	if r := s.Ctl("ready"); r.Exit != 0 || r.Out+r.ErrOut != "" {
		t.Errorf("ctl ready of all: exit status %d, %q", r.Exit, r.Out+r.ErrOut)
	}
	if r := s.Ctl("ready", "later"); r.Exit != 3 || r.ErrOut != "later: not ready: stopped\n" {
		t.Errorf("ctl ready: exit status %d, %q", r.Exit, r.ErrOut)
	}
	s.MustCtl("start", "later")
	if r := s.Ctl("ready", "later"); r.Exit != 0 || r.Out+r.ErrOut != "" {
		t.Errorf("ctl ready: exit status %d, %q", r.Exit, r.Out+r.ErrOut)
	}

	cmd := s.Command("metrics", "--runtime-dir", s.RuntimeDir, "--listen", ":0")
	var errOut harness.Output
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	errOut.Wait(t, "/metrics\n")
	_, url, _ := strings.Cut(strings.TrimSpace(errOut.String()), "metrics at ")
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("an address without a host: %s, want the loopback interface", url)
	}
	get := func() series {
		answer, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", url, answer.Status, err)
		}
		return readSeries(t, string(text))
	}
	if got := get(); got["superd_program_ready program=later replica=1"] != 1 {
		t.Errorf("served: %v", got)
	}
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if got := get(); got["superd_up"] != 0 {
		t.Errorf("served after the end of superd: %v", got)
	}
	end(cmd)
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status of the server %d, want 0\n%s", code, &errOut)
	}
}
