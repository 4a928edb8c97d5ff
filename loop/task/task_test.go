package task

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"superd/loop"
)

// A rig is a loop under test and the log of what the tasks did.
type rig struct {
	*testing.T
	*loop.Loop
	log []string
}

// onEach runs a test body on the loop over epoll and on the virtual one.
func onEach(t *testing.T, body func(*rig)) {
	t.Run("virtual", func(t *testing.T) { body(&rig{T: t, Loop: loop.NewVirtual(1).Loop}) })
	t.Run("epoll", func(t *testing.T) {
		l, err := loop.New()
		if err != nil {
			t.Fatal(err)
		}
		body(&rig{T: t, Loop: l})
	})
}

func (r *rig) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// run runs main and what it starts to the end, and compares the log.
func (r *rig) run(main func(*Task) error, want ...string) {
	r.Helper()
	r.Root().After(20*time.Second, func() {
		r.Error("the main task did not end")
		r.Stop()
	})
	if err := Run(r.Loop, main); err != nil {
		r.note("main: %v", err)
	}
	if !slices.Equal(r.log, want) {
		r.Errorf("log:\n%q, want\n%q", r.log, want)
	}
}

// A story is a main task and the notes of it and of those it starts.
type story struct {
	name string
	main func(*rig, *Task) error
	want []string
}

// runStories runs stories on each loop.
func runStories(t *testing.T, stories []story) {
	for _, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			onEach(t, func(r *rig) {
				r.run(func(t *Task) error { return s.main(r, t) }, s.want...)
			})
		})
	}
}

// sleeper returns a function that sleeps without end, and notes how it is ended.
func (r *rig) sleeper(name string) func(*Task) error {
	return func(t *Task) error {
		defer r.note("%s ends", name)
		return t.Sleep(time.Hour)
	}
}

// recovers calls f, which has to panic, and notes the panic.
func (r *rig) recovers(f func()) {
	defer func() { r.note("panic: %v", recover()) }()
	f()
}

const tick = 100 * time.Microsecond

func TestTree(t *testing.T) {
	runStories(t, []story{
		{"tasks start later and in order", func(r *rig, t *Task) error {
			for i := range 3 {
				t.Go(func(*Task) error { r.note("%d", i); return nil })
			}
			r.note("main")
			return nil
		}, []string{"main", "0", "1", "2"}},
		{"a callback starts tasks", func(r *rig, t *Task) error {
			var done Future[int]
			r.Post(func() {
				Go(r.Root(), func(*Task) error { r.note("root"); return nil })
				t.Go(func(*Task) error { r.note("child"); done.Resolve(1); return nil })
				r.note("callback")
			})
			_, err := done.Await(t)
			return err
		}, []string{"callback", "root", "child"}},
		{"a parent waits for its children", func(r *rig, t *Task) error {
			parent := t.Go(func(t *Task) error {
				t.Scope().Defer(func() { r.note("scope closed") })
				t.Go(func(t *Task) error {
					t.Go(func(t *Task) error {
						defer r.note("grandchild ends")
						return t.Sleep(2 * tick)
					})
					defer r.note("child ends")
					return t.Sleep(tick)
				})
				r.note("parent returns")
				return nil
			})
			err := parent.Join(t)
			r.note("joined: %v", parent.Ended())
			return err
		}, []string{"parent returns", "child ends", "grandchild ends", "scope closed", "joined: true"}},
		{"an error cancels the children", func(r *rig, t *Task) error {
			parent := t.Go(func(t *Task) error {
				t.Go(r.sleeper("child"))
				if err := t.Yield(); err != nil {
					return err
				}
				return fmt.Errorf("failed")
			})
			r.note("joined: %v", parent.Join(t))
			return nil
		}, []string{"child ends", "joined: failed"}},
		{"cancel after the return goes to the children", func(r *rig, t *Task) error {
			parent := t.Go(func(t *Task) error { t.Go(r.sleeper("child")); return nil })
			r.note("yield: %v, %v", t.Yield(), t.Yield())
			parent.Cancel()
			r.note("joined: %v", parent.Join(t))
			return nil
		}, []string{"yield: <nil>, <nil>", "child ends", "joined: <nil>"}},
		{"one that was cancelled cancels its children, whatever it returns", func(r *rig, t *Task) error {
			parent := t.Go(func(t *Task) error { t.Go(r.sleeper("child")); _ = t.Sleep(time.Hour); return nil })
			_ = t.Yield()
			parent.Cancel()
			r.note("joined: %v", parent.Join(t))
			return nil
		}, []string{"child ends", "joined: <nil>"}},
		{"the scope of one that has ended is closed", func(r *rig, t *Task) error {
			c := t.Go(func(t *Task) error { return nil })
			err := c.Join(t)
			c.Scope().Defer(func() { r.note("at once") })
			r.note("joined: %v", err)
			return nil
		}, []string{"at once", "joined: <nil>"}},
		{"more switches than a turn has", func(r *rig, t *Task) error {
			taker := func(t *Task) error {
				for range 2*batch + 1 {
					if err := t.Yield(); err != nil {
						return err
					}
				}
				return nil
			}
			a, b, c := t.Go(taker), t.Go(taker), t.Go(taker)
			r.note("gather: %v", t.Gather(a, b, c))
			return taker(t)
		}, []string{"gather: <nil>"}},
		{"a child of one that has ended is refused", func(r *rig, t *Task) error {
			parent := t.Go(func(t *Task) error { return nil })
			if err := parent.Join(t); err != nil {
				return err
			}
			parent.Go(func(t *Task) error { r.note("runs: %v", t.Sleep(tick)); return nil })
			r.note("main")
			return nil
		}, []string{"runs: task canceled", "main"}},
	})
}

