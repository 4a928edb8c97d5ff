package tests

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// A delivery is what a receiver of alerts gets.
type delivery struct {
	ID, Receiver string
	Attempt      int
	Test         bool
	Alerts       []alert
	More         []any
	Lost         *struct{ Events *uint64 }

	Key, Signature, Type string // headers of a webhook
	Body                 []byte
}

type alert struct {
	ID, Condition, Instance, Program, Text string
	Number                                 uint64
	Reminder                               int
	Recovers, Output                       []string
	Exit                                   *harness.ExitStatus
}

// An inbox is an HTTP server that receives alerts.
type inbox struct {
	*httptest.Server
	t *testing.T

	mu sync.Mutex
	// Answers a request; nil: 204
	answer func(d *delivery, w http.ResponseWriter, r *http.Request)
	all    []delivery // that were answered with success
	got    int        // all requests
}

func newInbox(t *testing.T) *inbox {
	in := &inbox{t: t}
	in.Server = httptest.NewServer(in)
	t.Cleanup(in.Close)
	return in
}

// A statusWriter knows the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (in *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // superd was killed
	}
	d := delivery{
		Key: r.Header.Get("Idempotency-Key"), Signature: r.Header.Get("X-Superd-Signature-256"),
		Type: r.Header.Get("Content-Type"), Body: body,
	}
	if d.Type == "application/json" {
		if err := json.Unmarshal(body, &d); err != nil {
			in.t.Errorf("a delivery is %q: %v", body, err)
		}
	}
	in.mu.Lock()
	in.got++
	answer := in.answer
	in.mu.Unlock()
	status := &statusWriter{w, http.StatusNoContent}
	if answer != nil {
		answer(&d, status, r)
	} else {
		status.WriteHeader(http.StatusNoContent)
	}
	if status.status < 300 && r.Context().Err() == nil {
		in.mu.Lock()
		in.all = append(in.all, d)
		in.mu.Unlock()
	}
}

// alerts returns all alerts that were received.
func (in *inbox) alerts() (all []alert) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, d := range in.all {
		all = append(all, d.Alerts...)
	}
	return all
}

func (in *inbox) requests() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.got
}

func (in *inbox) answerWith(answer func(*delivery, http.ResponseWriter, *http.Request)) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.answer = answer
}

// wait waits for an alert and returns it.
func (in *inbox) wait(condition, instance string) (found alert) {
	in.t.Helper()
	harness.Until(in.t, condition+" of "+instance+" arrives", func() bool {
		i := slices.IndexFunc(in.alerts(), func(a alert) bool { return a.Condition == condition && a.Instance == instance })
		if i >= 0 {
			found = in.alerts()[i]
		}
		return i >= 0
	})
	return found
}

