package procs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/config"
	"superd/procs/fsm"
	"superd/procs/host/hosttest"
	"superd/procs/notify"
)

// changeProgram applies a changed definition of the first program and returns its change.
func (h *history) changeProgram(alter func(p *config.Program)) *config.Change {
	definition := inspect(h.sup).config().Programs[0].Clone()
	alter(definition)
	report := inspect(h.sup).activate(&config.Config{Superd: inspect(h.sup).config().Superd, Programs: []*config.Program{definition}})
	return &report.Programs[0]
}

// TestAppliedLive: changes that need no restart take effect on a running instance.
func TestAppliedLive(t *testing.T) {
	type test struct {
		name    string
		program func(p *config.Program)
		bring   func(t *testing.T, h *history) // brings the instance into the state for the change
		alter   func(p *config.Program)
		check   func(t *testing.T, h *history, in instanceView)
	}
	tests := []test{
		{"a longer start time-out while it reads its configuration", func(p *config.Program) { p.Watchdog = time.Hour },
			func(_ *testing.T, h *history) {
				h.mainOf("web").Notify(notify.Message{Reloading: true})
				h.v.RunFor(time.Second)
			},
			func(p *config.Program) { p.StartTimeout += time.Minute },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(in.program().StartTimeout - 2*time.Second)
				if !in.Run().Reloads() {
					t.Error("1s before the start time-out: its health counts again")
				}
				h.v.RunFor(2 * time.Second)
				if in.Run().Reloads() {
					t.Error("1s after the start time-out: its health does not count")
				}
			}},
		{"a longer stop time-out of a program that stops by itself", func(p *config.Program) { p.Watchdog = time.Hour },
			func(_ *testing.T, h *history) {
				h.mainOf("web").Notify(notify.Message{Stopping: true})
				h.v.RunFor(time.Second)
			},
			func(p *config.Program) { p.StopTimeout += time.Minute },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(in.program().StopTimeout - 2*time.Second)
				if in.state() != fsm.Running {
					t.Errorf("1s before the stop time-out: %v, want running", in.state())
				}
				h.v.RunFor(2 * time.Second)
				if in.state() != fsm.Stopping {
					t.Errorf("1s after the stop time-out: %v, want stopping", in.state())
				}
			}},
		{"a shorter stop time-out of a stop under way", nil,
			func(t *testing.T, h *history) { h.mustCommand(t, OpStop, "web") },
			func(p *config.Program) { p.StopTimeout = 3 * time.Second },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(4 * time.Second)
				if in.state() != fsm.Stopped {
					t.Errorf("4s after the stop: %v, want stopped", in.state())
				}
			}},
		{"a longer stop time-out of a stop under way", nil,
			func(t *testing.T, h *history) { h.mustCommand(t, OpStop, "web") },
			func(p *config.Program) { p.StopTimeout = 30 * time.Second },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(29 * time.Second)
				if in.state() != fsm.Stopping {
					t.Errorf("29s after the stop: %v, want stopping", in.state())
				}
			}},
		{"a shorter backoff", func(p *config.Program) { p.Backoff.Initial, p.Backoff.Max = time.Minute, time.Minute },
			func(_ *testing.T, h *history) { h.mainOf("web").End(exitThree); h.v.RunFor(time.Second) },
			func(p *config.Program) { p.Backoff.Initial = 2 * time.Second },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(2 * time.Second)
				if in.state() != fsm.Running {
					t.Errorf("3s after the end: %v, want running", in.state())
				}
			}},
		{"no restart now, in backoff", func(p *config.Program) { p.Backoff.Initial = time.Minute },
			func(_ *testing.T, h *history) { h.mainOf("web").End(exitThree); h.v.RunFor(time.Second) },
			func(p *config.Program) { p.Restart = config.RestartNever },
			func(t *testing.T, _ *history, in instanceView) {
				if in.state() != fsm.Failed || in.RetryPending() || !strings.Contains(in.reason(), `restart is now "never"`) {
					t.Errorf("%v: %s, want failed for good", in.state(), in.reason())
				}
			}},
		{"a restart after all", func(p *config.Program) { p.Restart = config.RestartNever },
			func(_ *testing.T, h *history) { h.mainOf("web").End(exitThree); h.v.RunFor(time.Second) },
			func(p *config.Program) { p.Restart = config.RestartOnFailure },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(time.Second)
				if in.state() != fsm.Running {
					t.Errorf("%v, want running", in.state())
				}
			}},
		{"exited stays exited", func(p *config.Program) { p.Restart = config.RestartOnFailure },
			func(_ *testing.T, h *history) { h.mainOf("web").End(exitZero); h.v.RunFor(time.Second) },
			func(p *config.Program) { p.StartLimit.Failures, p.StartLimit.Within = 3, time.Minute },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(time.Minute)
				if in.state() != fsm.Exited {
					t.Errorf("%v, want exited", in.state())
				}
			}},
		{"at the start limit, retried sooner", func(p *config.Program) {
			p.StartLimit = config.StartLimit{Failures: 1, Within: time.Minute, RetryAfter: time.Hour}
		},
			func(_ *testing.T, h *history) { h.mainOf("web").End(exitThree); h.v.RunFor(time.Second) },
			func(p *config.Program) { p.StartLimit.RetryAfter = 5 * time.Second },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(5 * time.Second)
				if in.state() != fsm.Running {
					t.Errorf("%v, want running", in.state())
				}
			}},
		{"at the start limit, without a limit now", func(p *config.Program) {
			p.StartLimit = config.StartLimit{Failures: 1, Within: time.Minute}
		},
			func(_ *testing.T, h *history) { h.mainOf("web").End(exitThree); h.v.RunFor(time.Second) },
			func(p *config.Program) { p.StartLimit.Failures = 0 },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(time.Second)
				if in.state() != fsm.Running {
					t.Errorf("%v, want running", in.state())
				}
			}},
		{"at the start limit, not retried: by retry_after", func(p *config.Program) {
			p.StartLimit = config.StartLimit{Failures: 1, Within: time.Minute, RetryAfter: time.Hour}
		},
			func(_ *testing.T, h *history) { h.mainOf("web").End(exitThree); h.v.RunFor(time.Second) },
			func(p *config.Program) { p.StartLimit.RetryAfter = 0 },
			failedForGood("start limit hit: 1 failure within 1m; retry_after = 0: not retried")},
		{"at the start limit, not retried: by restart", func(p *config.Program) {
			p.StartLimit = config.StartLimit{Failures: 1, Within: time.Minute, RetryAfter: time.Hour}
		},
			func(_ *testing.T, h *history) { h.mainOf("web").End(exitThree); h.v.RunFor(time.Second) },
			func(p *config.Program) { p.Restart = config.RestartNever },
			failedForGood(`restart is now "never"`)},
		{"at the start limit, not retried, during the teardown", func(p *config.Program) {
			p.StartLimit = config.StartLimit{Failures: 1, Within: time.Minute, RetryAfter: time.Hour}
			p.PostStop = [][]string{{hosttest.PostStopCommand}}
		},
			untilInHook,
			func(p *config.Program) { p.Restart = config.RestartNever },
			failedForGood(`restart is now "never"`)},
		{"about to hit the start limit, retried sooner", func(p *config.Program) {
			p.StartLimit = config.StartLimit{Failures: 1, Within: time.Minute}
			p.PostStop = [][]string{{hosttest.PostStopCommand}}
		},
			untilInHook,
			func(p *config.Program) { p.StartLimit.RetryAfter = 5 * time.Second },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(time.Second)
				if in.state() != fsm.Failed || strings.Contains(in.reason(), "not retried") {
					t.Errorf("%v: %s, want failed, to be retried", in.state(), in.reason())
				}
				h.v.RunFor(5 * time.Second)
				if in.state() != fsm.Running {
					t.Errorf("%v, want running", in.state())
				}
			}},
		{"an exit before readiness is no success", func(p *config.Program) {
			p.Ready = &config.Ready{Notify: true}
			p.Backoff.Initial = time.Hour
			p.Backoff.Max = time.Hour
		},
			func(_ *testing.T, h *history) {
				h.kernel.Mix.NeverReady = 1
				h.mainOf("web").End(exitThree)
				h.v.RunFor(time.Hour + time.Second)
				h.mainOf("web").End(exitZero)
				h.v.RunFor(time.Second)
			},
			func(p *config.Program) { p.Restart = config.RestartOnFailure },
			func(t *testing.T, _ *history, in instanceView) {
				if in.state() != fsm.Backoff {
					t.Errorf("%v: %s, want backoff", in.state(), in.reason())
				}
			}},
		{"a run that the operator requested, before the program got a schedule",
			func(p *config.Program) { p.Type, p.Restart = config.TypeOneshot, config.RestartNever },
			func(t *testing.T, h *history) {
				h.mustCommand(t, OpRestart, "web")
				h.v.RunFor(time.Minute)
				h.mainOf("web").End(exitZero)
				h.v.RunFor(time.Second)
			},
			func(p *config.Program) { p.Schedule, p.ScheduleMissed = "@every 9m", config.MissedSkip },
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(time.Second)
				if !in.awaitsSchedule() {
					t.Errorf("%v: %s, want it waiting for its schedule", in.state(), in.reason())
				}
			}},
		{"log rotation and groups", nil, func(*testing.T, *history) {},
			func(p *config.Program) { p.Log.MaxSize, p.Groups = 5, []string{"g"} },
			func(t *testing.T, h *history, in instanceView) {
				if all, err := h.sup.Status([]string{"g"}); err != nil || len(all) != 1 {
					t.Errorf("the group is %v, %v", all, err)
				}
			}},
	}
	awaiting := func(_ *testing.T, h *history) {
		h.kernel.Mix.NeverReady = 1
		h.mainOf("web").End(exitThree)
		h.v.RunFor(time.Second)
	}
	becomesReady := func(t *testing.T, h *history, in instanceView) {
		h.kernel.SocketOf(in.Run().ID()).WriteNewline()
		h.v.RunFor(time.Second)
		if in.state() != fsm.Running {
			t.Errorf("%v: %s, want running: it reported readiness", in.state(), in.reason())
		}
	}
	scheduled := func(p *config.Program) {
		p.Type, p.Restart, p.Schedule = config.TypeOneshot, config.RestartNever, "@every 5m"
	}
	unscheduled := func(p *config.Program) { p.Schedule = "" }
	onDescriptor := func(p *config.Program) { p.Ready = &config.Ready{FD: 3, Interval: time.Second, Timeout: time.Second} }
	tests = append(tests, []test{
		{"schedule removed while it waits for it", scheduled, func(*testing.T, *history) {}, unscheduled,
			func(t *testing.T, h *history, in instanceView) {
				h.v.RunFor(time.Hour)
				if in.state() != fsm.Stopped || h.kernel.MainsStarted("web") > 0 {
					t.Errorf("%v: %s, after %d runs; want it stopped, and never run", in.state(), in.reason(), h.kernel.MainsStarted("web"))
				}
				h.changeProgram(scheduled)
				if !in.awaitsSchedule() {
					t.Errorf("%v: %s, want it waiting for its new schedule", in.state(), in.reason())
				}
			}},
		{"schedule removed during a run", scheduled, func(_ *testing.T, h *history) { h.v.RunFor(5 * time.Minute) }, unscheduled,
			func(t *testing.T, h *history, in instanceView) {
				h.mainOf("web").End(exitZero)
				h.v.RunFor(time.Hour)
				if in.state() != fsm.Exited || h.kernel.MainsStarted("web") != 1 {
					t.Errorf("%v: %s, after %d runs; want it exited, after one", in.state(), in.reason(), h.kernel.MainsStarted("web"))
				}
			}},
		{"health, before readiness on its descriptor", onDescriptor, awaiting,
			func(p *config.Program) {
				p.Health = &config.Health{TCP: "web", Interval: time.Minute, Timeout: time.Second, Failures: 3}
			}, becomesReady},
		{"the interval of other kinds of readiness, before that", onDescriptor, awaiting,
			func(p *config.Program) { p.Ready = &config.Ready{FD: 3, Interval: time.Minute, Timeout: time.Second} }, becomesReady},
	}...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			program := programNamed("web", func(p *config.Program) {
				p.StopTimeout = 10 * time.Second
				if tt.program != nil {
					tt.program(p)
				}
			})
			h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{program}})
			h.v.RunFor(time.Second)
			in := inspect(h.sup).instance("web")
			if in.Run().Exists() {
				h.mainOf("web").IgnoresStop = true
			}
			tt.bring(t, h)
			run := in.Run()
			if c := h.changeProgram(tt.alter); c.Kind != config.AppliedLive {
				t.Fatalf("the change is %s: %v", c.Kind, c.Keys)
			}
			if run.Exists() && in.Run() != run {
				t.Error("it got a new run at once")
			}
			tt.check(t, h, in)
			if h.err != nil {
				t.Error(h.err)
			}
		})
	}
}

