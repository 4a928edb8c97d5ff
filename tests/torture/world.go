package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"superd/tests/child"
	"superd/tests/harness"
)

// A victim is what strike kills.
type victim int

const (
	supervisor victim = iota
	keeper
	both
	victims // number of victims
)

func (v victim) String() string { return [...]string{"supervisor", "keeper", "both"}[v] }

// A world is superd with its fifty programs and an operator that gives commands all the time.
type world struct {
	*harness.Site
	all          []program
	operator     *operator
	stopOperator func()
	ledgers      []*ledger

	now     version        // of the superd that answered last
	steady  map[string]int // pids that must never change
	before  resources      // before the first kill
	after   resources
	back    [victims][]time.Duration // time from each kill until superd answered again
	dropped int                      // runs whose last lines are lost, as reported
	excused map[string]bool          // runs whose output superd has reported as dropped
	events  string                   // superd's events, a JSON object a line
}

// A version is what superd reports about itself.
type version struct {
	Pid       int
	KeeperPid *int `json:"keeper_pid"`
}

// A resources is what a supervisor uses when all programs are in their desired state.
type resources struct{ descriptors, rssKiB int }

// strike kills the victim and waits until superd is back.
func (w *world) strike(v victim) {
	w.T.Helper()
	struck := w.now
	begin := time.Now()
	switch {
	case struck.KeeperPid == nil || v == both:
		// The keeper first: the supervisor has no time to take its place.
		if struck.KeeperPid != nil {
			w.kill(*struck.KeeperPid)
		}
		w.kill(struck.Pid)
		w.launch()
	case v == keeper:
		w.kill(*struck.KeeperPid)
	default:
		w.kill(struck.Pid)
	}
	harness.Until(w.T, "superd is back after the end of its "+v.String(), func() bool {
		now, err := w.version()
		replaced := now.Pid != struck.Pid && (v != keeper || now.KeeperPid == nil || *now.KeeperPid != *struck.KeeperPid)
		if err != nil || !replaced {
			return false
		}
		w.now = now
		return true
	})
	w.back[v] = append(w.back[v], time.Since(begin))
	w.check()
}

// launch starts superd. Its messages go to a file, since superd may continue in another process
// than the one started.
func (w *world) launch() {
	w.T.Helper()
	messages, err := os.OpenFile(w.Path(messagesFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		w.T.Fatal(err)
	}
	defer messages.Close()
	w.Launch(func(cmd *exec.Cmd) { cmd.Stderr = messages }).Abandon()
}

const messagesFile = "messages"

// top returns the pid of the process whose end is that of superd.
func (w *world) top() int {
	if w.now.KeeperPid != nil {
		return *w.now.KeeperPid
	}
	return w.now.Pid
}

// stop shuts superd down in order and checks that nothing is left.
func (w *world) stop() {
	w.T.Helper()
	top := w.top()
	w.Kill(top, syscall.SIGTERM)
	note := ""
	w.T.Cleanup(func() {
		if w.T.Failed() {
			w.T.Logf("status, the last one that superd logged:\n%s", note)
		}
	})
	harness.Until(w.T, "superd ends", func() bool {
		if r := w.Ctl("status"); r.Exit == 0 {
			note = r.Out
		}
		return !harness.Alive(top)
	})
	harness.Until(w.T, "nothing is left", func() bool { return len(w.Processes()) == 0 })
	if dirs := w.Cgroups(); len(dirs) > 0 {
		w.T.Errorf("cgroups left behind: %v", dirs)
	}
}

// kill sends SIGKILL to a process, which may be gone.
func (w *world) kill(pid int) {
	w.T.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
		w.T.Fatalf("kill process %d: %v", pid, err)
	}
}

func (w *world) version() (v version, err error) {
	code, body, err := w.Request("GET", "/v1/version")
	if err != nil {
		return v, err
	}
	if code != 200 {
		return v, fmt.Errorf("status %d: %s", code, body)
	}
	return v, json.Unmarshal(body, &v)
}