// TestWebhook: alerts come as signed requests; one that is refused comes again.
func TestWebhook(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	const refused = 2
	in.answerWith(func(_ *delivery, w http.ResponseWriter, _ *http.Request) {
		if in.requests() <= refused {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, "thanks\x1b[2J")
	})
	s := harness.NewSite(t, `
		[program.job]
		type = "oneshot"
		command = ["sh", "-c", "echo no such table; exit 3"]
		autostart = false
		groups = ["batch"]
		[program.other]
		type = "oneshot"
		command = "false"
		[notify.ops]
		programs = ["bat*", "batch"]
		webhook = "`+in.URL+`/hook?token=secret"
		secret_file = "key"
		batch = "100ms"
		[notify.chat]
		on = ["failed"]
		programs = ["job"]
		webhook = "`+in.URL+`"
		template = "{{range .alerts}}{{.program}}: {{range .output}}{{.}}{{end}}{{end}}"
		batch = "1s"
		`)
	s.Write("key", "  It's a Secret\n")
	s.Chmod("key", 0o600)
	s.Start()
	s.Ctl("start", "job")
	a := in.wait("failed", "job")
	if a.Program != "job" || a.Exit.String() != "3" || !strings.HasPrefix(a.Text, "job has failed: exit status 3") {
		t.Errorf("the alert is %+v", a)
	}
	harness.Until(t, "both receivers have it", func() bool {
		in.mu.Lock()
		defer in.mu.Unlock()
		return len(in.all) == 2
	})
	in.mu.Lock()
	for _, d := range in.all {
		if strings.HasPrefix(d.Type, "text/plain") {
			if string(d.Body) != "job: no such table" || d.Signature != "" {
				t.Errorf("by the template comes %q, signed %q", d.Body, d.Signature)
			}
			continue
		}
		mac := hmac.New(sha256.New, []byte("It's a Secret"))
		mac.Write(d.Body)
		if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); d.Signature != want {
			t.Errorf("the signature is %q, want %q", d.Signature, want)
		}
		if d.Key != d.Alerts[0].ID || d.ID != d.Key || !strings.HasPrefix(d.ID, fmt.Sprint(a.Number)+"-") {
			t.Errorf("the key is %q, the alert %+v", d.Key, d.Alerts[0])
		}
	}
	in.mu.Unlock()

	out := s.MustCtl("notify", "test", "ops").Out
	if !strings.Contains(out, "ops: delivered, status 200, in ") || !strings.Contains(out, `thanks`) || strings.Contains(out, "\x1b") {
		t.Errorf("the test says\n%s", out)
	}
	in.wait("test", "")
	if out := s.MustCtl("notify").Out; !strings.Contains(out, "ok") || strings.Contains(out, "token") {
		t.Errorf("the receivers are\n%s", out)
	}
	s.Chmod("key", 0o644)
	if r := s.Ctl("notify", "test", "ops"); r.Exit == 0 || !strings.Contains(r.ErrOut, "can be read by others") {
		t.Errorf("with a secret that all may read, the test says %q, %d", r.ErrOut, r.Exit)
	}
	if r := s.Ctl("notify", "test", "osp"); r.Exit == 0 || !strings.Contains(r.ErrOut, `did you mean "ops"?`) {
		t.Errorf("a test of another one says %q", r.ErrOut)
	}
	status, body, err := s.Request("GET", "/v1/notify")
	var all []struct {
		Name, Kind string
		Delivered  int
		Lag        int
		LastError  *string `json:"last_error"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &all) != nil || len(all) != 2 || all[1].Name != "ops" || all[1].Delivered != 1 || all[1].Lag != 0 {
		t.Errorf("GET /v1/notify: %d, %s, %v", status, body, err)
	}
}

// TestStalledReceiver: a receiver that does not answer, and one that closes the connection, delay
// neither the other one nor superd.
func TestStalledReceiver(t *testing.T) {
	t.Parallel()
	stalled, dying, good := newInbox(t), newInbox(t), newInbox(t)
	released := make(chan struct{})
	t.Cleanup(func() { close(released) }) // before the server is closed
	stalled.answerWith(func(_ *delivery, _ http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
		case <-r.Context().Done():
		}
	})
	dying.answerWith(func(*delivery, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s := harness.NewSite(t, `
		[program.job]
		type = "oneshot"
		command = "false"
		autostart = false
		[notify.stalled]
		webhook = "`+stalled.URL+`"
		batch = "0s"
		timeout = "300ms"
		[notify.dying]
		webhook = "`+dying.URL+`"
		batch = "0s"
		[notify.good]
		webhook = "`+good.URL+`"
		batch = "0s"
		rate = 0
		`)
	s.Start()
	for range 3 {
		s.Ctl("start", "job")
	}
	harness.Until(t, "the good one has all", func() bool { return len(good.alerts()) == 3 })
	harness.Until(t, "the others are tried again", func() bool { return stalled.requests() >= 2 && dying.requests() >= 2 })
	out := s.MustCtl("notify").Out
	if strings.Count(out, "failing") != 2 || !strings.Contains(out, "no answer within timeout 300ms") {
		t.Errorf("the receivers are\n%s", out)
	}
	// Each gets all when it answers
	for _, in := range []*inbox{stalled, dying} {
		in.answerWith(nil)
		harness.Until(t, "it gets all", func() bool { return len(in.alerts()) == 3 })
	}
}

// TestRedirect: a redirect does not lead the alerts elsewhere.
func TestRedirect(t *testing.T) {
	t.Parallel()
	elsewhere, in := newInbox(t), newInbox(t)
	in.answerWith(func(_ *delivery, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", elsewhere.URL)
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	s := harness.NewSite(t, `
		[program.job]
		command = "sleep infinity"
		[notify.in]
		webhook = "`+in.URL+`"
		`)
	s.Env = append(s.Env, "http_proxy="+elsewhere.URL, "HTTP_PROXY="+elsewhere.URL)
	s.Start()
	if r := s.Ctl("notify", "test", "in"); r.Exit == 0 || !strings.Contains(r.ErrOut, "redirects are not followed") {
		t.Errorf("the test says %q", r.ErrOut)
	}
	if elsewhere.requests() > 0 {
		t.Error("the alert came elsewhere")
	}
}

// TestAlertCommand: a command gets alerts on standard input. It is killed with all its processes
// when its time is over, when superd ends, and by a successor of a superd that was killed.
func TestAlertCommand(t *testing.T) {
	for name, option := range map[string]func(*exec.Cmd){
		"cgroups": func(*exec.Cmd) {}, "no cgroups": harness.NoCgroups,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testAlertCommand(t, option)
		})
	}
}

func testAlertCommand(t *testing.T, option func(*exec.Cmd)) {
	s := harness.NewSite(t, `
		[program.job]
		type = "oneshot"
		command = "false"
		autostart = false
		[notify.mail]
		exec = ["sh", "-c", "cat > DIR/got; echo $SUPERD_RECEIVER $SUPERD_ALERT_KEY; pwd; exit $(cat DIR/status)"]
		batch = "0s"
		[notify.hung]
		exec = ["sh", "-c", "setsid sleep 1234 & sleep 1234"]
		batch = "0s"
		timeout = "500ms"
		[notify.long]
		exec = ["sh", "-c", "echo >> DIR/long; setsid sleep 1235 & sleep 1235"]
		batch = "0s"
		`)
	s.Write("status", "0")
	d := s.Start(option)
	s.Ctl("start", "job")
	var got delivery
	harness.Until(t, "the command has the alert", func() bool { return json.Unmarshal([]byte(s.Read("got")), &got) == nil })
	if len(got.Alerts) != 1 || got.Alerts[0].Condition != "failed" || got.Receiver != "mail" {
		t.Errorf("the command gets %s", s.Read("got"))
	}
	harness.Until(t, "its output is in superd's log", func() bool {
		return strings.Contains(d.ErrOut.String(), "mail "+got.Alerts[0].ID+"; "+s.Dir)
	})
	sleeping := func(text string) (n int) {
		for _, p := range s.Processes() {
			if strings.HasPrefix(p.Command, "sleep "+text) {
				n++
			}
		}
		return n
	}
	harness.Until(t, "the time-out of the hung one is noticed", func() bool {
		return strings.Contains(s.MustCtl("notify").Out, "still running after timeout 500ms")
	})
	s.Write("status", "7")
	if r := s.Ctl("notify", "test", "mail"); r.Exit == 0 || !strings.Contains(r.ErrOut, "exit status 7") || !strings.Contains(r.ErrOut, "mail test-") {
		t.Errorf("the test of a command that fails says %q", r.ErrOut)
	}
	harness.Until(t, "the long one runs", func() bool { return sleeping("1235") == 2 })

	s.Kill(d.Pid, syscall.SIGKILL)
	d.FindSupervisor()
	harness.Until(t, "the successor runs it anew", func() bool { return strings.Count(s.Read("long"), "\n") == 2 })
	harness.Until(t, "and has killed what was left", func() bool { return sleeping("1235") == 2 && sleeping("1234") <= 2 })
	s.MustCtl("shutdown")
	if status := d.Wait(); status != 0 {
		t.Errorf("superd ended with status %d", status)
	}
	harness.Until(t, "no process is left", func() bool { return sleeping("123") == 0 })
}

// TestAlertsReload: a reload adds, changes and removes receivers. A new one gets what comes from
// then on, one that is changed misses nothing, and what is removed leaves no file.
func TestAlertsReload(t *testing.T) {
	t.Parallel()
	a, b := newInbox(t), newInbox(t)
	const programs = `
		[program.job]
		type = "oneshot"
		command = "false"
		autostart = false
		`
	receiver := func(name string, in *inbox, more string) string {
		return fmt.Sprintf("[notify.%s]\nwebhook = %q\nbatch = \"0s\"\n%s\n", name, in.URL, more)
	}
	s := harness.NewSite(t, programs)
	s.Start()
	if _, err := os.Stat(s.Path("run/alerts")); err == nil {
		t.Error("there are states without receivers")
	}
	s.Ctl("start", "job")
	s.Configure(programs + receiver("a", a, ""))
	s.MustCtl("reload")
	s.Ctl("start", "job")
	first := a.wait("failed", "job")
	a.answerWith(func(_ *delivery, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	s.Ctl("start", "job")
	harness.Until(t, "the second one is refused", func() bool { return a.requests() >= 2 })
	s.Configure(programs + receiver("a", b, "rate = 7") + receiver("new", a, ""))
	if out := s.MustCtl("reload").Out; !strings.Contains(out, "notify.a changed: webhook, rate") || !strings.Contains(out, "notify.new added") || strings.Contains(out, b.URL) {
		t.Errorf("the reload says\n%s", out)
	}
	second := b.wait("failed", "job")
	if n := len(a.alerts()); n != 1 || second.Number <= first.Number || len(b.alerts()) != 1 {
		t.Errorf("%d alerts came to the former URL, and %v to the new one", n, b.alerts())
	}
	s.Configure(programs)
	s.MustCtl("reload")
	harness.Until(t, "the states are removed", func() bool {
		all, err := os.ReadDir(s.Path("run/alerts"))
		return err == nil && len(all) == 0
	})
	if out := s.MustCtl("notify", "--json").Out; strings.TrimSpace(out) != "[]" && strings.Contains(out, "name") {
		t.Errorf("there still are %s", out)
	}
	s.Configure(programs + "[notify.a]\nexec = \"cat\"\nwebhook = \"x\"\n")
	if r := s.Ctl("reload"); r.Exit == 0 || !strings.Contains(r.ErrOut, "excludes webhook") {
		t.Errorf("a reload with a mistake says %q", r.ErrOut)
	}
}

// TestAlertsRemind: reminders come while a program is down, and a recovery when it is up.
func TestAlertsRemind(t *testing.T) {
	t.Parallel()
	in := newInbox(t)
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "test -e DIR/up && exec sleep infinity; exit 1"]
		backoff = { initial = "10ms", max = "10ms" }
		[notify.in]
		webhook = "`+in.URL+`"
		batch = "50ms"
		repeat = "300ms"
		rate = 0
		`)
	s.Start()
	a := in.wait("flapping", "web")
	if !strings.HasPrefix(a.Text, "web is flapping: 5 automatic restarts within ") {
		t.Errorf("the alert is %+v", a)
	}
	if out := s.MustCtl("status").Out; !strings.Contains(out, "flapping for ") {
		t.Errorf("the status is\n%s", out)
	}
	if out := s.MustCtl("why", "web").Out; !strings.Contains(out, "It is flapping since ") {
		t.Errorf("why says\n%s", out)
	}
	harness.Until(t, "there are two reminders", func() bool {
		return slices.ContainsFunc(in.alerts(), func(a alert) bool { return a.Condition == "flapping" && a.Reminder == 2 })
	})
	s.Write("up", "")
	s.WaitState("web", "running")
	s.MustCtl("stop", "web")
	if events := eventsOf(s, "web", "flapping"); len(events) != 2 || events[1].State != "over" {
		t.Errorf("the events are %+v", events)
	}
}

