package web

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"

	"superd/tests/harness"
)

// TestTable: the table shows what programs do while they crash.
func TestTable(t *testing.T) {
	s, _ := newSite(t, stays+`
[program.crashes]
command = ["sh", "-c", "sleep 0.2; exit 3"]
backoff = { initial = "200ms", max = "200ms" }
[program.ends]
command = ["sh", "-c", "echo '<img src=x onerror=alert(1)>'; exit 1"]
restart = "never"
`)
	b := newTab(t)
	b.enter(s)
	for _, name := range []string{"web", "crashes", "ends"} {
		b.shows("row-" + name)
	}
	b.until("web runs", in("row-web", "state")+`?.textContent.includes("running")`)
	restarts := in("row-crashes", "restarts") + "?.textContent"
	for _, n := range []int{3, 6} {
		b.until(fmt.Sprintf("%d restarts are shown", n), fmt.Sprintf("Number(%s) >= %d", restarts, n))
	}
	b.until("why ends has ended", in("row-ends", "reason")+`?.textContent.includes("exit status 1")`)
	b.fill("filter", "cras")
	b.until("one row is left", at("row-crashes")+" && !"+at("row-web"))
	// A program that is added appears, and one that is removed goes
	s.Configure(stays + "[program.new]\ncommand = 'sleep infinity'\n")
	s.MustCtl("reload")
	b.fill("filter", "")
	b.until("the new program is there", at("row-new")+" && !"+at("row-crashes"))
}

// TestButtons: each command asks first, and does what it says.
func TestButtons(t *testing.T) {
	s, _ := newSite(t, `
[program.web]
command = ["sh", "-c", "trap 'echo got HUP' HUP; echo begun; while :; do sleep 0.05; done"]
reload_signal = "HUP"
[program.many]
command = "sleep infinity"
replicas = 2
[program.fails]
command = "false"
start_limit = { failures = 2, retry_after = "0s" }
backoff = { initial = "10ms" }
`)
	s.WaitState("web", "running")
	s.WaitState("fails", "failed")
	b := newTab(t)
	b.enter(s)
	b.shows("row-web")
	first := s.Status("web").Pid

	b.clickIn("row-web", "action-stop")
	b.click("cancel")
	b.until("the dialog is closed", "!"+at("confirm-dialog"))
	if now := s.Status("web"); now.Pid != first {
		t.Errorf("without a confirmation it is %s, pid %d", now.State, now.Pid)
	}
	b.clickIn("row-web", "action-stop")
	b.confirm()
	s.WaitState("web", "stopped")
	b.clickIn("row-web", "action-start")
	b.confirm()
	second := s.WaitState("web", "running").Pid
	b.clickIn("row-web", "action-restart")
	b.confirm()
	s.WaitStatus("web", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Pid != second })

	// The page of one program
	b.open(s.url + "/#/program/web")
	b.shows("program-page")
	harness.Until(t, "the third run handles SIGHUP", func() bool { return strings.Count(s.Log("web"), "begun") == 3 })
	b.click("action-reload")
	b.confirm()
	s.WaitLog("web", "got HUP")
	b.click("action-signal")
	b.shows("field-signal")
	b.confirm() // HUP
	harness.Until(t, "the signal has come", func() bool { return strings.Count(s.Log("web"), "got HUP") == 2 })
	b.open(s.url + "/#/program/many")
	b.says("program-page", "many")
	b.click("action-scale")
	b.fill("field-scale", "3")
	b.confirm()
	b.shows("replica-many@3") // superd knows it since then
	s.WaitState("many@3", "running")
	pid := s.Status("many@1").Pid
	b.click("action-rolling")
	b.confirm()
	s.WaitStatus("many@1", "is restarted", func(st harness.Status) bool { return st.State == "running" && st.Pid != pid })
	b.open(s.url + "/#/program/fails")
	b.says("program-state", "failed")
	b.click("action-reset-failed")
	b.confirm()
	s.WaitState("fails", "stopped")
	b.says("program-state", "stopped")

	// Several at once, and the configuration
	b.open(s.url + "/#/programs")
	b.shows("row-many@2")
	for _, name := range []string{"many@1", "many@2"} {
		b.clickIn("row-"+name, "select")
	}
	b.click("bulk-stop")
	b.confirm()
	s.WaitState("many@1", "stopped")
	s.WaitState("many@2", "stopped")
	s.Configure("[program.other]\ncommand = 'sleep infinity'\n")
	b.click("reload-open")
	b.says("reload-preview", "other")
	b.confirm()
	s.WaitState("other", "running")
	b.shows("row-other")
}