func TestJoin(t *testing.T) {
	runStories(t, []story{
		{"result and error", func(r *rig, t *Task) error {
			quick := t.Go(func(t *Task) error { r.note("quick"); return fmt.Errorf("failed") })
			slow := Start(t, func(t *Task) (int, error) {
				defer r.note("slow ends")
				return 42, t.Sleep(tick)
			})
			n, err := slow.Join(t)
			r.note("slow: %d, %v", n, err)
			r.note("quick: %v", quick.Join(t))
			n, err = slow.Join(t)
			r.note("again: %d, %v", n, err)
			return fmt.Errorf("end")
		}, []string{"quick", "slow ends", "slow: 42, <nil>", "quick: failed", "again: 42, <nil>", "main: end"}},
		{"several join one", func(r *rig, t *Task) error {
			one := t.Go(func(t *Task) error { return t.Sleep(tick) })
			for i := range 3 {
				t.Go(func(t *Task) error { r.note("%d: %v", i, one.Join(t)); return nil })
			}
			return nil
		}, []string{"0: <nil>", "1: <nil>", "2: <nil>"}},
		{"a joiner that is cancelled leaves the other be", func(r *rig, t *Task) error {
			one := t.Go(func(t *Task) error { defer r.note("one ends"); return t.Sleep(tick) })
			joiner := t.Go(func(t *Task) error { r.note("joiner: %v", one.Join(t)); return nil })
			r.note("yield: %v", t.Yield())
			joiner.Cancel()
			return one.Join(t)
		}, []string{"yield: <nil>", "joiner: task canceled", "one ends"}},
		{"nobody joins itself, or one above", func(r *rig, t *Task) error {
			r.recovers(func() { _ = t.Join(t) })
			child := t.Go(func(c *Task) error {
				r.recovers(func() { _ = t.Join(c) })
				r.recovers(func() { _ = c.Gather(t) })
				return nil
			})
			return child.Join(t)
		}, slices.Repeat([]string{
			"panic: task: a task waits for itself or an ancestor, which can't end before it",
		}, 3)},
	})
}