// untilInHook ends the program and waits until its post_stop hook runs.
func untilInHook(t *testing.T, h *history) {
	h.kernel.Mix.HookTime = time.Hour
	h.mainOf("web").End(exitThree)
	h.v.RunFor(10 * time.Millisecond)
	if in := inspect(h.sup).instance("web"); in.state() != fsm.TearingDown || !in.Run().Hook().Exists() {
		t.Fatalf("web is %v, want it in its hook", in.state().Name())
	}
	h.v.Root().After(time.Millisecond, func() { h.hookOf("web").End(exitZero) })
}

// failedForGood returns a check that the program is not retried, and that its reason says so.
func failedForGood(says string) func(*testing.T, *history, instanceView) {
	return func(t *testing.T, h *history, in instanceView) {
		h.v.RunFor(time.Second)
		if in.state() != fsm.Failed || in.RetryPending() || !strings.Contains(in.reason(), says) {
			t.Errorf("%v, retry pending: %v: %s; want failed for good: %s", in.state(), in.RetryPending(), in.reason(), says)
		}
	}
}

// TestReloadRetiresBeforeItStarts: a new program that requires a program with a surplus instance
// does not start while that instance runs.
func TestReloadRetiresBeforeItStarts(t *testing.T) {
	db := func(replicas int) *config.Program {
		return programNamed("db", func(p *config.Program) { p.Replicas = replicas })
	}
	app := programNamed("app", func(p *config.Program) { p.Requires = []string{"db"} })
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{db(1)}})
	inspect(h.sup).activate(&config.Config{Programs: []*config.Program{app, db(2)}})
	in := inspect(h.sup).instance("app")
	if in.state() != fsm.Waiting {
		t.Errorf("app is %v right after the reload, want waiting", in.state())
	}
	h.v.RunFor(time.Minute)
	if in.state() != fsm.Running || h.err != nil {
		t.Errorf("app is %v in the end, %v", in.state(), h.err)
	}
}

