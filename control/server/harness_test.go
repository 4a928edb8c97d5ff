package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/config/listen"
	"superd/control"
	"superd/internal/procfs"
	"superd/logs"
	"superd/loop"
	"superd/procs"
	"superd/procs/counters"
	"superd/procs/diagnosis"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/selection"
)

// patience bounds every wait for something that is sure to happen.
const patience = 90 * time.Second

// A fakeSupervisor answers from its fields and records its calls. It belongs to the loop.
type fakeSupervisor struct {
	all        []procs.Status
	captures   map[string]*logs.Collector
	report     procs.ReloadResult
	loadErr    error
	pending    bool   // whether commands never end
	onStop     func() // called at Shutdown
	unrecorded error  // error of a shutdown that was not recorded
	watchers   map[int]func()
	next       int
	calls      chan string // the calls
	counts     map[string]counters.Counts
	readings   []counters.Reading // of the last count
}

func (f *fakeSupervisor) note(format string, args ...any) { f.calls <- fmt.Sprintf(format, args...) }

func (f *fakeSupervisor) Status(names []string) ([]procs.Status, error) {
	if len(names) == 0 {
		return f.all, nil
	}
	var some []procs.Status
	for _, name := range names {
		before := len(some)
		for _, st := range f.all {
			if st.Name == name || st.Program == name {
				some = append(some, st)
			}
		}
		if len(some) == before {
			return nil, &selection.UnknownNameError{Name: name, Known: []string{"web"}}
		}
	}
	return some, nil
}

func (f *fakeSupervisor) Brief(names []string) (brief []procs.Brief, err error) {
	all, err := f.Status(names)
	for _, st := range all {
		brief = append(brief, procs.Brief{Name: st.Name, State: st.State, Pid: st.Main.Pid})
	}
	return brief, err
}

func (f *fakeSupervisor) Resolve(names []string) (instances []string, unknown []*selection.UnknownNameError) {
	for _, name := range names {
		some, err := f.Status([]string{name})
		if e, ok := errors.AsType[*selection.UnknownNameError](err); ok {
			unknown = append(unknown, e)
		}
		for _, st := range some {
			instances = append(instances, st.Name)
		}
	}
	return instances, unknown
}

func (f *fakeSupervisor) RestartRolling(names []string, canary int, done func([]procs.CommandResult)) (func(), error) {
	f.calls <- fmt.Sprintf("rolling restart %v, canary %d", names, canary)
	done(nil)
	return func() {}, nil
}

func (f *fakeSupervisor) DecideRoll(names []string, d procs.RollDecision, done func([]procs.CommandResult)) (func(), error) {
	f.calls <- fmt.Sprintf("decision %d about %v", d, names)
	done(nil)
	return func() {}, nil
}

func (f *fakeSupervisor) Command(op procs.Op, names []string, wait bool, done func([]procs.CommandResult)) (func(), error) {
	some, err := f.Status(names)
	if err != nil {
		return nil, err
	}
	f.note("%v %v wait=%v", op, names, wait)
	if !f.pending {
		var outcomes []procs.CommandResult
		for _, st := range some {
			outcomes = append(outcomes, procs.CommandResult{Name: st.Name, OK: true, State: fsm.Running, Message: "running, pid 7"})
		}
		done(outcomes)
	}
	return func() { f.note("cancel") }, nil
}

func (f *fakeSupervisor) Signal(names []string, sig syscall.Signal) ([]procs.CommandResult, error) {
	if _, err := f.Status(names); err != nil {
		return nil, err
	}
	f.note("signal %d %v", sig, names)
	return []procs.CommandResult{{Name: names[0], Message: "not running"}}, nil
}

func (f *fakeSupervisor) ReloadPrograms(names []string, done func([]procs.CommandResult)) (func(), error) {
	if _, err := f.Status(names); err != nil {
		return nil, err
	}
	f.note("reload %v", names)
	done([]procs.CommandResult{{Name: names[0], Message: "check_command nginx -t: exit status 1", Output: []string{"unknown directive"}}})
	return func() {}, nil
}

func (f *fakeSupervisor) Reload(dryRun bool, done func(procs.ReloadResult, error)) {
	report := f.report
	report.DryRun = dryRun
	done(report, f.loadErr)
}