func TestGather(t *testing.T) {
	after := func(d time.Duration, err error) func(*Task) error {
		return func(t *Task) error {
			if err := t.Sleep(d); err != nil {
				return err
			}
			return err
		}
	}
	runStories(t, []story{
		{"all", func(r *rig, t *Task) error {
			a := Start(t, func(t *Task) (string, error) { return "a", t.Sleep(2 * tick) })
			b := Start(t, func(t *Task) (int, error) { return 2, t.Sleep(tick) })
			r.note("gather: %v", t.Gather(a.Task, b.Task))
			av, _ := a.Join(t)
			bv, _ := b.Join(t)
			r.note("%v %v", av, bv)
			return nil
		}, []string{"gather: <nil>", "a 2"}},
		{"none", func(r *rig, t *Task) error { return t.Gather() }, nil},
		{"the first error cancels the rest", func(r *rig, t *Task) error {
			err := t.Gather(t.Go(r.sleeper("a")), t.Go(after(tick, fmt.Errorf("failed"))), t.Go(r.sleeper("c")))
			r.note("gather: %v", err)
			return nil
		}, []string{"a ends", "c ends", "gather: failed"}},
		{"one that has failed already", func(r *rig, t *Task) error {
			failed := t.Go(func(t *Task) error { return fmt.Errorf("failed") })
			_ = failed.Join(t)
			r.note("gather: %v", t.Gather(t.Go(r.sleeper("a")), failed))
			return nil
		}, []string{"a ends", "gather: failed"}},
		{"cancel cancels all and waits for them", func(r *rig, t *Task) error {
			g := t.Go(func(t *Task) error {
				slow := t.Go(func(t *Task) error {
					defer r.note("slow ends")
					return t.Shield(func() error { return t.Sleep(2 * tick) })
				})
				return t.Gather(t.Go(r.sleeper("a")), slow)
			})
			if err := t.Sleep(tick); err != nil {
				return err
			}
			g.Cancel()
			r.note("joined: %v", g.Join(t))
			return nil
		}, []string{"a ends", "slow ends", "joined: task canceled"}},
		{"a timeout cancels all", func(r *rig, t *Task) error {
			err := t.Timeout(tick, func() error { return t.Gather(t.Go(r.sleeper("a")), t.Go(r.sleeper("b"))) })
			r.note("timeout: %v", err)
			return t.Yield()
		}, []string{"a ends", "b ends", "timeout: timeout"}},
		{"GatherAll has all errors", func(r *rig, t *Task) error {
			errs := t.GatherAll(t.Go(after(tick, fmt.Errorf("x"))), t.Go(after(2*tick, nil)), t.Go(after(0, fmt.Errorf("z"))))
			r.note("%v", errs)
			return nil
		}, []string{"[x <nil> z]"}},
	})
}

func TestCancel(t *testing.T) {
	runStories(t, []story{
		{"whatever a task waits for", func(r *rig, t *Task) error {
			waits := map[string]func(*Task) error{
				"Sleep": func(t *Task) error { return t.Sleep(time.Hour) },
				"Yield": (*Task).Yield,
				"Await": func(t *Task) error { _, err := new(Future[int]).Await(t); return err },
				"Join":  t.Go(r.sleeper("joined")).Join,
			}
			for _, name := range slices.Sorted(maps.Keys(waits)) {
				c := t.Go(func(t *Task) error {
					defer r.note("%s ends", name)
					return waits[name](t)
				})
				_ = t.Yield()
				c.Cancel()
				c.Cancel()
				r.note("%s: %v", name, c.Join(t))
				c.Cancel()
			}
			return errors.New("the end")
		}, []string{"Await ends", "Await: task canceled", "Join ends", "Join: task canceled",
			"Sleep ends", "Sleep: task canceled", "Yield ends", "Yield: task canceled", "joined ends", "main: the end"}},
		{"before the start", func(r *rig, t *Task) error {
			c := t.Go(func(t *Task) error {
				defer r.note("released")
				r.note("err: %v", t.Err())
				return t.Sleep(time.Hour)
			})
			c.Cancel()
			r.note("joined: %v", c.Join(t))
			return nil
		}, []string{"err: task canceled", "released", "joined: task canceled"}},
		{"one that is about to run in this turn", func(r *rig, t *Task) error {
			var f Future[int]
			c := t.Go(func(t *Task) error {
				defer r.note("released")
				_, err := f.Await(t)
				return err
			})
			_ = t.Yield()
			f.Resolve(1)
			c.Cancel()
			r.note("joined: %v", c.Join(t))
			return nil
		}, []string{"released", "joined: task canceled"}},
		{"by a callback of the turn in which it is due", func(r *rig, t *Task) error {
			var c *Task
			r.Root().After(tick, func() { c.Cancel() })
			c = t.Go(func(t *Task) error { return t.Sleep(tick) })
			r.note("joined: %v", c.Join(t))
			return nil
		}, []string{"joined: task canceled"}},
		{"itself", func(r *rig, t *Task) error {
			t.Cancel()
			return t.Sleep(tick)
		}, []string{"main: task canceled"}},
		{"deferred calls are refused at once", func(r *rig, t *Task) error {
			c := t.Go(func(t *Task) error {
				defer func() { r.note("deferred: %v, %v", t.Sleep(time.Hour), t.Yield()) }()
				return t.Sleep(time.Hour)
			})
			_ = t.Yield()
			c.Cancel()
			return c.Join(t)
		}, []string{"deferred: task canceled, task canceled", "main: task canceled"}},
		{"a task that takes no notice panics", func(r *rig, t *Task) error {
			c := t.Go(func(t *Task) error {
				r.recovers(func() {
					for {
						_ = t.Sleep(time.Second)
					}
				})
				return nil
			})
			_ = t.Yield()
			c.Cancel()
			return c.Join(t)
		}, []string{"panic: task: 100000 blocking calls in a row were refused (task canceled): the task has to end"}},
	})
}

