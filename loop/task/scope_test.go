package task

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/loop"
)

func TestScopeClose(t *testing.T) {
	runStories(t, []story{
		{"ends its tasks at once, the newest first", func(r *rig, t *Task) error {
			s := r.Root().Child()
			s.Defer(func() { r.note("older") })
			Go(s, func(t *Task) error {
				defer r.note("a ends")
				t.Scope().Defer(func() { r.note("scope of a closed") })
				t.Go(r.sleeper("a1"))
				t.Go(r.sleeper("a2"))
				return t.Sleep(time.Hour)
			})
			Go(s, r.sleeper("b"))
			unstarted := func() { Go(s, r.sleeper("c")) }
			_ = t.Yield()
			_ = t.Yield()
			unstarted()
			s.Close()
			r.note("closed")
			return nil
		}, []string{"c ends", "b ends", "a2 ends", "a1 ends", "a ends", "scope of a closed", "older", "closed"}},
		{"by a callback", func(r *rig, t *Task) error {
			s := r.Root().Child()
			a := Go(s, r.sleeper("a"))
			r.Root().After(tick, func() { s.Close(); r.note("closed") })
			r.note("joined: %v", a.Join(t))
			return nil
		}, []string{"a ends", "closed", "joined: task canceled"}},
		{"by a task in it", func(r *rig, t *Task) error {
			s := r.Root().Child()
			Go(s, r.sleeper("a"))
			b := Go(s, func(t *Task) error {
				t.Go(r.sleeper("b1"))
				_ = t.Yield()
				s.Close()
				r.note("closed")
				t.Go(r.sleeper("b2"))
				return t.Sleep(time.Hour)
			})
			r.note("joined: %v", b.Join(t))
			return nil
		}, []string{"b1 ends", "a ends", "closed", "b2 ends", "joined: task canceled"}},
		{"by a task below", func(r *rig, t *Task) error {
			s := r.Root().Child()
			top := Go(s, func(t *Task) error {
				defer r.note("top ends")
				return t.Go(func(t *Task) error {
					defer r.note("below ends")
					s.Close()
					r.note("closed")
					return t.Sleep(time.Hour)
				}).Join(t)
			})
			r.note("joined: %v", top.Join(t))
			return nil
		}, []string{"top ends", "closed", "below ends", "joined: task canceled"}},
		{"in a deferred function that this very close runs", func(r *rig, t *Task) error {
			s := r.Root().Child()
			Go(s, r.sleeper("a"))
			Go(s, func(t *Task) error {
				defer r.note("b ends")
				defer s.Close()
				t.Go(r.sleeper("b1"))
				return t.Sleep(time.Hour)
			})
			_ = t.Yield()
			s.Close()
			return nil
		}, []string{"b1 ends", "a ends", "b ends"}},
		{"what the end of a task starts ends, too", func(r *rig, t *Task) error {
			s := r.Root().Child()
			Go(s, func(t *Task) error {
				defer func() { Go(s, r.sleeper("other")) }()
				defer func() { t.Go(r.sleeper("child")) }()
				return t.Sleep(time.Hour)
			})
			_ = t.Yield()
			s.Close()
			r.note("closed")
			return nil
		}, []string{"other ends", "child ends", "closed"}},
		{"a closed scope runs and refuses", func(r *rig, t *Task) error {
			s := r.Root().Child()
			s.Close()
			r.note("ended: %v", Go(s, r.sleeper("a")).Ended())
			return nil
		}, []string{"a ends", "ended: true"}},
	})
}

// TestStop stops the loop beside tasks of all kinds.
func TestStop(t *testing.T) {
	onEach(t, func(r *rig) {
		Go(r.Root(), func(t *Task) error {
			t.Scope().Defer(func() { r.note("scope closed") })
			t.Go(r.sleeper("child"))
			return t.Shield(func() error { return r.sleeper("root")(t) })
		})
		Go(r.Root(), func(t *Task) error {
			defer r.note("stopper ends")
			if err := t.Sleep(tick); err != nil {
				return err
			}
			r.Stop()
			return t.Sleep(time.Hour)
		})
		if err := r.Loop.Run(); err != nil {
			r.Fatal(err)
		}
		if want := []string{"stopper ends", "child ends", "root ends", "scope closed"}; !slices.Equal(r.log, want) {
			r.Errorf("log %q, want %q", r.log, want)
		}
	})
}