func (f *fakeSupervisor) Scale(scalings []procs.Scaling, wait bool, done func([]procs.ScaleResult)) (func(), error) {
	f.note("scale %v wait=%v", scalings, wait)
	if scalings[0].Name == "db" {
		return nil, &procs.ScaleError{Program: "db", Why: "its log file has a name"}
	}
	done([]procs.ScaleResult{{Program: scalings[0].Name, From: 1, To: scalings[0].Replicas,
		Instances: []procs.CommandResult{{Name: "web@1", OK: true, State: fsm.Running, Message: "running, pid 7"}}}})
	return func() { f.note("cancel") }, nil
}

func (f *fakeSupervisor) Sockets(done func([]procs.SocketStatus)) {
	web := procs.SocketStatus{Programs: []string{"web"}, Queue: host.SocketQueue{Known: true, Waiting: 1, Most: 100}}
	web.Socket, web.Address, web.Open = "http", listen.Address{Network: listen.TCP, Address: ":80"}, true
	db := procs.SocketStatus{RetryIn: new(time.Second)}
	db.Socket, db.Address = "db", listen.Address{Network: listen.Unix, Address: "/run/db"}
	db.Failure = "address in use by process 7 (db)"
	done([]procs.SocketStatus{web, db})
}

func (f *fakeSupervisor) MainPids() []int { return nil }

func (f *fakeSupervisor) RequestShutdown(why string, recorded func(error)) {
	f.note("shutdown: %s", why)
	recorded(f.unrecorded)
	if f.onStop != nil {
		f.onStop()
	}
}

func (f *fakeSupervisor) Watch(changed func()) func() {
	id := f.next
	f.next++
	f.watchers[id] = changed
	f.note("watch")
	return func() {
		delete(f.watchers, id)
		f.note("unwatch")
	}
}

func (f *fakeSupervisor) Collector(name string) (*logs.Collector, error) {
	if c := f.captures[name]; c != nil {
		return c, nil
	}
	return nil, &selection.UnknownNameError{Name: name}
}

func (f *fakeSupervisor) Outputs(names []string, noneToo bool) (all []procs.Output, err error) {
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(f.captures))
	}
	for _, name := range names {
		if c := f.captures[name]; c != nil {
			all = append(all, procs.Output{Instance: name, Collector: c})
		} else if !noneToo {
			return nil, &selection.UnknownNameError{Name: name}
		}
	}
	return all, nil
}

func (f *fakeSupervisor) WatchInstances(added func()) func() { return f.Watch(added) }
func (f *fakeSupervisor) Write()                             {}

func (f *fakeSupervisor) Why(names []string) ([]diagnosis.Diagnosis, error) {
	some, err := f.Status(names)
	if err != nil {
		return nil, err
	}
	var facts []diagnosis.Diagnosis
	for _, st := range some {
		facts = append(facts, diagnosis.Diagnosis{Name: st.Name, State: st.State, Now: startOfTest, Since: startOfTest, Kind: fsm.ReasonStarted,
			Reason:  fsm.Reason{Kind: fsm.ReasonStarted, Detail: "the operator"},
			Desired: diagnosis.Desired{Up: true, By: fsm.Actor{Kind: fsm.ActorOperator}},
			Pid:     7})
	}
	return facts, nil
}

func (f *fakeSupervisor) Tree(names []string, done func([]procs.ProcessTree)) error {
	f.note("tree %v", names)
	if len(names) > 0 && names[0] == "nobody" {
		return &selection.UnknownNameError{Name: "nobody"}
	}
	done([]procs.ProcessTree{{Name: "web", State: fsm.Running, Main: os.Getpid(), Members: []procs.TreeMember{
		{Pid: os.Getpid(), Start: ownStart()}, {Pid: os.Getpid(), Start: ownStart() + 1}}}})
	return nil
}

// ownStart returns the start time of this process, 0 if it can't be read.
func ownStart() uint64 {
	self, err := procfs.ReadStat(os.Getpid())
	if err != nil {
		return 0
	}
	return self.Start
}

func (f *fakeSupervisor) Info() procs.Info {
	return procs.Info{Pid: os.Getpid(), Uptime: 90 * time.Second, Programs: len(f.all)}
}

