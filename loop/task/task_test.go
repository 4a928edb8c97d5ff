package task

import (
	"errors"
	"fmt"
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

func TestJoin(t *testing.T) {
	onEach(t, func(r *rig) {
		failed := errors.New("failed")
		r.run(func(t *Task) error {
			quick := t.Go(func(t *Task) error { r.note("quick"); return failed })
			slow := Start(t, func(t *Task) (int, error) {
				r.note("slow begins")
				defer r.note("slow ends")
				return 42, t.Sleep(time.Millisecond)
			})
			r.note("started")
			n, err := slow.Join(t)
			r.note("slow: %d, %v", n, err)
			r.note("quick: %v", quick.Join(t))
			return failed
		}, "started", "quick", "slow begins", "slow ends", "slow: 42, <nil>", "quick: failed", "main: failed")
	})
}