// runPanics runs l, which has to panic with a Panic, and then closes its root.
func runPanics(r *rig) (p *Panic) {
	defer r.Root().Close()
	defer func() {
		var ok bool
		if p, ok = recover().(*Panic); !ok {
			r.Error("Run did not panic with a Panic")
		}
	}()
	r.Root().After(20*time.Second, r.Stop)
	_ = r.Loop.Run()
	return nil
}

func explode(t *Task) error {
	if err := t.Sleep(tick); err != nil {
		return err
	}
	panic(errors.ErrUnsupported)
}

func startsExplode(t *Task) { t.Go(explode) }

func joinsExplode(t *Task) error { return t.Sleep(time.Hour) }

func TestPanicEndsTheTree(t *testing.T) {
	onEach(t, func(r *rig) {
		Go(r.Root(), r.sleeper("other tree"))
		Go(r.Root(), func(t *Task) error {
			defer r.note("root ends")
			return t.Gather(t.Go(func(t *Task) error {
				defer r.note("parent ends")
				startsExplode(t)
				t.Go(r.sleeper("sibling"))
				return joinsExplode(t)
			}), t.Go(r.sleeper("uncle")))
		})
		p := runPanics(r)
		if want := []string{"parent ends", "sibling ends", "uncle ends", "root ends", "other tree ends"}; !slices.Equal(r.log, want) {
			r.Errorf("log %q, want %q", r.log, want)
		}
		for _, in := range []string{"panic in a task: unsupported operation", "explode", "joinsExplode", "startsExplode", "started by"} {
			if !strings.Contains(p.Error(), in) {
				r.Errorf("the panic does not name %q:\n%v", in, p)
			}
		}
		if !errors.Is(p, errors.ErrUnsupported) || p.Value != errors.ErrUnsupported { //nolint:errorlint // the value itself is thrown
			r.Errorf("the panic has the value %v", p.Value)
		}
	})
}

func TestPanic(t *testing.T) {
	runStories(t, []story{
		{"a parent recovers", func(r *rig, t *Task) error {
			parent := t.Go(func(t *Task) (err error) {
				defer func() { err = recover().(*Panic).Value.(error) }()
				return t.Go(explode).Join(t)
			})
			r.note("joined: %v", parent.Join(t))
			return nil
		}, []string{"joined: unsupported operation"}},
		{"it waits for a shield, and for Gather", func(r *rig, t *Task) error {
			parent := t.Go(func(t *Task) (err error) {
				defer func() { err = recover().(*Panic).Value.(error) }()
				c := t.Go(explode)
				_ = t.Shield(func() error { r.note("shielded: %v", t.Sleep(3*tick)); return nil })
				return t.Gather(c, t.Go(r.sleeper("other")))
			})
			r.note("joined: %v", parent.Join(t))
			return nil
		}, []string{"shielded: <nil>", "other ends", "joined: unsupported operation"}},
		{"another that joins gets it as an error", func(r *rig, t *Task) error {
			var bomb *Task
			parent := t.Go(func(t *Task) error {
				defer func() { _ = recover() }()
				bomb = t.Go(explode)
				return bomb.Join(t)
			})
			_ = t.Yield()
			err := bomb.Join(t)
			p, ok := errors.AsType[*Panic](err)
			r.note("%v: %v, parent: %v", ok, p.Value, parent.Join(t))
			return nil
		}, []string{"true: unsupported operation, parent: <nil>"}},
		{"after the parent has returned", func(r *rig, t *Task) error {
			grandparent := t.Go(func(t *Task) (err error) {
				defer func() { err = recover().(*Panic).Value.(error) }()
				return t.Go(func(t *Task) error {
					t.Go(explode)
					t.Go(r.sleeper("sibling"))
					return nil
				}).Join(t)
			})
			r.note("joined: %v", grandparent.Join(t))
			return nil
		}, []string{"sibling ends", "joined: unsupported operation"}},
		{"in a task that a scope ends", func(r *rig, t *Task) error {
			s := r.Root().Child()
			Go(s, r.sleeper("older"))
			Go(s, func(t *Task) error {
				defer func() { panic("in a deferred function") }()
				return t.Sleep(time.Hour)
			})
			_ = t.Yield()
			func() {
				defer func() { r.note("%v", recover().(*Panic).Value) }()
				s.Close()
			}()
			return t.Sleep(tick)
		}, []string{"older ends", "in a deferred function"}},
	})
}