func (f *fakeSupervisor) changed() {
	for _, w := range f.watchers {
		w()
	}
}

// capture returns a collector whose log file has text in it.
func (h *harness) capture(name, text string) (c *logs.Collector) {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), name+".log")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	h.on(func() {
		c = logs.NewStore(h.loop, h.server.log).NewCollector(h.loop.Root(), name, logs.Options{Path: file})
	})
	return c
}

// A harness is a server on a real socket, with a loop and a fake supervisor behind it.
type harness struct {
	t      *testing.T
	path   string
	loop   *loop.Loop
	fake   *fakeSupervisor
	server *Server
	client *control.Client
	events *eventlog.Log
}

// startOfTest is the time of the fake supervisor's events.
var startOfTest = time.Date(2026, 11, 21, 7, 20, 45, 0, time.UTC)

// newHarness starts a server; adjust may change it before it serves.
func newHarness(t *testing.T, adjust ...func(*Server)) *harness {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, loop: l, path: filepath.Join(t.TempDir(), control.SocketName)}
	h.fake = &fakeSupervisor{watchers: map[int]func(){}, captures: map[string]*logs.Collector{}, calls: make(chan string, 1000)}
	h.fake.all = []procs.Status{
		{Name: "db", Program: "db", State: fsm.Stopped},
		{Name: "web", Program: "web", State: fsm.Running, Main: procs.MainStatus{Pid: os.Getpid()}},
	}
	h.client = control.NewClient(h.path)
	h.events = eventlog.Open(t.TempDir(), eventlog.MaxSize, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { h.events.Close(patience) })
	h.server = New(Options{Post: l.Post, Supervisor: h.fake, Meter: h.fake, Events: h.events, Log: slog.New(slog.DiscardHandler), UID: os.Geteuid(), TreeUsages: noUsages,
		Version: control.Version{Version: "1.2.3", Features: map[string]bool{"pidfs": true}}})
	for _, f := range adjust {
		f(h.server)
	}
	listener, err := Listen(h.path)
	if err != nil {
		t.Fatal(err)
	}
	served, ran := make(chan error, 1), make(chan error, 1)
	go func() { served <- h.server.Serve(listener) }()
	go func() { ran <- l.Run() }()
	t.Cleanup(func() {
		if err := h.server.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := receive(t, served, "the end of Serve"); err != nil {
			t.Errorf("Serve: %v", err)
		}
		l.Post(l.Stop)
		if err := receive(t, ran, "the end of the loop"); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return h
}

// noUsages knows of no process beside the main processes.
func noUsages(mains []host.MainProcess, _ []int) []host.TreeUsage {
	return make([]host.TreeUsage, len(mains))
}

// on runs f on the loop and returns when it has run.
func (h *harness) on(f func()) {
	h.t.Helper()
	done := make(chan struct{})
	h.loop.Post(func() { f(); close(done) })
	receive(h.t, done, "the loop")
}

// called waits for the next call of the supervisor.
func (h *harness) called(want string) {
	h.t.Helper()
	if got := receive(h.t, h.fake.calls, want); got != want {
		h.t.Errorf("supervisor was asked %q, want %q", got, want)
	}
}

func (h *harness) dial() net.Conn {
	h.t.Helper()
	conn, err := net.Dial("unix", h.path)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// request makes a request as any HTTP client would.
func (h *harness) request(method, target, body string) (status int, answer string) {
	h.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", h.path) },
	}, Timeout: patience}
	req, err := http.NewRequest(method, "http://superd"+target, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := client.Do(req)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, target, err)
	}
	return resp.StatusCode, string(text)
}

// answers checks that the server answers.
func (h *harness) answers() {
	h.t.Helper()
	if _, err := h.client.Version(h.t.Context()); err != nil {
		h.t.Errorf("version: %v", err)
	}
}

// answersInTheEnd waits until the server answers, for tests with time-outs so short that a busy
// machine may be too slow.
func (h *harness) answersInTheEnd() {
	h.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if _, err = h.client.Version(h.t.Context()); err == nil {
			return
		}
	}
	h.t.Fatalf("version: %v", err)
}

func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("waited %v for %s", patience, what)
		panic("unreachable")
	}
}
