package tests

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"superd/tests/harness"
)

var requestSeed = flag.Uint64("requests.seed", 2, "seed of the random requests")

// everyKind has programs of every kind, in every state.
const everyKind = `
	[defaults]
	backoff = { initial = "10ms", max = "50ms" }
	stop_timeout = "200ms"
	[program.crashes]
	command = "sh -c 'echo crash; exit 3'"
	groups = ["group"]
	[program.several]
	command = "sleep infinity"
	requires = ["labelled"]
	replicas = 2
	[program.none]
	command = "sleep infinity"
	replicas = 0
	groups = ["empty"]
	[program.scheduled]
	type = "oneshot"
	command = "true"
	schedule = "@every 1s"
	[program.missing]
	command = "./there-is-no-such-program"
	start_limit = { failures = 2 }
	[program.direct]
	command = "sh -c 'echo x; sleep 0.2'"
	log = { format = "direct" }
	[program.labelled]
	command = "sh -c 'echo x; echo y >&2; sleep infinity'"
	log = { format = "json", stderr = "label" }
	[program.separate]
	command = "sh -c 'echo x; echo y >&2; sleep 0.3'"
	log = { stderr = "separate", max_size = "1KB", keep = 1 }
	[program.logs]
	command = "sh -c 'echo x; sleep 0.2'"
	log = { sink = "command", command = "cat" }
	[program.hooks]
	command = "sleep infinity"
	pre_start = [["true"]]
	post_stop = [["true"]]
	health = { exec = ["false"], interval = "100ms", timeout = "50ms", failures = 2 }
	[program.unready]
	command = "sleep infinity"
	ready = { line = "never" }
	start_timeout = "300ms"
	`

// TestRandomRequests: superd answers any requests in any order, in the promised form, and survives.
func TestRandomRequests(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, everyKind)
	d := s.Start()
	const clients, each = 4, 500
	var all sync.WaitGroup
	for client := range uint64(clients) {
		all.Go(func() {
			r := &requests{rand.New(rand.NewPCG(*requestSeed, client))}
			for range each {
				method, path := r.next()
				status, body, err := s.Request(method, path)
				switch answer := json.Valid(body); {
				case err != nil:
					t.Errorf("%s %s: %v", method, path, err)
				case status >= 500 && status != http.StatusGatewayTimeout, status >= 400 && !answer:
					t.Errorf("%s %s: status %d: %.300s", method, path, status, body)
				}
			}
		})
	}
	all.Wait()
	if out := s.MustCtl("version", "--json").Out; !strings.Contains(out, fmt.Sprintf(`"pid":%d,`, d.Pid)) {
		t.Errorf("ctl version: %s, want pid %d: superd has died of a request; see -requests.seed", out, d.Pid)
	}
}

// requests draws requests, most of them reasonable.
type requests struct{ *rand.Rand }

func (r *requests) next() (method, path string) {
	routes := []string{
		"GET /v1/status name brief", "GET /v1/programs/{name}/logs lines", "GET /v1/logs name lines since run grep raw cursor blocks times", "GET /v1/tree name",
		"GET /v1/programs/{name}/why", "GET /v1/events since", "GET /v1/history name", "GET /v1/version", "POST /v1/reload dry_run",
		"POST /v1/programs/signal name signal", "POST /v1/programs/{name}/signal signal", "POST /v1/scale scale wait timeout",
		"POST /v1/programs/start name wait timeout", "POST /v1/programs/stop name wait timeout", "POST /v1/programs/{name}/restart wait timeout",
	}
	route := strings.Fields(r.of(routes...))
	form := url.Values{}
	for _, parameter := range route[2:] {
		for range r.IntN(3) {
			form.Add(parameter, r.value(parameter))
		}
	}
	if form.Get("wait") != "0" && strings.Contains(route[1], "/start") {
		form.Set("timeout", "100ms") // a start that never gets ready would be waited for
	}
	path = strings.Replace(route[1], "{name}", url.PathEscape(r.value("name")), 1)
	return route[0], path + "?" + form.Encode()
}

func (r *requests) of(some ...string) string { return some[r.IntN(len(some))] }

func (r *requests) value(parameter string) string {
	switch parameter {
	case "name":
		return r.of("crashes", "several", "several@1", "several@7", "none", "none@1", "scheduled", "missing", "direct", "labelled", "separate", "logs",
			"logs.logger", "hooks", "unready", "group", "empty", "*", "s*", "nobody", "[", "@1", "a@", "", "..", "\x00", "é", strings.Repeat("x", 300))
	case "scale":
		return r.value("name") + "=" + r.of("0", "1", "2", "3", "-1", "99999999", "x", "")
	case "wait", "brief", "dry_run":
		return r.of("0", "1", "x")
	case "timeout":
		return r.of("100ms", "200ms", "1ns", "0", "-1s", "x")
	case "signal":
		return r.of("HUP", "TERM", "SIGKILL", "STOP", "CONT", "64", "0", "65", "-1", "x", "")
	case "grep":
		return r.of("x", "^$", "[", "(a*)*$")
	case "since":
		return r.of("0", "1", "10m", "2026-01-01T00:00:00Z", "18446744073709551615", "-1", "x")
	default:
		return r.of("0", "1", "-1", "-2", "10", "999999999999", "x", "")
	}
}