// TestReconnect: a page goes on through the end of superd, its upgrade and that of superd web, and
// shows each event once.
func TestReconnect(t *testing.T) {
	s, d := newSite(t, stays)
	s.WaitState("web", "running")
	b := newTab(t)
	b.expect("Failed to load resource", "ERR_")
	b.enter(s)
	b.shows("row-web")
	state := in("row-web", "state") + "?.textContent"
	d.Kill()
	b.shows("banner-down")
	b.until("the page says that superd is away", "!"+at("banner-down")+".hidden")
	s.Start()
	b.until("the page says that superd is back", at("banner-down")+".hidden")
	s.MustCtl("stop", "web")
	b.until("it shows a change after kill -9", state+`?.includes("stopped")`)
	s.MustCtl("upgrade", "--binary", s.BuildVersion("two", "2.0"))
	s.MustCtl("start", "web")
	b.until("it shows a change after an upgrade", state+`?.includes("running")`)
	address := strings.TrimPrefix(s.url, "http://")
	s.end()
	b.until("the page says that superd web is away", "!"+at("banner-down")+".hidden")
	s.MustCtl("stop", "web")
	serve(t, s.Site, address)
	b.until("it shows what has changed meanwhile", state+`?.includes("stopped")`)
	b.until("the page says that all is well", at("banner-down")+".hidden")
	b.click("nav-events")
	b.shows("event")
}

// TestThousand: a thousand programs are shown as fast as one reads, and a change of one is shown at
// once.
func TestThousand(t *testing.T) {
	const programs, longest = 1000, 150 * time.Millisecond
	var text strings.Builder
	for i := range programs {
		fmt.Fprintf(&text, "[program.p%04d]\ncommand = 'sleep infinity'\n", i)
	}
	s, _ := newSite(t, text.String())
	s.WaitState("p0999", "running")
	b := newTab(t)
	begin := time.Now()
	b.enter(s)
	b.says("count", strconv.Itoa(programs))
	b.shows("row-p0000")
	opened := time.Since(begin)
	if rows := value[int](b, `document.querySelectorAll('[data-test^="row-"]').length`); rows > 200 {
		t.Errorf("the document has %d rows", rows)
	}
	begin = time.Now()
	b.fill("filter", "p0777")
	b.until("the filter is applied", at("row-p0777")+" && !"+at("row-p0000"))
	filtered := time.Since(begin)
	s.MustCtl("stop", "p0777")
	begin = time.Now()
	b.until("the stop is shown", in("row-p0777", "state")+`?.textContent.includes("stopped")`)
	t.Logf("opened in %v, filtered in %v, a change shown after %v", opened, filtered, time.Since(begin))
	b.fill("filter", "")
	b.shows("row-p0000")
	// Processor time, since what else the machine does only adds to the time that it takes
	call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	busy := func() (seconds float64) {
		for _, m := range call(b, performance.GetMetrics, cdp.Empty{}).Metrics {
			if m.Name == "TaskDuration" {
				seconds = m.Value
			}
		}
		return seconds
	}
	const steps = 40
	before := busy()
	value[bool](b, fmt.Sprintf(`new Promise(done => {
		let step = 0;
		const timer = setInterval(() => { scrollTo(0, ++step * 400); if (step === %d) { clearInterval(timer); done(true); } }, 20);
	})`, steps))
	each := time.Duration((busy() - before) / steps * float64(time.Second))
	t.Logf("a step of scrolling takes %v of processor time", each)
	if before == 0 || each > longest {
		t.Errorf("a step of scrolling takes %v of processor time", each)
	}
}

// TestLogFlood: a log of 10,000 lines a second takes bounded memory, and its newest lines appear.
// WEB_FLOOD is how long it lasts.
func TestLogFlood(t *testing.T) {
	length := 8 * time.Second
	if given := os.Getenv("WEB_FLOOD"); given != "" {
		var err error
		if length, err = time.ParseDuration(given); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := newSite(t, `
[program.flood]
command = ["awk", 'BEGIN { for (;;) { for (i = 0; i < 1000; i++) print "line number " ++n " of a flood of output"; fflush(); system("sleep 0.095") } }']
`)
	s.WaitLog("flood", "line number 1 ")
	b := newTab(t)
	b.enter(s)
	b.open(s.url + "/#/program/flood")
	b.until("lines are shown", at("log-line"))
	heap := func() float64 {
		call(b, heapprofiler.CollectGarbage, cdp.Empty{})
		return value[float64](b, "performance.memory.usedJSHeapSize") / 1e6
	}
	newest := `Number((document.querySelector('[data-test="log-pane"]').textContent.match(/line number (\d+)(?!.*line number)/s) ?? [])[1] ?? 0)`
	begin, first := time.Now(), value[float64](b, newest)
	atFirst, most := heap(), 0.0
	for time.Since(begin) < length {
		harness.Window(t, time.Second)
		if n := value[int](b, `document.querySelectorAll('[data-test="log-line"]').length`); n > 2000 {
			t.Fatalf("the pane has %d lines", n)
		}
		most = max(most, heap())
	}
	last := value[float64](b, newest)
	rate := (last - first) / time.Since(begin).Seconds()
	t.Logf("%v: %.0f lines a second, heap %.1f MB at first, %.1f MB at most", length, rate, atFirst, most)
	if rate < 1000 {
		t.Errorf("the pane falls behind: %.0f lines a second", rate)
	}
	if most > 60 {
		t.Errorf("the page takes %.1f MB", most)
	}
	s.MustCtl("stop", "flood")
	log := s.Log("flood")
	end := log[strings.LastIndex(strings.TrimSpace(log), "\n")+1:]
	b.says("log-pane", strings.TrimSpace(end))
	b.click("log-pause")
	b.click("log-clear")
}
