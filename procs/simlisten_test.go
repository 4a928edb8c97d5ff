package procs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"superd/config"
	"superd/config/listen"
	"superd/procs/fsm"
	"superd/procs/host"
	"superd/procs/host/hosttest"
)

// A listenModel is what the observer knows of the sockets of a history. Its numbers are drawn from
// a generator of its own, so that histories without sockets stay the same.
type listenModel struct {
	drawn bool // whether programs have sockets
	rng   *rand.Rand
	// Open sockets of addresses that each configuration has had since they were opened
	kept      map[listen.Address]*hosttest.Listening
	made      map[listen.Address]time.Duration // when the last connection was made
	connected map[listen.Address]time.Duration // when a connection was last seen waiting
	waits     map[string]time.Duration         // since when one should start a program, by program
	rests     map[string]time.Duration         // when the last rest of an instance began, by name
	// The turn from which on programs accept: superd sees a connection only while it waits
	accepts uint64
}

// listenPool has the addresses that are drawn. None excludes another.
var listenPool = []listen.Address{
	{Network: listen.TCP4, Address: "127.0.0.1:1"},
	{Network: listen.TCP4, Address: "127.0.0.1:2"},
	{Network: listen.Unix, Address: "/run/s"},
	{Network: listen.FIFO, Address: "/run/f"},
}

func newListenModel(seed uint64) listenModel {
	return listenModel{
		drawn: slices.Contains([]uint64{7, 29, 32, 47, 56}, seed%64),
		rng:   rand.New(rand.NewPCG(seed, 10)), kept: map[listen.Address]*hosttest.Listening{},
		made: map[listen.Address]time.Duration{}, connected: map[listen.Address]time.Duration{}, waits: map[string]time.Duration{}, rests: map[string]time.Duration{},
	}
}

// begin lets the fake host have faults of sockets, and a keeper that stores them.
func (m *listenModel) begin(h *history) {
	h.kernel.Keeper, h.kernel.StoresFDs, h.kernel.OnListen = true, true, h.onListen
	h.kernel.Mix.SocketFails = []float64{0, 0.3, 0.9}[m.rng.IntN(3)]
	h.kernel.Mix.SocketHangs = []float64{0, 0, 0.2}[m.rng.IntN(3)]
}

// drawSockets draws the sockets of a configuration and which programs get them. Those of the
// configuration before and its programs in keep may stay the same.
func (h *history) drawSockets(conf, before *config.Config, keep map[*config.Program]bool) {
	m := &h.listens
	if !m.drawn {
		return
	}
	if before != nil && m.rng.IntN(5) < 3 {
		conf.Sockets = before.Sockets
	} else {
		for i := range 2 {
			conf.Sockets = append(conf.Sockets, &config.Socket{Name: fmt.Sprintf("s%d", i), FDName: "web", Backlog: 1 + m.rng.IntN(2)})
		}
		for _, a := range listenPool {
			if i := m.rng.IntN(3); i < 2 {
				conf.Sockets[i].Listen = append(conf.Sockets[i].Listen, a)
			}
		}
		conf.Sockets = slices.DeleteFunc(conf.Sockets, func(s *config.Socket) bool { return len(s.Listen) == 0 })
	}
	for i, p := range conf.Programs {
		own := config.ProgramSockets{Pass: config.PassSystemd}
		if p.Sockets != nil {
			own.Pass, own.OnConnect, own.IdleTimeout = p.Sockets.Pass, p.Sockets.OnConnect, p.Sockets.IdleTimeout
		}
		redraw := !keep[p] && m.rng.IntN(2) == 0
		if redraw {
			own.OnConnect, own.IdleTimeout = m.rng.IntN(2) == 0, time.Duration(m.rng.IntN(3))*20*time.Second
		}
		for _, s := range conf.Sockets {
			if redraw && m.rng.IntN(2) == 0 || !redraw && p.Sockets.Has(s.Name) {
				own.List = append(own.List, config.ProgramSocket{Name: s.Name, FDName: s.FDName, Listen: s.Listen})
			}
		}
		own.OnConnect = own.OnConnect && mayAwaitConnection(conf, p) && !h.startsAlready(conf.Programs[:i], &own)
		if !own.OnConnect {
			own.IdleTimeout = 0
		}
		with := p.Clone()
		with.Sockets = nil
		if len(own.List) > 0 {
			with.Sockets = &own
			if own.OnConnect {
				with.Autostart, with.Essential, conf.Superd.ExitWhen = false, false, config.ExitNever
			}
		}
		if !reflect.DeepEqual(p, with) {
			conf.Programs[i] = with
		}
	}
}