// TestReloadHangs: callers of a reload are answered while the reading of a file hangs. The reload
// takes effect when the file is read.
func TestReloadHangs(t *testing.T) {
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{programNamed("web", nil)}})
	began, answer := make(chan bool, 10), make(chan bool)
	h.sup.options.Load = func(inForce *config.Config, reading func(string)) (*config.Config, error) {
		reading("/mnt/dead/web.toml")
		began <- true
		<-answer
		return &config.Config{Superd: inForce.Superd, Programs: []*config.Program{programNamed("web", nil), programNamed("db", nil)}}, nil
	}
	results := map[string]error{}
	reload := func(caller string) {
		h.sup.Reload(false, func(_ ReloadResult, err error) { results[caller] = err })
	}
	expect := func(caller string) {
		t.Helper()
		h.v.RunFor(time.Millisecond)
		if err := results[caller]; err == nil || !strings.Contains(err.Error(), "/mnt/dead/web.toml") {
			t.Errorf("%s got %v, want the file that hangs", caller, err)
		}
	}
	reload("the first")
	<-began
	reload("the second")
	h.v.RunFor(reloadTimeout)
	expect("the first")
	expect("the second")
	reload("the third")
	expect("the third")
	close(answer)
	over := func() {
		for deadline := time.Now().Add(time.Minute); h.sup.reloads.running && time.Now().Before(deadline); {
			h.v.RunFor(time.Millisecond)
			time.Sleep(time.Millisecond) // a goroutine reads the files
		}
	}
	over()
	reload("the last")
	over()
	if err, ok := results["the last"]; !ok || err != nil || !inspect(h.sup).instance("db").exists() {
		t.Errorf("the last got %v, %v; db is %v", err, ok, inspect(h.sup).instance("db").exists())
	}
}

