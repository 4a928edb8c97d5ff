package await

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"superd/control"
	"superd/internal/words"
)

const (
	// startTime is how long a wait without a time-out waits for a superd that does not answer yet.
	startTime = 10 * time.Second

	firstPause, lastPause = 20 * time.Millisecond, 500 * time.Millisecond // between two attempts
)

var errMet = errors.New("the condition is met")

// Wait returns when the instances that names select meet the condition. connect returns a client of
// the superd to ask. If none answers, it is called again, as another one may be meant when that has
// started: until the time-out is over, or without one for startTime.
func (a *Condition) Wait(ctx context.Context, connect func() (*control.Client, error), names []string, timeout time.Duration) error {
	start := time.Now().Add(startTime)
	if timeout > 0 {
		start = time.Now().Add(timeout)
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, start)
		defer cancel()
	}
	var absent error // why no superd answers; nil: one has answered
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		client, err := connect()
		if err == nil {
			err = client.Watch(ctx, names, a.watch)
		}
		if err = a.result(err, absent, timeout); !errors.Is(err, control.ErrNoSuperd) || a.last != nil || !time.Now().Before(start) {
			return err
		}
		absent = err
		select {
		case <-time.After(min(pause, time.Until(start))):
		case <-ctx.Done():
		}
	}
}

func (a *Condition) watch(all []control.Status) error {
	met, err := a.Observe(all)
	if err == nil && met {
		return errMet
	}
	return err
}

// result returns what the end of a watch means. absent is why no superd has answered so far.
func (a *Condition) result(err, absent error, timeout time.Duration) error {
	switch {
	case errors.Is(err, errMet):
		return nil
	case errors.Is(err, context.DeadlineExceeded) && absent != nil && a.last == nil:
		return fmt.Errorf("wait for %s: not within %s: %w", a.Name, words.Duration(timeout), absent)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("wait for %s: not within %s: %s", a.Name, words.Duration(timeout), a.Unsatisfied())
	case err == nil:
		return fmt.Errorf("wait for %s: %w any more", a.Name, control.ErrNoSuperd)
	}
	return err
}

// Reload returns when a reload with that result is done: what it has started is up or has failed,
// what it has stopped is down, and no rolling restart is under way, also of an earlier reload. An
// instance that such a rolling restart has left with its former definition counts as failed.
// timeout is as for [control.Client.Await].
func Reload(ctx context.Context, client *control.Client, done *control.ReloadResult, timeout time.Duration) ([]control.CommandResult, error) {
	concerned := map[string]bool{}
	for _, c := range done.Programs {
		if c.Change != control.ChangeUnchanged {
			concerned[c.Program] = true
		}
	}
	all, err := client.Status(ctx, nil)
	if err != nil {
		return nil, err
	}
	for i := range all {
		former := all[i].ReasonKind != nil && *all[i].ReasonKind == control.ReasonRollFailed
		if all[i].Rolling != nil || former {
			concerned[all[i].Program] = true
		}
	}
	if len(concerned) == 0 {
		return nil, nil
	}
	return client.Await(ctx, slices.Sorted(maps.Keys(concerned)), timeout)
}
