package procs

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/procs/host/hosttest"
	"superd/procs/snapshot"
)

// A socketHistory is a history of reloads and kills of superd, in which sockets can't be opened or
// hang. The fake kernel itself checks that a program is started with all its sockets.
type socketHistory struct {
	*history
	random *rand.Rand
	// The open sockets of addresses that the configuration has had since they were opened
	kept map[listen.Address]*hosttest.Listening
}

// A socketDefect is planted to check the simulation, and has what it must find.
type socketDefect struct {
	defect
	violation string // a regular expression
}

// socketPool has the addresses that are drawn.
var socketPool = []listen.Address{
	{Network: listen.TCP4, Address: "127.0.0.1:1"},
	{Network: listen.TCP4, Address: "127.0.0.1:2"},
	{Network: listen.TCP, Address: ":3"},
	{Network: listen.TCP, Address: ":3", Device: "eth0"},
	{Network: listen.Unix, Address: "/run/s"},
	{Network: listen.FIFO, Address: "/run/f"},
}

func newSocketHistory(seed uint64, d defect, trace bool) *socketHistory {
	h := &socketHistory{
		history: newHistory(seed, d, trace), random: rand.New(rand.NewPCG(seed, 9)),
		kept: map[listen.Address]*hosttest.Listening{},
	}
	h.kernel.Mix = hosttest.FaultMix{
		Crash: 0.5, Lifetime: time.Minute, SpawnHangs: h.pick(0, 0.05), SpawnFails: h.pick(0, 0.2),
		SlowSpawn: 10 * time.Millisecond, ForkTime: 10 * time.Millisecond,
		SocketFails: h.pick(0, 0.3, 0.9), SocketHangs: h.pick(0, 0, 0.2),
	}
	h.kernel.Mix.ConnectionTime = time.Duration(h.pick(0.01, 1, 100) * float64(time.Second))
	h.kernel.Keeper, h.kernel.StoresFDs, h.kernel.OnSpawn = true, true, nil
	h.listens.drawn, h.kernel.OnListen = false, nil // it has rules of its own
	h.kernel.OnAccept = h.onAccept
	h.kernel.IsExtra = func(instance string) bool { return config.ProgramOf(instance) == accepts }
	h.file = h.draw()
	h.sup = New(h.options())
	h.sup.Start(func() { h.ended = true })
	return h
}

// draw draws a configuration: sockets that divide the addresses, and programs that use them.
func (h *socketHistory) draw() *config.Config {
	conf := &config.Config{}
	for i := range 3 {
		conf.Sockets = append(conf.Sockets, &config.Socket{
			Name: fmt.Sprintf("s%d", i), FDName: "web", Backlog: 1 + h.random.IntN(2),
		})
	}
	for _, a := range socketPool {
		if i := h.random.IntN(4); i < 3 {
			conf.Sockets[i].Listen = append(conf.Sockets[i].Listen, a)
		}
	}
	for i := range 3 {
		p := programNamed(fmt.Sprintf("p%d", i), nil)
		p.Replicas = 1 + h.random.IntN(2)
		h.kernel.AllowKillMode(p.Name, p.KillMode)
		own := config.ProgramSockets{Pass: config.PassSystemd}
		for _, s := range conf.Sockets {
			if len(s.Listen) > 0 && h.random.IntN(2) == 0 {
				own.List = append(own.List, config.ProgramSocket{Name: s.Name, FDName: s.FDName, Listen: s.Listen})
			}
		}
		if len(own.List) > 0 {
			p.Sockets = &own
		}
		conf.Programs = append(conf.Programs, p)
	}
	h.drawConnected(conf)
	return conf
}

// wanted returns the addresses that the active configuration has, with their sockets.
func (h *socketHistory) wanted() map[listen.Address]*config.Socket {
	all := map[listen.Address]*config.Socket{}
	for _, s := range inspect(h.sup).config().Sockets {
		for _, a := range s.Listen {
			all[a] = s
		}
	}
	return all
}

// checkKept checks that an address that was open is the same socket as before.
func (h *socketHistory) checkKept() {
	wanted := h.wanted()
	for a := range h.kept {
		if wanted[a] == nil {
			delete(h.kept, a)
		}
	}
	for _, st := range h.sup.connectors.Sockets.Sockets() {
		if !st.Open {
			continue
		}
		l := h.kernel.ListeningAt(st.FD.FD())
		switch before := h.kept[st.Address]; {
		case l == nil || l.Address != st.Address:
			h.fail("%s has a descriptor that is not its own", st.Address)
		case wanted[l.Address] == nil:
		case before == nil:
			h.kept[l.Address] = l
		case before != l:
			h.fail("%s was closed and opened again", l.Address)
		}
	}
}