// TestReloadWithoutChange: a reload without a difference writes nothing and changes no instance.
func TestReloadWithoutChange(t *testing.T) {
	web := programNamed("web", nil)
	h, _ := newFaultFree(1, &config.Config{Programs: []*config.Program{web}})
	h.v.RunFor(time.Minute)
	before, run, number := len(h.journal.queue), inspect(h.sup).instance("web").Run(), inspect(h.sup).configNumber()
	turns := h.v.Turns()
	same := *web
	same.File, same.Line = "elsewhere.toml", 7
	report := inspect(h.sup).activate(&config.Config{Path: "elsewhere.toml", Programs: []*config.Program{&same}})
	if report.Differs() || len(h.journal.queue) != before || inspect(h.sup).instance("web").Run() != run || inspect(h.sup).configNumber() != number {
		t.Errorf("the reload has changed something: %+v, %d records queued", report, len(h.journal.queue)-before)
	}
	h.v.RunFor(time.Hour)
	if more := h.v.Turns() - turns; more > 1 {
		t.Errorf("it caused %d turns", more)
	}
}

// TestChangedEnvFile: variables that differ from those of the run need a restart, whenever they
// were read.
func TestChangedEnvFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "superd.toml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("superd.toml", "[program.web]\ncommand = 'x'\nenv_file = 'web.env'\n[program.other]\ncommand = 'x'\n")
	write("web.env", "A=1\n")
	loaded := func() *config.Config {
		t.Helper()
		c, err := config.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	h, _ := newFaultFree(1, loaded())
	h.v.RunFor(time.Minute)
	in := inspect(h.sup).instance("web")
	first := inspect(h.sup).config()
	sum, _ := first.EnvFileSum(in.program())
	in.Run().SetEnvSum(sum)
	kinds := func(next *config.Config) (kinds []config.ChangeKind) {
		diff := config.Compare(inspect(h.sup).config(), next)
		h.sup.applier.addOutdated(&diff, next)
		for _, c := range diff.Programs {
			kinds = append(kinds, c.Kind)
		}
		return kinds
	}
	unchanged := []config.ChangeKind{config.Unchanged, config.Unchanged}
	if got := kinds(loaded()); !slices.Equal(got, unchanged) {
		t.Errorf("the same variables: %v", got)
	}
	write("web.env", "A=2\n")
	next := loaded()
	if got, want := kinds(next), []config.ChangeKind{config.Unchanged, config.RestartNeeded}; !slices.Equal(got, want) {
		t.Errorf("other variables: %v, want %v", got, want)
	}
	diff := config.Compare(inspect(h.sup).config(), next)
	h.sup.applier.addOutdated(&diff, next)
	run := in.Run()
	inspect(h.sup).apply(next, diff)
	h.v.RunFor(time.Minute)
	if in.Run() == run {
		t.Error("it was not restarted")
	}
	sum, _ = next.EnvFileSum(in.program())
	in.Run().SetEnvSum(sum)
	if got := kinds(loaded()); !slices.Equal(got, unchanged) {
		t.Errorf("after the restart: %v", got)
	}
}