// awaitAnswer waits until superd answers and records its version.
func (w *world) awaitAnswer() {
	w.T.Helper()
	harness.Until(w.T, "superd answers", func() bool {
		now, err := w.version()
		if err == nil {
			w.now = now
		}
		return err == nil
	})
}

// awaitBack waits until superd answers and the steady programs run, and returns their pids.
func (w *world) awaitBack() (steady map[string]int) {
	w.T.Helper()
	w.awaitAnswer()
	harness.Until(w.T, "the steady programs run", func() bool {
		steady = w.steadyPids()
		return len(steady) == steadyCount+fastCount
	})
	return steady
}

// steadyPids returns the pids of the steady programs that run, which the operator leaves alone; nil
// where superd does not answer.
func (w *world) steadyPids() map[string]int {
	code, body, err := w.Request("GET", "/v1/status")
	var all []harness.Status
	if err != nil || code != 200 || json.Unmarshal(body, &all) != nil {
		return nil
	}
	pids := map[string]int{}
	for _, st := range all {
		if st.State == "running" && (strings.HasPrefix(st.Name, child.Steady) || strings.HasPrefix(st.Name, child.Fast)) {
			pids[st.Name] = st.Pid
		}
	}
	return pids
}

// provoke leads to a failpoint that the operator does not reach.
func (w *world) provoke(failpoint string) {
	if strings.HasPrefix(failpoint, "upgrade.") {
		w.Ctl("upgrade") // superd is killed meanwhile, so any result is right
	}
}

// check checks what must hold at any time.
func (w *world) check() {
	w.T.Helper()
	if got := w.steadyPids(); !maps.Equal(got, w.steady) {
		for name, pid := range w.steady {
			if got[name] != pid {
				w.T.Errorf("%s had pid %d, is now: %v", name, pid, w.Status(name))
			}
		}
	}
	if twice := w.Read("twice"); twice != "" {
		w.T.Errorf("run while another run lives:\n%s", twice)
	}
	for _, l := range w.ledgers {
		if err := l.readRotated(); err != nil {
			w.T.Fatal(err)
		}
		l.sum()
		w.report(l)
	}
}

func (w *world) report(l *ledger) {
	for _, fault := range l.faults {
		w.T.Error(fault)
	}
	l.faults = nil
}

// finish lets the programs come to rest, checks them, shuts superd down and reads the logs.
func (w *world) finish() {
	w.T.Helper()
	w.stopOperator()
	for _, err := range w.operator.wrong {
		w.T.Errorf("command not answered: %v", err)
	}
	for _, toy := range pick(w.all, func(p program) bool { return p.toy }) {
		w.awaitTarget(toy)
	}
	w.check()
	w.after = w.resources()
	w.checkZombies()

	w.noteDrops() // now: the event log goes with the runtime directory
	w.stop()
	for _, l := range w.ledgers {
		if err := l.readAll(); err != nil {
			w.T.Fatal(err)
		}
		for _, l := range l.sum() {
			w.report(l)
			for _, end := range l.open {
				if !w.excused[end.run] {
					w.T.Errorf("%s: run %s: nothing after line %d, and no gap is reported. Events of this run:\n%s", l.instance, end.run, end.last, w.eventsOf(end.run))
				}
				w.dropped++
			}
		}
	}
	w.checkRuns()
}

// awaitTarget waits until a toy is in the state that the operator asked for last.
func (w *world) awaitTarget(toy program) {
	w.T.Helper()
	up, known := w.operator.targets[toy.name]
	if !known {
		up = toy.kind != child.Once
	}
	w.WaitStatus(toy.name, fmt.Sprintf("is as wanted, up: %v", up), func(st harness.Status) bool {
		switch {
		case !up:
			return st.State == "stopped" || toy.kind == child.Once && st.State == "exited"
		case toy.kind == child.Once:
			// How a run ended while no superd was there is unknown, and a one-shot that may have
			// run is not run again.
			return st.State == "exited" || st.State == "failed" && !st.Exit.Known
		}
		return st.State == "running"
	})
}

// resources returns what the supervisor uses.
func (w *world) resources() resources {
	return resources{len(w.FDs(w.now.Pid)), w.KiB(w.now.Pid, "status", "VmRSS")}
}

