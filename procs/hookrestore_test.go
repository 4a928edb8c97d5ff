package procs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/journal"
	"superd/procs/snapshot"
)

// hookedHistory returns a history without faults, with the program web that has hooks. Its run "a"
// has one process.
func hookedHistory(role hosttest.Role, change func(*config.Program)) (*history, *hosttest.Process) {
	h := newHistory(1, defect{}, false)
	h.kernel.Mix, h.models = hosttest.FaultMix{HookHangs: 1}, map[string]*model{}
	p := h.kernel.NewProcess("web", "a", role)
	p.Reparented, h.kernel.Mix = true, hosttest.FaultMix{}
	h.configs = []*config.Config{{Programs: []*config.Program{programNamed("web", change)}}}
	return h, p
}

// journalOf returns a journal with records of run "a" of web.
func journalOf(damaged int, records map[string]string) *journal.State {
	state := &journal.State{Existed: true, Damaged: damaged, Values: map[string]json.RawMessage{
		snapshot.SuperdKey:    json.RawMessage(`{"config":1,"begun":true}`),
		snapshot.ConfigKey(1): json.RawMessage(`0`),
	}}
	for key, record := range records {
		state.Values[key] = json.RawMessage(record)
	}
	return state
}

// TestHookThatHasEndedIsNotRunning: a hook has ended while no superd watched it, and its time-out
// is over. It does not count as running, whatever is known of it.
func TestHookThatHasEndedIsNotRunning(t *testing.T) {
	const instance = `{"config":1,"state":"spawning","outcome":"retry","desired":{"up":true},` +
		`"run":{"id":"a","hook":{"at":0,"due":1`
	own, start := snapshot.InstanceKey("web"), snapshot.StartKey("web", 1)
	tests := []struct {
		name     string
		keeper   bool
		reaped   bool
		damaged  int
		records  map[string]string
		attempts int // that have failed: the exit status is unknown
	}{
		{"its exit status follows", true, false, 0,
			map[string]string{own: instance + `,"process":{"pid":2,"start":1,"inode":1}}}}`}, 0},
		{"its keeper has the exit status", true, true, 0,
			map[string]string{own: instance + `,"process":{"pid":2,"start":1,"inode":1}}}}`}, 0},
		{"without a keeper", false, true, 0,
			map[string]string{own: instance + `,"process":{"pid":2,"start":1,"inode":1}}}}`}, 1},
		{"without a pid", false, true, 0, map[string]string{start: `{"run":"a","config":1,"hook":0}`}, 1},
		{"without a pid in a damaged journal", false, true, 1,
			map[string]string{start: `{"run":"a","config":1,"hook":0}`}, 1},
		{"with the pid of another process", false, false, 1,
			map[string]string{own: instance + `,"process":{"pid":2,"start":9,"inode":9}}}}`}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, hook := hookedHistory(hosttest.RolePreStart, func(p *config.Program) { p.PreStart = [][]string{{hosttest.PreStartCommand}} })
			h.kernel.Keeper = tt.keeper
			h.v.RunFor(time.Second)
			if hook.End(exitZero); tt.reaped {
				h.kernel.ReapForeign(hook)
			}
			h.adoptFrom(t, journalOf(tt.damaged, tt.records))
			in := inspect(h.sup).instance("web")
			for range 40 { // it fails, if at all, before the backoff is over
				h.v.RunFor(50 * time.Millisecond)
				if strings.Contains(in.reason(), "still running") {
					t.Fatalf("%s: %s", in.state().Name(), in.reason())
				}
			}
			h.v.RunFor(time.Minute)
			if m := in.Machine(); m.State() != fsm.Running || m.Restarts() != tt.attempts || h.err != nil {
				t.Errorf("%s, %d restarts, %v; want it running, %d", m.State().Name(), m.Restarts(), h.err, tt.attempts)
			}
		})
	}
}

// TestStartWithoutPidInADamagedJournal: the journal has lost its end after the intent to start a
// process. If a later process of the run can't be told from that, it is in quarantine until it has
// ended.
func TestStartWithoutPidInADamagedJournal(t *testing.T) {
	const hook, postStop, main = `{"run":"a","config":1,"hook":0}`,
		`{"run":"a","config":1,"hook":0,"post_stop":true}`, `{"run":"a","config":1}`
	before := func(p *config.Program) { p.PreStart = [][]string{{hosttest.PreStartCommand}} }
	after := func(p *config.Program) {
		p.PostStop = [][]string{{hosttest.PreStartCommand}, {hosttest.PreStartCommand}}
	}
	tests := []struct {
		name    string
		start   string
		program func(*config.Program)
		lives   hosttest.Role
		adopted bool
	}{
		{"a hook, and the main process lives", hook, before, hosttest.RoleMain, false},
		{"a hook, and the hook lives", hook, before, hosttest.RolePreStart, false},
		{"a post_stop hook, and the next one lives", postStop, after, hosttest.RolePostStop, false},
		{"a main process, and a post_stop hook lives", main, after, hosttest.RolePostStop, false},
		{"a main process that no hook follows", main, before, hosttest.RoleMain, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, p := hookedHistory(tt.lives, tt.program)
			h.kernel.ReportsLeftovers = true
			h.adoptFrom(t, journalOf(1, map[string]string{snapshot.StartKey("web", 1): tt.start}))
			h.v.RunFor(time.Minute)
			in := inspect(h.sup).instance("web")
			if in.Quarantined() == tt.adopted || tt.adopted && in.pid() != p.Pid || p.Zombie || h.err != nil {
				t.Fatalf("%s: %s, %v", in.state().Name(), in.reason(), h.err)
			}
			if tt.adopted {
				return
			}
			p.End(exitZero)
			h.v.RunFor(time.Minute)
			if in.state() != fsm.Running || h.err != nil {
				t.Errorf("when it has ended: %s: %s, %v", in.state().Name(), in.reason(), h.err)
			}
		})
	}
}