// BenchmarkReload measures a reload of 10,000 programs that changes one: reading, comparison and
// the loop's share.
func BenchmarkReload(b *testing.B) {
	path := filepath.Join(b.TempDir(), "superd.toml")
	write := func(changed string) {
		var text strings.Builder
		text.WriteString("[defaults]\nstop_timeout = '5s'\n")
		for i := range 10_000 {
			command := "sleep infinity"
			if i == 5000 {
				command = changed
			}
			fmt.Fprintf(&text, "[program.p%05d]\ncommand = '%s'\nenvironment = { A = '%d' }\ngroups = ['all']\n", i, command, i)
		}
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	write("first")
	conf, err := config.Load(path)
	if err != nil || len(conf.Errors) > 0 {
		b.Fatal(err, conf.Errors)
	}
	h, _ := newFaultFree(1, conf)
	h.v.RunFor(time.Minute)
	h.sup.options.Archive = (*config.Config).Archive
	onLoop, n := time.Duration(0), 0
	for b.Loop() {
		b.StopTimer()
		n++
		write(fmt.Sprint("other ", n))
		b.StartTimer()
		next, err := config.LoadAfter(path, inspect(h.sup).config(), func(string) {})
		if err != nil {
			b.Fatal(err)
		}
		diff := config.Compare(inspect(h.sup).config(), next)
		began := time.Now()
		h.sup.applier.addOutdated(&diff, next)
		report := inspect(h.sup).apply(next, diff)
		onLoop += time.Since(began)
		next.Archive() // the journal does that elsewhere
		if got := report.Names(config.RestartNeeded); len(got) != 1 {
			b.Fatalf("restarted: %v", got)
		}
		b.StopTimer()
		h.v.RunFor(time.Minute)
		b.StartTimer()
	}
	b.ReportMetric(float64(onLoop.Microseconds())/float64(n)/1000, "ms-on-loop/op")
}