func TestTimeout(t *testing.T) {
	runStories(t, []story{
		{"over", func(r *rig, t *Task) error {
			err := t.Timeout(tick, func() error {
				defer func() { r.note("again: %v", t.Sleep(tick)) }()
				return t.Sleep(time.Hour)
			})
			r.note("timeout: %v, then %v", err, t.Sleep(tick))
			return nil
		}, []string{"again: timeout", "timeout: timeout, then <nil>"}},
		{"in time", func(r *rig, t *Task) error {
			r.note("%v", t.Timeout(time.Hour, func() error { return t.Sleep(tick) }))
			return t.Sleep(tick)
		}, []string{"<nil>"}},
		{"none left", func(r *rig, t *Task) error {
			r.note("%v", t.Timeout(0, func() error { return t.Yield() }))
			return nil
		}, []string{"timeout"}},
		{"the inner one", func(r *rig, t *Task) error {
			return t.Timeout(time.Hour, func() error {
				r.note("%v", t.Timeout(tick, func() error { return t.Sleep(time.Hour) }))
				return t.Sleep(tick)
			})
		}, []string{"timeout"}},
		{"the outer one", func(r *rig, t *Task) error {
			return t.Timeout(tick, func() error {
				r.note("%v", t.Timeout(time.Hour, func() error { return t.Sleep(time.Hour) }))
				return t.Sleep(tick)
			})
		}, []string{"timeout", "main: timeout"}},
		{"held off by a shield", func(r *rig, t *Task) error {
			return t.Timeout(tick, func() error {
				r.note("%v", t.Shield(func() error { return t.Sleep(3 * tick) }))
				return t.Yield()
			})
		}, []string{"<nil>", "main: timeout"}},
		{"in a shield", func(r *rig, t *Task) error {
			t.Cancel()
			return t.Shield(func() error {
				r.note("%v", t.Timeout(tick, func() error { return t.Sleep(time.Hour) }))
				return t.Sleep(tick)
			})
		}, []string{"timeout"}},
	})
}

func TestShield(t *testing.T) {
	runStories(t, []story{
		{"holds a cancel back", func(r *rig, t *Task) error {
			c := t.Go(func(t *Task) error {
				defer func() {
					r.note("deferred: %v", t.Shield(func() error { return t.Sleep(tick) }))
				}()
				r.note("shielded: %v", t.Shield(func() error { return t.Sleep(tick) }))
				return t.Sleep(time.Hour)
			})
			_ = t.Yield()
			c.Cancel()
			return c.Join(t)
		}, []string{"shielded: <nil>", "deferred: <nil>", "main: task canceled"}},
		{"keeps the children", func(r *rig, t *Task) error {
			c := t.Go(func(t *Task) error {
				return t.Shield(func() error {
					return t.Gather(t.Go(func(t *Task) error { defer r.note("child ends"); return t.Sleep(tick) }))
				})
			})
			_ = t.Yield()
			c.Cancel()
			return c.Join(t)
		}, []string{"child ends"}},
		{"does not hold against the end of the scope", func(r *rig, t *Task) error {
			s := r.Root().Child()
			Go(s, func(t *Task) error {
				return t.Shield(func() error { r.note("%v, %v", t.Sleep(time.Hour), t.Sleep(time.Hour)); return nil })
			})
			_ = t.Yield()
			s.Close()
			r.note("closed")
			return nil
		}, []string{"task canceled, task canceled", "closed"}},
	})
}

func TestSleepAllocatesNothing(t *testing.T) {
	v := loop.NewVirtual(1)
	Go(v.Root(), func(t *Task) error {
		for {
			if err := t.Sleep(tick); err != nil {
				return err
			}
		}
	})
	for range 3 {
		v.Step()
	}
	if n := testing.AllocsPerRun(100, func() { v.Step() }); n != 0 {
		t.Errorf("a sleep allocates %v times, want 0", n)
	}
	v.Root().Close()
}
