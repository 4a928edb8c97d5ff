package procs

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"superd/config"
	"superd/procs/eventlog"
	"superd/procs/fsm"
	"superd/procs/host"
)

// reloadTimeout bounds how long the callers of a reload wait for a file whose reading hangs.
const reloadTimeout = 30 * time.Second

// reloads has the requests to reload the configuration. It reads one off the loop and
// compares it with the active one.
type reloads struct {
	*platform
	recorder      *recorder
	config        *configState
	applier       *applier
	shutdown      *shutdown
	readyNotifier *readyNotifier

	running  bool
	waiting  []*reloadRequest        // requests that wait for the next reload
	hungFile *atomic.Pointer[string] // file on which a reload hangs; nil: none hangs
}

// A reloadRequest is a caller that waits for a reload.
type reloadRequest struct {
	dryRun bool
	done   func(ReloadResult, error) // nil once the caller is answered
}

func (r *reloadRequest) answer(result ReloadResult, err error) {
	if done := r.done; done != nil {
		r.done, result.DryRun = nil, r.dryRun
		done(result, err)
	}
}

var (
	errShuttingDown = errors.New("reload configuration: superd is shutting down")
	errNoPrograms   = errors.New("reload configuration: it has no programs; was it being written? To stop all programs use `superd ctl stop '*'`")
)

// request is [Supervisor.Reload].
func (l *reloads) request(dryRun bool, done func(ReloadResult, error)) {
	r := &reloadRequest{dryRun, done}
	l.waiting = append(l.waiting, r)
	switch {
	case l.hungFile != nil:
		err := l.hangError()
		l.Scope.Post(func() { r.answer(ReloadResult{}, err) })
	case !l.running:
		l.serve()
	}
}

// hangError returns an error that names the file whose reading hangs.
func (l *reloads) hangError() error {
	at := l.options.Config.Path
	if path := l.hungFile.Load(); path != nil {
		at = *path
	}
	return fmt.Errorf("reload configuration: reading %s takes longer than %s; %s The reload continues when it can be read", at, reloadTimeout, host.HangHint)
}

// serve serves all waiting callers with one reload. It reads and compares off the loop.
func (l *reloads) serve() {
	waiting := l.waiting
	l.waiting = nil
	l.running = true
	dryRun := !slices.ContainsFunc(waiting, func(r *reloadRequest) bool { return !r.dryRun })
	if !dryRun {
		l.readyNotifier.reloadBegun()
	}
	reading := new(atomic.Pointer[string])
	timer := l.Scope.After(reloadTimeout, func() {
		l.hungFile = reading
		err := l.hangError()
		l.Log.Error("configuration not reloaded yet: the old one stays in force", "error", err)
		l.recorder.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Reload}, fsm.ReasonReloadHung.With(err.Error())))
		if !dryRun {
			l.readyNotifier.reloadEnded()
		}
		for _, r := range slices.Concat(waiting, l.waiting) {
			r.answer(ReloadResult{}, err)
		}
	})
	finish := func(result ReloadResult, err error) {
		l.running = false
		if err != nil && !dryRun {
			l.Log.Error("configuration not reloaded: the old one stays in force", "error", err)
			l.recorder.Record(eventlog.WithReason(eventlog.Event{Kind: eventlog.Reload}, fsm.ReasonReloadRefused.With(err.Error())))
		}
		if !dryRun {
			l.readyNotifier.reloadEnded()
		}
		for _, r := range waiting {
			r.answer(result, err)
		}
		if len(l.waiting) > 0 {
			l.serve()
		}
	}
	active := l.config.active
	go func() {
		next, err := l.options.Load(active, func(path string) { reading.Store(&path) })
		if err == nil && len(next.Errors) > 0 {
			err = next.Errors
		}
		var diff config.Diff
		if err == nil {
			diff = config.Compare(active, next)
		}
		l.Scope.Post(func() {
			timer.Stop()
			l.hungFile = nil
			if err == nil {
				l.applier.addOutdated(&diff, next)
			}
			switch {
			case l.shutdown.begun:
				finish(ReloadResult{}, errShuttingDown)
			case err != nil:
				finish(ReloadResult{}, err)
			case len(next.Programs) == 0 && len(l.config.active.Programs) > 0:
				finish(ReloadResult{}, errNoPrograms)
			case dryRun:
				finish(ReloadResult{Diff: diff, Notes: l.applier.notes(diff)}, nil)
			default:
				result := l.applier.applyWithExitPolicy(next, diff)
				l.applier.record(&diff)
				l.recorder.AfterSaving(func(err error) {
					result.Unrecorded = err
					finish(result, nil)
				})
			}
		})
	}()
}