// TestGoexit ends a task as FailNow of package testing does: the goroutine of the loop ends.
func TestGoexit(t *testing.T) {
	exit := func(*Task) error { runtime.Goexit(); return nil }
	tests := map[string]func(*rig, *Task) error{
		"alone":          func(r *rig, t *Task) error { return exit(t) },
		"with a child":   func(r *rig, t *Task) error { t.Go(r.sleeper("child")); _ = t.Yield(); return exit(t) },
		"before another": func(r *rig, t *Task) error { t.Go(r.sleeper("child")); return exit(t) },
		"as a guest": func(r *rig, t *Task) error {
			var f Future[int]
			t.Go(func(t *Task) error { defer r.note("child ends"); _, _ = f.Await(t); return exit(t) })
			_, _ = t.Yield(), t.Sleep(tick)
			f.Resolve(1)
			_ = t.Yield()
			r.Error("the task went on")
			return nil
		},
	}
	for name, f := range tests {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(r *rig) {
				var all []*Task
				finished := make(chan bool)
				go func() {
					defer close(finished)
					defer r.Root().Close()
					all = append(all, Go(r.Root(), r.sleeper("other")))
					all = append(all, Go(r.Root(), func(t *Task) error { return f(r, t) }))
					_ = r.Loop.Run()
					r.note("Run returned")
				}()
				<-finished
				want := []string{"child ends", "other ends"}
				if name == "alone" {
					want = want[1:]
				}
				if !slices.Equal(r.log, want) || !all[0].Ended() || !all[1].Ended() {
					r.Errorf("log %q, ended %v and %v, want %q", r.log, all[0].Ended(), all[1].Ended(), want)
				}
			})
		})
	}
}

func TestMisuse(t *testing.T) {
	runStories(t, []story{
		{"from a callback", func(r *rig, t *Task) error {
			var f Future[int]
			r.Post(func() {
				r.recovers(func() { _ = t.Sleep(time.Hour) })
				f.Resolve(1)
			})
			_, err := f.Await(t)
			return err
		}, []string{"panic: task: Sleep called from outside of its task: only the task's own function may wait"}},
		{"from another task", func(r *rig, t *Task) error {
			return t.Go(func(*Task) error {
				r.recovers(func() { _ = t.Shield(nil) })
				r.recovers(func() { _ = t.Timeout(1, nil) })
				r.recovers(func() { _, _ = new(Future[int]).Await(t) })
				return nil
			}).Join(t)
		}, []string{
			"panic: task: Shield called from outside of its task: only the task's own function may wait",
			"panic: task: Timeout called from outside of its task: only the task's own function may wait",
			"panic: task: Await called from outside of its task: only the task's own function may wait",
		}},
		{"after the end", func(r *rig, t *Task) error {
			c := t.Go(func(*Task) error { return nil })
			_ = c.Join(t)
			r.recovers(func() { _ = c.Yield() })
			return nil
		}, []string{"panic: task: Yield called from outside of its task: only the task's own function may wait"}},
	})
}

func TestFuture(t *testing.T) {
	runStories(t, []story{
		{"resolved once", func(r *rig, t *Task) error {
			var f, g Future[int]
			r.note("%v %v %v %v", f.Settled(), f.Resolve(1), f.Resolve(2), f.Reject(errors.New("no")))
			r.note("%v %v %v", g.Reject(errors.New("no")), g.Resolve(1), g.Settled())
			v, err := f.Await(t)
			r.note("%d, %v", v, err)
			v, err = g.Await(t)
			r.note("%d, %v", v, err)
			return nil
		}, []string{"false true false false", "true false true", "1, <nil>", "0, no"}},
		{"wakes all that wait, later", func(r *rig, t *Task) error {
			var f Future[string]
			for i := range 3 {
				t.Go(func(t *Task) error { v, err := f.Await(t); r.note("%d: %s, %v", i, v, err); return nil })
			}
			r.Root().After(tick, func() { f.Resolve("value"); r.note("resolved") })
			return nil
		}, []string{"resolved", "0: value, <nil>", "1: value, <nil>", "2: value, <nil>"}},
		{"a rejection reaches all that wait, and a cancelled one leaves the others", func(r *rig, t *Task) error {
			var f Future[string]
			f.Then(r.Root(), func(v string, err error) { r.note("then: %q, %v", v, err) })
			var all []*Task
			for i := range 3 {
				all = append(all, t.Go(func(t *Task) error { v, err := f.Await(t); r.note("%d: %q, %v", i, v, err); return nil }))
			}
			r.Root().After(tick, all[1].Cancel)
			r.Root().After(2*tick, func() { f.Reject(errors.New("no")) })
			t.GatherAll(all...)
			return t.Sleep(tick)
		}, []string{`1: "", task canceled`, `0: "", no`, `2: "", no`, `then: "", no`}},
		{"Then is called later, in order, for open scopes", func(r *rig, t *Task) error {
			var f Future[int]
			s := r.Root().Child()
			show := func(name string) func(int, error) {
				return func(v int, err error) { r.note("%s: %d, %v", name, v, err) }
			}
			f.Then(r.Root(), show("a"))
			f.Then(s, show("gone"))
			f.Then(r.Root(), show("b"))
			f.Resolve(1)
			f.Then(r.Root(), show("c"))
			s.Close()
			r.note("resolved")
			return t.Sleep(tick)
		}, []string{"resolved", "a: 1, <nil>", "b: 1, <nil>", "c: 1, <nil>"}},
	})
}

