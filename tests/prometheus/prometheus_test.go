// Package prometheus has Debian's Prometheus scrape a superd, check its metrics, and load the
// alerts and the queries of the dashboard in packaging.
//
// make test-metrics installs it and runs this.
package prometheus

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

var enabled = flag.Bool("prometheus", false, "run the tests, which need prometheus and promtool")

func TestMain(m *testing.M) {
	flag.Parse()
	if !*enabled {
		os.Exit(m.Run())
	}
	harness.Main(m)
}

func newSite(t *testing.T, programs string) *harness.Site {
	t.Helper()
	if !*enabled {
		t.Skip("make test-metrics runs this")
	}
	s := harness.NewSite(t, programs)
	s.BuildUI()
	return s
}

// promtool checks input, and fails the test if that has a mistake.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestPromtool: promtool has no objection to the metrics, nor to the rules.
func TestPromtool(t *testing.T) {
	s := newSite(t, `
		[program.crashes]
		command = "false"

		[program.daily]
		command = "true"
		type = "oneshot"
		schedule = "@daily"

		[program.web]
		command = ["sh", "-c", "echo output; exec sleep infinity"]
		replicas = 2
		health = { exec = ["true"], interval = "100ms" }
		`)
	s.Start()
	s.WaitState("web@1", "running")
	harness.Until(t, "all metrics are there", func() bool {
		out := s.Run("metrics", "--runtime-dir", s.RuntimeDir).Out
		return strings.Contains(out, "\nsuperd_program_healthy{") && strings.Contains(out, "\nsuperd_program_restart_delay_seconds{")
	})
	promtool(t, s.Run("metrics", "--runtime-dir", s.RuntimeDir).Out, "check", "metrics")
	promtool(t, "", "check", "rules", "../../packaging/prometheus/superd.rules.yml")
}

// A server is a running Prometheus.
type server struct {
	t   *testing.T
	url string
}

// startServer starts a Prometheus that scrapes target each second.
func startServer(s *harness.Site, target string) *server {
	t := s.T.(*testing.T)
	rules, err := filepath.Abs("../../packaging/prometheus/superd.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	s.Write("prometheus.yml", fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: superd
    static_configs: [{targets: [%q]}]
`, rules, target))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	cmd := exec.Command("prometheus", "--config.file="+s.Path("prometheus.yml"),
		"--storage.tsdb.path="+s.Path("prometheus"), "--web.listen-address="+address)
	var errOut harness.Output
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	errOut.Wait(t, "Server is ready to receive web requests")
	return &server{t, "http://" + address}
}

// get decodes the data of an answer.
func (p *server) get(path string, into any) {
	p.t.Helper()
	answer, err := http.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer answer.Body.Close()
	var body struct {
		Error string
		Data  json.RawMessage
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		p.t.Fatal(err)
	}
	if body.Error != "" {
		p.t.Fatalf("%s: %s", path, body.Error)
	}
	if err := json.Unmarshal(body.Data, into); err != nil {
		p.t.Fatal(err)
	}
}

// values returns the values of a query, in ascending order.
func (p *server) values(query string) (all []float64) {
	p.t.Helper()
	var data struct {
		Result []struct {
			Value  [2]any
			Values [][2]any
		}
	}
	p.get("/api/v1/query?query="+url.QueryEscape(query), &data)
	for _, r := range data.Result {
		for _, v := range append(r.Values, r.Value) {
			if text, ok := v[1].(string); ok {
				f, err := strconv.ParseFloat(text, 64)
				if err != nil {
					p.t.Fatal(err)
				}
				all = append(all, f)
			}
		}
	}
	slices.Sort(all)
	return all
}

// one returns the value of a query that has one; -1 if it has none yet.
func (p *server) one(query string) float64 {
	p.t.Helper()
	if all := p.values(query); len(all) == 1 {
		return all[0]
	}
	return -1
}

// TestScrape: Prometheus scrapes 1,000 programs each second. The fastest answer takes 50 ms at
// most: what else the machine does only adds to that. What Prometheus calls a scrape is logged: it
// has the time in which that stores the values. The lag of the loop is logged, too, without that of
// the start; BenchmarkMeter in procs measures superd's own share of it.
func TestScrape(t *testing.T) {
	const programs, longest = 1000, 50 * time.Millisecond
	var file strings.Builder
	for i := range programs {
		fmt.Fprintf(&file, "[program.p%04d]\ncommand = 'sleep infinity'\n", i)
	}
	s := newSite(t, file.String())
	s.Start()
	cmd := s.Command("metrics", "--runtime-dir", s.RuntimeDir, "--listen", "127.0.0.1:0")
	var errOut harness.Output
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	errOut.Wait(t, "/metrics\n")
	_, address, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(errOut.String()), "/metrics"), "http://")
	p := startServer(s, address)
	harness.Until(t, "all programs are scraped", func() bool { return p.one("sum(superd_program_ready)") == programs })

	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	harness.Until(t, "the rules are evaluated", func() bool {
		p.get("/api/v1/rules", &rules)
		return len(rules.Groups) == 1 && !slices.ContainsFunc(rules.Groups[0].Rules,
			func(r struct{ Name, Health, LastError string }) bool { return r.Health == "unknown" })
	})
	for _, r := range rules.Groups[0].Rules {
		if r.Health != "ok" {
			t.Errorf("rule %s: %s", r.Name, r.LastError)
		}
	}
	for _, query := range dashboardQueries(t) {
		p.values(query)
	}

	const enough, minutes = 60, 3 // superd forgets the lag of its start after two
	var took []float64
	for n := range minutes {
		harness.Until(t, "there are enough scrapes", func() bool {
			took = p.values("scrape_duration_seconds[4m]")
			return len(took) >= (n+1)*enough
		})
	}
	t.Logf("%d scrapes of %.0f series: %.0f ms at least, median %.0f ms, %.0f ms at most; loop lag %.1f ms",
		len(took), p.one("scrape_samples_scraped"), took[0]*1e3, took[len(took)/2]*1e3, took[len(took)-1]*1e3,
		p.one("superd_loop_lag_seconds")*1e3)
	var answers []time.Duration
	for range enough {
		answers = append(answers, answerTime(t, "http://"+address+"/metrics"))
	}
	slices.Sort(answers)
	t.Logf("%d answers: %v at least, median %v, %v at most", enough, answers[0], answers[enough/2], answers[enough-1])
	if answers[0] > longest {
		t.Errorf("no answer took less than %v, want %v", answers[0], longest)
	}
}

// answerTime returns how long an answer takes, to its last byte.
func answerTime(t *testing.T, url string) time.Duration {
	t.Helper()
	begun := time.Now()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	return time.Since(begun).Round(100 * time.Microsecond)
}

// dashboardQueries returns the queries of the dashboard, with values for its variables.
func dashboardQueries(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../packaging/grafana/superd.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$instance", ".*", "$program", ".*", "$__rate_interval", "1m")
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all = append(all, variables.Replace(target.Expr))
		}
	}
	if len(all) == 0 {
		t.Error("the dashboard has no queries")
	}
	return all
}