// checkAll checks that exactly the sockets of the configuration are open, and that the programs
// run.
func (h *socketHistory) checkAll() {
	wanted := h.wanted()
	for _, l := range h.kernel.Listening() {
		switch s := wanted[l.Address]; {
		case s == nil:
			h.fail("%s is open, and the configuration does not have it", l.Address)
		case s.Backlog != l.Settings.Backlog:
			h.fail("%s has the backlog %d, want %d", l.Address, l.Settings.Backlog, s.Backlog)
		}
		delete(wanted, l.Address)
	}
	for a := range wanted {
		h.fail("%s is not open", a)
	}
	for in := range inspect(h.sup).instances() {
		if !rests(in) {
			h.fail("%s is %s: %s", in.name(), in.state(), in.reason())
		}
	}
}

// crashPlainly kills superd and starts another one.
func (h *socketHistory) crashPlainly() {
	h.logf("--- superd is killed")
	state, _ := h.journal.end()
	inspect(h.sup).kill()
	h.kernel.KillSupervisor()
	values := h.journal.values
	h.journal = newSimJournal(h.history, h.journal.writeDelay)
	h.journal.values = values
	recovery := snapshot.Read(state, h.restore)
	recovery.Incomplete = false
	if h.defect.recovery != nil {
		h.defect.recovery(h.history, recovery)
	}
	o := h.options()
	o.Predecessor.Snapshot, o.Predecessor.Resumed = recovery, true
	h.sup = New(o)
	if err := h.sup.Adopt(); err != nil {
		h.fail("adopt: %v", err)
		return
	}
	h.sup.Start(func() { h.ended = true })
}

func (h *socketHistory) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			h.fail("panic: %v\n%s", p, debug.Stack())
			err = h.err
		}
	}()
	for range 5 + h.random.IntN(20) {
		for until := h.v.Now() + h.upTo(time.Duration(h.pick(0.001, 0.1, 60)*float64(time.Second))); h.err == nil && h.v.Now() < until && h.v.Step(); {
			h.checkKept()
			h.acceptInPrograms()
		}
		if h.err != nil {
			return h.err
		}
		switch h.random.IntN(6) {
		case 4, 5:
			h.disturbConnected()
		case 0:
			h.crashPlainly()
		case 1, 2:
			next := h.draw()
			h.logf("reload")
			h.file = next
			inspect(h.sup).apply(next, config.Compare(inspect(h.sup).config(), next))
		case 3:
			name := fmt.Sprintf("p%d", h.random.IntN(3))
			h.logf("restart %s", name)
			if _, err := h.sup.Command(OpRestart, []string{name}, false, func([]CommandResult) {}); err != nil {
				h.fail("restart %s: %v", name, err)
			}
		}
		h.checkKept()
	}
	h.logf("--- no more faults")
	h.kernel.Mix = hosttest.FaultMix{ConnectionTime: 10 * time.Second}
	h.v.RunFor(time.Hour) // longer than a socket hangs
	h.checkConnected()
	h.command(OpStop, awaits)
	h.v.RunFor(time.Minute)
	if h.err == nil {
		h.checkAll()
	}
	h.sup.Shutdown("the simulation")
	h.v.RunFor(time.Minute)
	all, connections := h.kernel.Listening(), h.kernel.OpenConnections()
	if h.err == nil && (!h.ended || len(all)+connections > 0) {
		h.fail("superd has ended: %v; open sockets: %d, connections: %d", h.ended, len(all), connections)
	}
	return h.err
}

// simulateSockets runs histories until one violates a rule, and returns its seed and the violation.
func simulateSockets(n uint64, d defect) (seed uint64, err error) {
	for seed := range n {
		if err := newSocketHistory(seed+1, d, false).run(); err != nil {
			return seed + 1, err
		}
	}
	return 0, nil
}

// TestSocketSimulation: a socket is open if and only if the configuration has it, an address that
// stays keeps its socket through reloads and kills of superd, and programs run as soon as their
// sockets can be opened.
func TestSocketSimulation(t *testing.T) {
	if seed, err := simulateSockets(500, defect{}); err != nil {
		replay := newSocketHistory(seed, defect{}, true)
		replay.run()
		t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(replay.lines[max(0, len(replay.lines)-60):], "\n"))
	}
}

// TestSocketDefects checks the simulation of sockets itself: it finds planted defects.
func TestSocketDefects(t *testing.T) {
	for _, d := range append(connectionDefects, []socketDefect{
		{defect{name: "an open socket is not stored", kernel: hosttest.Defects{SocketNotStored: true}}, "was closed and opened again"},
		{defect{name: "the records of sockets are lost", recovery: func(_ *history, r *snapshot.Snapshot) { clear(r.Sockets) }}, "was closed and opened again"},
		{defect{name: "a reload leaves the settings of open sockets", kernel: hosttest.Defects{IgnoresSettings: true}}, "has the backlog"},
	}...) {
		seed, err := simulateSockets(500, d.defect)
		if err == nil || !regexp.MustCompile(d.violation).MatchString(err.Error()) {
			t.Errorf("%s: %v, want a violation with %q", d.name, err, d.violation)
		}
		t.Logf("%s: caught after %d: %v", d.name, seed, err)
	}
}