// TestYieldStarvesNothing runs tasks that always want to run, beside a timer and posted work.
func TestYieldStarvesNothing(t *testing.T) {
	busy := func(t *Task) error {
		for {
			if err := t.Yield(); err != nil {
				return err
			}
		}
	}
	for n := range 4 {
		onEach(t, func(r *rig) {
			r.run(func(t *Task) error {
				var f Future[int]
				r.Root().After(tick, func() { r.note("timer"); r.Post(func() { f.Resolve(1) }) })
				for range n {
					_ = t.Yield() // so that the turn may end at either of two
				}
				a, b := t.Go(busy), t.Go(busy)
				_, err := f.Await(t)
				a.Cancel()
				b.Cancel()
				return err
			}, "timer")
		})
	}
}

// TestTimeoutLeavesNoTimer checks that no time passes after the end of all tasks.
func TestTimeoutLeavesNoTimer(t *testing.T) {
	v := loop.NewVirtual(1)
	start := v.Now()
	Go(v.Root(), func(t *Task) error {
		return t.Timeout(time.Hour, func() error { return t.Timeout(2*time.Hour, func() error { return t.Sleep(tick) }) })
	})
	for v.Step() {
	}
	if d := v.Now() - start; d != tick {
		t.Errorf("the loop came to rest after %v, want %v", d, tick)
	}
}

// TestEndedTasksAreForgotten: a scope, a future and a parent outlive many tasks.
func TestEndedTasksAreForgotten(t *testing.T) {
	v := loop.NewVirtual(1)
	s := v.Root().Child()
	var f Future[int]
	var parent *Task
	Go(s, func(t *Task) error { parent = t; _, err := f.Await(t); return err })
	v.Step()
	round := func() uint64 {
		for range 1000 {
			brief := func(t *Task) error {
				return t.Timeout(tick, func() error { _, err := f.Await(t); return err })
			}
			Go(s, brief)
			parent.Go(brief)
		}
		for v.Step() {
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapObjects
	}
	round()
	before := round()
	if after := round(); after > before+1000 {
		t.Errorf("%d objects live after 2000 tasks, %d before", after, before)
	}
	s.Close()
}

// TestRun: Run returns the error of the task, or that of a loop stopped by other code.
func TestRun(t *testing.T) {
	onEach(t, func(r *rig) {
		r.Root().After(tick, r.Stop)
		r.run(r.sleeper("main"), "main ends", "main: task canceled")
	})
}

func TestVirtualReadable(t *testing.T) {
	v := loop.NewVirtual(1)
	r := &rig{T: t, Loop: v.Loop}
	fd := v.NewFD()
	r.run(func(t *Task) error {
		v.Root().After(tick, func() { v.SetReady(fd, loop.Readable) })
		r.note("readable: %v", t.Readable(fd))
		v.SetReady(fd, loop.Writable)
		r.note("writable: %v", t.Writable(fd))
		r.note("timeout: %v", t.Timeout(tick, func() error { return t.Readable(fd) }))
		v.CloseFD(fd)
		r.note("closed: %v", t.Readable(fd))
		return nil
	}, "readable: <nil>", "writable: <nil>", "timeout: timeout",
		fmt.Sprintf("closed: watch descriptor %d: bad file descriptor", fd))
}
