package procs

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/schedule"
	"superd/procs/snapshot"
	"superd/tests/golden"
)

// withoutVariables returns text without what varies with the simulation and the time zone: times,
// ids, pids and names in the descriptor store.
func withoutVariables(text string) string {
	text = regexp.MustCompile(`[0-9a-f]{32}|\d{4}-\d\d-\d\d[ T][\d:.]+|\d{6,}`).ReplaceAllString(text, "…")
	text = regexp.MustCompile(`:"\d+"`).ReplaceAllString(text, `:"N"`)
	return regexp.MustCompile(`"(pid|start|inode|last_completed_start|group)":\d+`).ReplaceAllString(text, `"$1":N`)
}

// recordText returns a record of the journal as it is written.
func recordText(t *testing.T, key string, value any) string {
	t.Helper()
	text, err := encoded(value)
	if err != nil {
		t.Fatal(err)
	}
	return key + " " + withoutVariables(string(text)) + "\n"
}

// TestGoldenRecords brings programs into each state, for several reasons, and compares journal and
// event log with golden files.
func TestGoldenRecords(t *testing.T) {
	h := newHistory(1, defect{}, false)
	for seed := uint64(2); !h.kernel.Keeper; seed++ {
		h = newHistory(seed, defect{}, false)
	}
	h.kernel.Mix = hosttest.FaultMix{NeverReady: 1, HookHangs: 1}
	h.sup.shutdown.onEnd = func() {}
	inspect(h.sup).activate(&config.Config{})
	h.v.RunFor(time.Minute)
	events := eventlog.Open(t.TempDir(), eventlog.MaxSize, slog.New(slog.DiscardHandler))
	defer events.Close(time.Minute)
	h.sup.recorder.Events = events
	named := func(name string, change func(p *config.Program)) *config.Program {
		return programNamed(name, func(p *config.Program) {
			p.KillMode = config.KillProcess // so that teardown has no processes to search
			change(p)
		})
	}
	oneshot := func(p *config.Program) { p.Type, p.Restart = config.TypeOneshot, config.RestartNever }
	inspect(h.sup).activate(&config.Config{Programs: []*config.Program{
		named("app", func(p *config.Program) { p.Requires = []string{"db"} }),
		named("base", func(*config.Program) {}),
		named("crash", func(*config.Program) {}),
		named("daily", func(p *config.Program) { oneshot(p); p.Schedule = "@daily" }),
		named("db", func(*config.Program) {}),
		named("deaf", func(*config.Program) {}),
		named("hooked", func(p *config.Program) {
			p.PreStart, p.StartTimeout = [][]string{{hosttest.PreStartCommand}}, time.Hour
		}),
		named("idle", func(p *config.Program) { p.Autostart = false }),
		named("immortal", func(*config.Program) {}),
		named("limit", func(p *config.Program) { p.StartLimit = config.StartLimit{Failures: 1, Within: time.Minute} }),
		named("mistaken", func(p *config.Program) {
			p.Invalid = config.Errors{{File: "a.toml", Line: 1, Column: 2, Key: "program.mistaken.x", Err: os.ErrInvalid}}
		}),
		named("once", oneshot),
		named("slow", func(p *config.Program) { p.Ready, p.StartTimeout = &config.Ready{Notify: true}, time.Hour }),
		named("top", func(p *config.Program) { p.Requires = []string{"base"} }),
		named("undone", func(p *config.Program) {
			p.PostStop = [][]string{{hosttest.PostStopCommand}}
			p.StopTimeout = time.Hour
		}),
		named("web", func(*config.Program) {}),
	}})
	h.v.RunFor(time.Minute)
	for _, name := range []string{"deaf", "immortal", "top"} {
		h.mainOf(name).IgnoresStop = true
	}
	h.mainOf("immortal").Unkillable = true
	h.mustCommand(t, OpStop, "immortal")
	h.v.RunFor(10 * time.Second)
	h.mustCommand(t, OpStop, "db")
	h.v.RunFor(time.Second)
	h.mustCommand(t, OpRestart, "base")
	h.mustCommand(t, OpStop, "deaf")
	h.mustCommand(t, OpStop, "undone")
	if _, err := h.sup.Scale([]Scaling{{"web", 2}}, false, func([]ScaleResult) {}); err != nil {
		t.Fatal(err)
	}
	h.mainOf("crash").End(pidfd.Exit{Known: true, Code: 3})
	h.mainOf("limit").End(pidfd.Exit{Known: true, Signal: 11})
	h.mainOf("once").End(pidfd.Exit{Known: true})
	h.v.RunFor(50 * time.Millisecond)

	var b strings.Builder
	states := map[fsm.State]bool{}
	for in := range inspect(h.sup).instances() {
		states[in.state()] = true
		b.WriteString(recordText(t, snapshot.InstanceKey(in.name()), in.record()))
	}
	for state := range fsm.StateCount {
		if !states[state] {
			t.Errorf("no instance is %s", state.Name())
		}
	}
	b.WriteString(recordText(t, snapshot.SuperdKey, h.sup.self.snapshot()))
	b.WriteString(recordText(t, snapshot.ScaleKey("web"), inspect(h.sup).scales()["web"]))
	b.WriteString(recordText(t, snapshot.StartKey("web", 7), &snapshot.Start{
		Run: "r", Config: 2, Hook: new(1), PostStop: true, After: 3, Process: &snapshot.Process{Pid: 4, Start: 5, Inode: 6, FDName: "7"}, Notify: "8", Ready: "9",
		FDNames: [2]string{"10", "11"}, At: 12, Schedule: &schedule.State{Line: "@daily"},
	}))
	b.WriteString("\nand in a shutdown:\n")
	h.sup.Shutdown("SIGTERM")
	h.v.RunFor(time.Millisecond)
	b.WriteString(recordText(t, snapshot.SuperdKey, h.sup.self.snapshot()))
	b.WriteString(recordText(t, snapshot.InstanceKey("web@1"), inspect(h.sup).instance("web@1").record()))
	golden.Check(t, "journal.txt", b.String())

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	h.sup.Write()
	if err := events.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	// grouped, since the order among instances depends on the simulation
	byName := map[string][]string{}
	for e, err := range events.Since(0) {
		if err != nil {
			t.Fatal(err)
		}
		var line bytes.Buffer
		e.Cursor = 1
		if err := eventlog.Encode(&line, &e); err != nil {
			t.Fatal(err)
		}
		byName[e.Instance] = append(byName[e.Instance], withoutVariables(line.String()))
	}
	var log strings.Builder
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		log.WriteString(strings.Join(byName[name], ""))
	}
	golden.Check(t, "events.txt", log.String())
}