// alertsEnv sets how many alerts TestAlertsSurviveKills makes.
const alertsEnv = "SUPERD_TEST_ALERTS"

// TestAlertsSurviveKills: superd is killed again and again while deliveries are under way, and each
// event of the event log arrives at least once.
func TestAlertsSurviveKills(t *testing.T) {
	t.Parallel()
	wanted, replicas := 300, 25
	if text := os.Getenv(alertsEnv); text != "" {
		wanted, _ = strconv.Atoi(text)
		replicas = 100
	}
	in := newInbox(t)
	kill, killed := make(chan struct{}), make(chan struct{})
	const every = 37 // each so many requests superd is killed before the answer
	in.answerWith(func(_ *delivery, w http.ResponseWriter, r *http.Request) {
		if in.requests()%every != 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		kill <- struct{}{}
		<-killed
		<-r.Context().Done() // the connection is gone
	})
	s := harness.NewSite(t, fmt.Sprintf(`
		[program.job]
		type = "oneshot"
		command = "false"
		autostart = false
		replicas = %d
		[notify.in]
		on = ["failed"]
		webhook = %q
		batch = "0s"
		rate = 0
		`, replicas, in.URL))
	d := s.Start(func(cmd *exec.Cmd) { cmd.Args = append(cmd.Args, "--restart-max=20ms") })
	stop, ended := make(chan struct{}), make(chan struct{})
	kills := 0
	go func() {
		defer close(ended)
		for {
			select {
			case <-kill:
				// The supervisor may be in the middle of a batch of events
				pid := d.Pid
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Errorf("kill superd: %v", err)
				}
				kills++
				d.FindSupervisor()
				killed <- struct{}{}
			case <-stop:
				return
			}
		}
	}()
	began := time.Now()
	numbers, since := map[uint64]bool{}, uint64(0)
	for len(numbers) < wanted {
		s.Ctl("start", "job") // fails, and is cut off by a kill now and then
		harness.Until(t, "no run is under way", func() bool {
			var all []harness.Status
			_, body, err := s.Request("GET", "/v1/status?brief=1")
			return err == nil && json.Unmarshal(body, &all) == nil && len(all) == replicas &&
				!slices.ContainsFunc(all, func(st harness.Status) bool { return st.State != "failed" && st.State != "stopped" })
		})
		read := s.Ctl("events", "--json", "--since", fmt.Sprint(since))
		if read.Exit != 0 {
			continue // superd was killed meanwhile
		}
		for line := range strings.Lines(read.Out) {
			var e event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("event: %v in %q", err, line)
			}
			if since = max(since, e.Cursor); e.Kind == "state" && e.State == "failed" {
				numbers[e.Cursor] = true
			}
		}
		harness.Until(t, "all arrive", func() bool {
			arrived := map[uint64]bool{}
			for _, a := range in.alerts() {
				arrived[a.Number] = true
			}
			for n := range numbers {
				if !arrived[n] {
					return false
				}
			}
			return true
		})
	}
	close(stop)
	<-ended
	arrived := in.alerts()
	t.Logf("%d events, %d alerts at the receiver, superd killed %d times, in %v",
		len(numbers), len(arrived), kills, time.Since(began).Round(time.Second))
	if kills < wanted/every/2 {
		t.Errorf("superd was killed %d times only", kills)
	}
	s.Write("done", "")
}