// compareResources checks that superd has not grown. The number of log files open at a moment
// varies, and so does the memory in the runtime's pools.
func (w *world) compareResources() {
	w.T.Helper()
	if w.after.descriptors > w.before.descriptors+len(w.all)+10 {
		w.T.Errorf("superd has %d descriptors, had %d", w.after.descriptors, w.before.descriptors)
	}
	if w.after.rssKiB > 2*w.before.rssKiB {
		w.T.Errorf("superd takes %d KiB, took %d", w.after.rssKiB, w.before.rssKiB)
	}
}

// checkZombies checks that no child of superd stays a zombie.
func (w *world) checkZombies() {
	w.T.Helper()
	parents := []int{w.now.Pid}
	if w.now.KeeperPid != nil {
		parents = append(parents, *w.now.KeeperPid)
	}
	var zombies []int
	harness.Until(w.T, "nothing below superd is a zombie for long", func() bool {
		var now []int
		for _, parent := range parents {
			now = append(now, w.Zombies(parent)...)
		}
		still := slices.ContainsFunc(zombies, func(pid int) bool { return slices.Contains(now, pid) })
		zombies = now
		return !still
	})
}

// noteDrops records the runs whose output superd has reported as dropped.
func (w *world) noteDrops() {
	w.T.Helper()
	w.events = w.MustCtl("events", "--json").Out
	if w.excused == nil {
		w.excused = map[string]bool{}
	}
	for line := range strings.Lines(w.events) {
		var e struct{ Kind, Run, Reason string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.T.Fatalf("event %q: %v", line, err)
		}
		if e.Kind == "output" && strings.Contains(e.Reason, "lost") {
			w.excused[e.Run] = true
		}
	}
}

// eventsOf returns the events that name the run.
func (w *world) eventsOf(run string) string {
	var b strings.Builder
	for line := range strings.Lines(w.events) {
		if strings.Contains(line, run) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// checkRuns checks that one-shots have run no oftener than they were asked to.
func (w *world) checkRuns() {
	w.T.Helper()
	for _, p := range pick(w.all, func(p program) bool { return p.kind == child.Once }) {
		runs := strings.Fields(w.Read(filepath.Join("runs", p.name)))
		if distinct := len(slices.Compact(slices.Sorted(slices.Values(runs)))); distinct != len(runs) || len(runs) > w.operator.starts[p.name] {
			w.T.Errorf("%s has run %d times, %d of them different, asked for at most %d", p.name, len(runs), distinct, w.operator.starts[p.name])
		}
	}
}

// table returns a summary.
func (w *world) table() string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "killed\ttimes\tback after: median\tworst")
	for v := range victims {
		took := slices.Sorted(slices.Values(w.back[v]))
		if len(took) > 0 {
			fmt.Fprintf(t, "%v\t%d\t%v\t%v\n", v, len(took), took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
		}
	}
	t.Flush()
	lines, runs, missing := 0, 0, 0
	for _, l := range w.ledgers {
		for _, l := range l.sum() {
			lines += l.lines
			runs += l.runs
			missing += len(l.open)
		}
	}
	fmt.Fprintf(&b, "%d programs, %d of them with the same pid throughout; %d commands answered\n", len(w.all), len(w.steady), w.operator.commands)
	fmt.Fprintf(&b, "%d runs, %d numbered lines, each once and in order; %d runs with a reported gap\n", runs, lines, missing)
	fmt.Fprintf(&b, "superd: %d descriptors and %d KiB before, %d and %d after\n",
		w.before.descriptors, w.before.rssKiB, w.after.descriptors, w.after.rssKiB)
	return b.String()
}

// failpoints returns the names in superd's code.
func failpoints(t interface{ Fatal(...any) }) []string {
	var names []string
	call := regexp.MustCompile(`failpoint\.Here\("([a-z.-]+)"\)`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range call.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
		return err
	})
	if err != nil || len(names) == 0 {
		t.Fatal("failpoints in superd's code: ", names, err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