// mayAwaitConnection reports whether connections may start a program: it is a service, and has no
// part in dependencies.
func mayAwaitConnection(conf *config.Config, p *config.Program) bool {
	named := func(other *config.Program) bool {
		return slices.Contains(other.Requires, p.Name) || slices.Contains(other.After, p.Name)
	}
	return p.Type != config.TypeOneshot && len(p.Requires)+len(p.After) == 0 && !slices.ContainsFunc(conf.Programs, named)
}

// startsAlready reports whether connections to one of the sockets start one of the programs.
func (h *history) startsAlready(programs []*config.Program, own *config.ProgramSockets) bool {
	return slices.ContainsFunc(programs, func(p *config.Program) bool {
		return p.Sockets != nil && p.Sockets.OnConnect &&
			slices.ContainsFunc(own.List, func(s config.ProgramSocket) bool { return p.Sockets.Has(s.Name) })
	})
}

// addressesOf returns the addresses of the sockets of a program.
func addressesOf(p *config.Program) (all []listen.Address) {
	for _, fd := range p.Sockets.FDs() {
		all = append(all, fd.Address)
	}
	return all
}

// connect lets a client connect.
func (h *history) connect() {
	a := listenPool[h.listens.rng.IntN(len(listenPool))]
	if h.kernel.Connect(a) {
		h.logf("connection to %s", a)
		h.listens.accepts = h.v.Turns() + 2
		h.listens.made[a], h.listens.connected[a] = h.v.Now(), h.v.Now()
	}
}

// onListen checks that a socket stays open as long as the configuration has its address, and then
// as long as a run has it.
func (h *history) onListen(l *hosttest.Listening, opened bool) {
	a := l.Address
	has := func(conf *config.Config) bool {
		return slices.ContainsFunc(conf.Sockets, func(s *config.Socket) bool { return slices.Contains(s.Listen, a) })
	}
	if opened && !has(inspect(h.sup).config()) {
		return // an attempt that hung; it is closed again
	}
	if opened {
		if before := h.listens.kept[a]; before != nil && before != l {
			h.fail("%s was closed and opened again", a)
		}
		h.listens.kept[a] = l
		return
	}
	switch {
	case inspect(h.sup).killed() || h.ended || inspect(h.sup).shutdownBegun():
	case has(inspect(h.sup).config()) && has(h.file):
		h.fail("%s is closed, and the configuration has it", a)
	default:
		for in := range inspect(h.sup).instances() {
			if r := in.Run(); r.Exists() && slices.Contains(addressesOf(r.Program()), a) {
				h.fail("%s is closed, and a run of %s has it", a, in.name())
			}
		}
	}
}

// forgetRemoved forgets the sockets whose addresses a configuration does not have.
func (m *listenModel) forgetRemoved(conf *config.Config) {
	for a := range m.kept {
		if !slices.ContainsFunc(conf.Sockets, func(s *config.Socket) bool { return slices.Contains(s.Listen, a) }) {
			delete(m.kept, a)
		}
	}
}

// lacksSocket reports whether a socket of the instance is not open, and whether it could not be.
func (h *history) lacksSocket(in instanceView) (lacks, failed bool) {
	if !h.listens.drawn || in.program().Sockets == nil {
		return false, false
	}
	why, failed := h.sup.connectors.Sockets.Missing(in.program().Sockets)
	return why != "", failed
}

// allowConnection expects what a connection to an instance, or the lack of any, has done to it.
func (h *history) allowConnection(in instanceView, target fsm.Target) {
	p := inspect(h.sup).config().Program(in.program().Name)
	if p == nil || p.Sockets == nil || !p.Sockets.OnConnect {
		return
	}
	last, made := time.Duration(0), time.Duration(0)
	for _, a := range addressesOf(p) {
		last, made = max(last, h.listens.connected[a]), max(made, h.listens.made[a])
	}
	switch {
	case target.Up && target.By.Is(fsm.ActorConnection):
		if last == 0 || last < h.listens.rests[in.name()] {
			h.fail("%s is started by a connection, and none was made", in.name())
		}
		h.want(in.name(), true)
	case !target.Up && target.By.Is(fsm.ActorIdle):
		// One may come while superd looks whether there is any
		idle := h.now - made
		if idle > 5*time.Millisecond && idle < p.Sockets.IdleTimeout && h.now-h.reloadedAt > p.Sockets.IdleTimeout {
			h.fail("%s is stopped by idle_timeout, and had a connection %v ago", in.name(), idle)
		}
		h.want(in.name(), false)
	}
}

