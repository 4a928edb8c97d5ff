package procs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"superd/config"
	"superd/pidfd"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/snapshot"
)

// TestEventsOfALife starts a program, crashes it, starts it again and stops it: each event is
// recorded once, in order.
func TestEventsOfALife(t *testing.T) {
	h := newHistory(1, defect{}, false)
	h.kernel.Mix = hosttest.FaultMix{}
	h.models["web"] = &model{wantUp: true}
	events := eventlog.Open(t.TempDir(), eventlog.MaxSize, slog.New(slog.DiscardHandler))
	defer events.Close(time.Minute)
	p := testProgram()
	p.Name = "web"
	p.KillMode = config.KillProcess // so that there is no teardown
	inspect(h.sup).activate(&config.Config{})
	h.v.RunFor(time.Minute)
	h.sup.recorder.Events = events
	inspect(h.sup).activate(&config.Config{Programs: []*config.Program{p}})
	h.v.RunFor(time.Minute)
	first := inspect(h.sup).instance("web").Run().Process().(*hosttest.Handle).Process
	first.End(pidfd.Exit{Known: true, Code: 1, UserTime: time.Second, SystemTime: time.Second, MaxRSSBytes: 1 << 40})
	h.v.RunFor(time.Minute)
	second := inspect(h.sup).instance("web").Run().Process().(*hosttest.Handle).Process
	h.models["web"].wantUp = false
	if _, err := h.sup.Command(OpStop, []string{"web"}, true, func([]CommandResult) {}); err != nil {
		t.Fatal(err)
	}
	h.v.RunFor(time.Minute)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := events.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	var got []string
	runs := map[string]bool{}
	for e, err := range events.Since(0) {
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("%s %s", e.Instance, e.Kind)
		switch e.Kind {
		case eventlog.State:
			text += fmt.Sprintf(" %s %s", e.From, e.State)
			if e.RestartIn != nil {
				text += fmt.Sprint(" ", *e.RestartIn)
			}
		case eventlog.Start:
			text += fmt.Sprintf(" %d", e.Pid)
			runs[e.Run] = true
		case eventlog.Exit:
			text += fmt.Sprintf(" %d %q ran %.0f cpu %v rss %d bound %v", e.Pid, e.Reason, *e.Duration, *e.CPU, e.MaxRSS, e.RSSBound)
			if !runs[e.Run] || e.At.Sub(e.Started).Round(time.Second) != time.Minute {
				t.Errorf("exit of run %q that started at %v: %+v", e.Run, e.Started, e)
			}
		case eventlog.Command:
			text += fmt.Sprintf(" %s by %s", e.Reason, e.By)
		default: // instance and kind are enough
		}
		got = append(got, text)
	}
	want := []string{
		"web state stopped starting",
		fmt.Sprintf("web start %d", first.Pid),
		"web state starting running",
		fmt.Sprintf(`web exit %d "exit status 1" ran 60 cpu 2 rss %d bound false`, first.Pid, int64(1)<<40),
		"web state running backoff 0.1",
		"web state backoff starting",
		fmt.Sprintf("web start %d", second.Pid),
		"web state starting running",
		"web command stop by the operator",
		"web state running stopping",
		fmt.Sprintf(`web exit %d "killed by SIGTERM" ran 60 cpu 0 rss 0 bound true`, second.Pid),
		"web state stopping stopped",
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded:\n%q\nwant:\n%q", got, want)
	}
	if diagnoses, err := h.sup.Why([]string{"web"}); err != nil || len(diagnoses) != 1 || diagnoses[0].Desired.Up || !diagnoses[0].Desired.By.Is(fsm.ActorOperator) {
		t.Errorf("Why: %+v, %v; want web, stopped by the operator", diagnoses, err)
	}
}

// TestRecordedOnce kills superd when the event log has a start or an exit that the journal does not
// have: the successor does not record it again.
func TestRecordedOnce(t *testing.T) {
	for name, ends := range map[string]bool{"start": false, "exit": true} {
		t.Run(name, func(t *testing.T) {
			h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{programNamed("web", func(p *config.Program) {
				p.Restart, p.Autostart = config.RestartNever, false
			})}})
			h.events = eventlog.Open(t.TempDir(), eventlog.MaxSize, slog.New(slog.DiscardHandler))
			defer h.events.Close(time.Minute)
			h.sup.recorder.Events = h.events
			if !ends {
				h.journal.stall()
			}
			h.mustCommand(t, OpStart, "web")
			h.v.RunFor(time.Second)
			p := h.mainOf("web")
			if ends {
				h.journal.stall()
				p.End(pidfd.Exit{Known: true, Code: 1})
				h.v.RunFor(time.Second)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := h.events.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			h.crash()
			h.v.RunFor(time.Minute)
			// Stopped, as the journal has no desired state
			if in := inspect(h.sup).instance("web"); in.Run().Exists() {
				t.Fatalf("web is %v after the crash", in.state())
			}
			if err := h.events.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			times := map[eventlog.Kind]int{}
			for e, err := range h.events.Since(0) {
				if err != nil {
					t.Fatal(err)
				}
				if e.Run == p.Run {
					times[e.Kind]++
				}
			}
			if times[eventlog.Start] != 1 || times[eventlog.Exit] != 1 {
				t.Errorf("%d starts and %d exits are recorded, want one of each", times[eventlog.Start], times[eventlog.Exit])
			}
			if h.err != nil {
				t.Error(h.err)
			}
		})
	}
}

// TestShutdownIsWrittenFirst: the journal gets a shutdown in the turn that begins it.
func TestShutdownIsWrittenFirst(t *testing.T) {
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{programNamed("web", nil)}})
	for _, hurry := range []bool{false, true} {
		if hurry {
			h.sup.shutdown.requestedAt = -secondRequestAfter
		}
		h.sup.Shutdown("the test")
		at := slices.IndexFunc(h.journal.batch, func(e simEntry) bool { return e.key == snapshot.SuperdKey })
		if at < 0 {
			t.Fatalf("at once %v: the journal's writer has %v, want the shutdown", hurry, h.journal.batch)
		}
		if v := h.journal.batch[at].value.(*snapshot.Superd); v.Shutdown == nil || v.Shutdown.Hurry != hurry {
			t.Errorf("at once %v: %+v is being written", hurry, v.Shutdown)
		}
		h.journal.Put("x", nil) // writes it
		h.journal.writing = false
	}
}
