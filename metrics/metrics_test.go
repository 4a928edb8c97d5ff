package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"superd/control"
	"superd/tests/golden"
	"superd/tests/table"
)

// example has each metric.
func example() *control.Counters {
	at := time.Date(2026, 11, 21, 7, 20, 45, 0, time.UTC)
	return &control.Counters{
		Version: "1.2.3", Commit: new("5f3c"), Started: at, Ready: true, LoopLag: 0.0015,
		Events: map[string]uint64{"state": 7, "exit": 2},
		Instances: []control.InstanceCounter{
			{
				Name: "daily", Program: "daily", Replica: 1, State: "waiting", ScheduleNext: new(at.Add(time.Hour)),
				Starts: map[string]uint32{"schedule-due": 3}, Exits: map[string]uint32{"success": 3},
			},
			{
				Name: "web@1", Program: "web", Replica: 1, State: "running", Healthy: new(true), CheckSeconds: new(0.25),
				Starts: map[string]uint32{"started": 1}, MainStarted: &at, CPU: 1.5, RSS: 9437184, Processes: 3,
				LogBytes: 12345, DroppedBytes: 10,
			},
			{
				Name: "web@2", Program: "web", Replica: 2, State: "backoff", Healthy: new(false), RestartDelay: new(1.5),
				Starts: map[string]uint32{"restarted": 4, "started": 1}, StartFailures: 1,
				Exits: map[string]uint32{"failure": 4, "signal": 1}, LogFailing: true,
			},
		},
	}
}

func gatherer(c *control.Counters) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return Families(c), nil })
}

// TestText compares both formats with golden files.
func TestText(t *testing.T) {
	for name, openMetrics := range map[string]bool{"classic.txt": false, "openmetrics.txt": true} {
		var b bytes.Buffer
		if err := Write(&b, example(), openMetrics); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, b.String())
	}
}

// TestNames: names and help follow Prometheus' rules, and no label is one that Prometheus sets.
func TestNames(t *testing.T) {
	problems, err := testutil.GatherAndLint(gatherer(example()))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	for _, f := range Families(example()) {
		seen := map[string]bool{}
		for _, m := range f.GetMetric() {
			text := ""
			for _, l := range m.GetLabel() {
				text += l.GetName() + "=" + l.GetValue() + " "
				if name := l.GetName(); name == "instance" || name == "job" {
					t.Errorf("%s has the label %s", f.GetName(), name)
				}
			}
			if seen[text] {
				t.Errorf("%s{%s} occurs twice", f.GetName(), text)
			}
			seen[text] = true
		}
	}
}

// TestHandler: the format follows the header Accept, and a superd that does not answer is reported.
func TestHandler(t *testing.T) {
	var answer error
	server := httptest.NewServer(Handler(func(context.Context) (control.Counters, error) { return *example(), answer }))
	defer server.Close()
	get := func(accept string) (contentType, body string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", accept)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", response.Status, err)
		}
		return response.Header.Get("Content-Type"), string(text)
	}
	if kind, body := get("text/plain"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") || strings.Contains(body, "# EOF") {
		t.Errorf("classic: %s", kind)
	}
	if kind, body := get("application/openmetrics-text; version=1.0.0"); !strings.HasPrefix(kind, "application/openmetrics-text; version=1.0.0") ||
		!strings.HasSuffix(body, "# EOF\n") {
		t.Errorf("OpenMetrics: %s", kind)
	}
	answer = errors.New("no superd")
	if _, body := get(""); !strings.Contains(body, "\nsuperd_up 0\n") {
		t.Errorf("without superd: %s", body)
	}
}

// TestFileIsReplacedAsAWhole: a write that fails leaves the old file, and nothing else.
func TestFileIsReplacedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "superd.prom")
	write := func(text string, err error) error {
		return WriteFile(path, func(w io.Writer) error {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
			if found, _ := filepath.Glob(filepath.Join(dir, "*.prom")); len(found) > 0 && text == "first" {
				t.Errorf("found before it is written: %v", found)
			}
			return err
		})
	}
	if err := write("first", nil); err != nil {
		t.Fatal(err)
	}
	if err := write("second", errors.New("full")); err == nil {
		t.Error("no error")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" {
		t.Errorf("%q, %v; want the first text", text, err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("%v: want one file", all)
	}
}

// TestPageIsUpToDate: the page has all metrics with their labels. -update writes it.
func TestPageIsUpToDate(t *testing.T) {
	const page = "../docs/metrics.md"
	var rows [][]string
	for _, f := range Families(example()) {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			if name := l.GetName(); name != "program" && name != "replica" {
				labels = append(labels, "`"+name+"`")
			}
		}
		rows = append(rows, []string{
			"`" + f.GetName() + "`", strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp(),
		})
	}
	text := table.Markdown([]string{"metric", "type", "further labels", ""}, rows)
	if golden.Update() {
		if err := table.Replace(page, "metrics", text); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), text) {
		t.Error("docs/metrics.md has other metrics: go test ./metrics -update")
	}
}

// BenchmarkHandler serves the metrics of 1,000 programs.
func BenchmarkHandler(b *testing.B) {
	c := example()
	web := c.Instances[1]
	c.Instances = nil
	for i := range 1000 {
		web.Program = fmt.Sprintf("program-%d", i)
		c.Instances = append(c.Instances, web)
	}
	server := httptest.NewServer(Handler(func(context.Context) (control.Counters, error) { return *c, nil }))
	defer server.Close()
	for b.Loop() {
		answer, err := http.Get(server.URL)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			b.Fatal(err)
		}
		answer.Body.Close()
	}
}

// BenchmarkText writes the metrics of 1,000 programs.
func BenchmarkText(b *testing.B) {
	c := example()
	web := c.Instances[1]
	c.Instances = nil
	for i := range 1000 {
		web.Program = fmt.Sprintf("program-%d", i)
		c.Instances = append(c.Instances, web)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := Write(io.Discard, c, false); err != nil {
			b.Fatal(err)
		}
	}
}

// TestPackaging: each metric that the dashboard and the alerts name exists, and the dashboard shows
// all of them.
func TestPackaging(t *testing.T) {
	known := map[string]bool{}
	for _, f := range Families(example()) {
		known[f.GetName()] = true
	}
	names := regexp.MustCompile(`\bsuperd_[a-z_]+`)
	dashboard := ""
	for _, path := range []string{"../packaging/grafana/superd.json", "../packaging/prometheus/superd.rules.yml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names.FindAllString(string(text), -1) {
			if !known[name] {
				t.Errorf("%s: there is no metric %s", path, name)
			}
		}
		if filepath.Ext(path) == ".json" {
			dashboard = string(text)
			if !json.Valid(text) {
				t.Errorf("%s is no JSON", path)
			}
		}
	}
	for name := range known {
		// superd_ready and superd_start_time_seconds are for scripts
		if !strings.Contains(dashboard, name) && name != "superd_ready" && name != "superd_start_time_seconds" {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// TestHungSource: a superd that hangs is reported before Prometheus gives up.
func TestHungSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) (control.Counters, error) {
			<-ctx.Done()
			return control.Counters{}, ctx.Err()
		}
		answer, begun := httptest.NewRecorder(), time.Now()
		Handler(hangs).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		if body := answer.Body.String(); !strings.Contains(body, "\nsuperd_up 0\n") || time.Since(begun) >= 10*time.Second {
			t.Errorf("after %v: %s", time.Since(begun), body)
		}
	})
}