// checkConnections checks after each turn that a connection starts the program that waits for it,
// and lets programs accept.
func (h *history) checkConnections() {
	m := &h.listens
	if !m.drawn {
		return
	}
	for _, a := range listenPool {
		if h.kernel.Waiting(a) > 0 {
			m.connected[a] = h.now
		}
	}
	conf := inspect(h.sup).config()
	// A program that was removed and is added again waits from then on
	maps.DeleteFunc(m.waits, func(name string, _ time.Duration) bool {
		p := conf.Program(name)
		return p == nil || p.Sockets == nil || !p.Sockets.OnConnect
	})
	for _, p := range conf.Programs {
		if p.Sockets == nil {
			continue
		}
		if p.Sockets.OnConnect {
			h.checkConnected(p)
		}
		if h.v.Turns() < m.accepts {
			continue
		}
		if main, _ := h.kernel.CountLiving(p.Name); (main > 0 || p.Replicas != 1) && h.kernel.Waiting(addressesOf(p)...) > 0 {
			for in := range inspect(h.sup).instances() {
				if r := in.Run(); in.program().Name == p.Name && in.state() == fsm.Running && r.Exists() && m.rng.IntN(4) > 0 {
					h.kernel.AcceptAll(r.Program().Sockets)
				}
			}
		}
	}
}

// checkConnected checks that a program that connections start does not rest while one waits.
func (h *history) checkConnected(p *config.Program) {
	m, may, rest := &h.listens, false, true
	for _, in := range inspect(h.sup).of(p.Name) {
		if in.state().AtRest() {
			m.rests[in.name()] = in.stateSince()
		}
		rest = rest && in.state().AtRest()
		stopped := !in.target().Up && in.target().By.Is(fsm.ActorOperator)
		may = may || in.state() != fsm.Failed && !in.leaves() && !in.Quarantined() && !stopped
	}
	missing, _ := h.sup.connectors.Sockets.Missing(p.Sockets)
	if !may || !rest || missing != "" || inspect(h.sup).shutdownBegun() || h.kernel.Waiting(addressesOf(p)...) == 0 {
		delete(m.waits, p.Name)
		return
	}
	since, has := m.waits[p.Name]
	if !has {
		m.waits[p.Name] = h.now
		return
	}
	if late := h.now - max(since, inspect(h.sup).startedAt()); late > margin {
		h.fail("%s is not started, and a connection waits for %v", p.Name, late)
	}
}

// checkListening checks long after the last fault that exactly the sockets of the configuration and
// of runs are open.
func (h *history) checkListening() {
	if !h.listens.drawn {
		return
	}
	wanted := map[listen.Address]*config.Socket{}
	for _, s := range inspect(h.sup).config().Sockets {
		for _, a := range s.Listen {
			wanted[a] = s
		}
	}
	if h.ended {
		clear(wanted)
	}
	for _, l := range h.kernel.Listening() {
		has := func(in instanceView) bool {
			return in.Run().Exists() && slices.Contains(addressesOf(in.Run().Program()), l.Address)
		}
		switch s := wanted[l.Address]; {
		case s == nil && !h.anyInstance(has):
			h.fail("%s is open, and neither the configuration nor a run has it", l.Address)
		case s != nil && s.Backlog != l.Settings.Backlog:
			h.fail("%s has the backlog %d, want %d", l.Address, l.Settings.Backlog, s.Backlog)
		}
		delete(wanted, l.Address)
	}
	if inspect(h.sup).shutdownBegun() {
		return
	}
	for a := range wanted {
		h.fail("%s is not open", a)
	}
}

// dropSocket is a planted defect: a run gets one socket less.
func dropSocket(spec *host.SpawnSpec) {
	if n := len(spec.Sockets); n > 0 && hosttest.RoleOf(spec.Program) == hosttest.RoleMain {
		spec.Sockets[n-1].Release()
		spec.Sockets = spec.Sockets[:n-1]
	}
}
