package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"superd/control"
	"superd/internal/signame"
	"superd/procs"
)

// command returns the handler that starts, stops or restarts. Without "wait=0" it answers when that
// is done. With "rolling=1" a restart is a rolling one, with "canary" extra replicas at first.
func (s *Server) command(op procs.Op) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		names, err := requireNames(r)
		if err != nil {
			return err
		}
		wait, err := flag(r, "wait", true)
		if err != nil {
			return err
		}
		rolling, err := flag(r, "rolling", false)
		if err == nil && rolling && !wait {
			err = badParameter("rolling", "remove one of them",
				"cannot be combined with wait=0")
		}
		if err != nil {
			return err
		}
		canary, err := canaries(r, rolling)
		if err != nil {
			return err
		}
		ctx, cancel, err := withTimeout(r)
		if err != nil {
			return err
		}
		defer cancel()
		done, err := await(ctx, s, func(done func([]procs.CommandResult)) (func(), error) {
			if rolling {
				return s.options.Supervisor.RestartRolling(names, canary, done)
			}
			return s.options.Supervisor.Command(op, names, wait, done)
		})
		if err != nil {
			return err
		}
		return s.answer(w, http.StatusOK, commandResults(done))
	}
}

// canaries returns how many extra replicas a rolling restart waits with for a decision; 0: it does
// not wait.
func canaries(r *http.Request, rolling bool) (int, error) {
	text := r.Form.Get("canary")
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 1:
		return 0, badParameter("canary", "write it as canary=1", "not a positive number: %q", text)
	case !rolling:
		return 0, badParameter("canary", "add rolling=1", "only for a rolling restart")
	}
	return n, nil
}

// decideRoll returns the handler that continues or ends a rolling restart. It answers when that is
// done.
func (s *Server) decideRoll(d procs.RollDecision) func(http.ResponseWriter, *http.Request) error {
	return s.onPrograms(func(names []string, done func([]procs.CommandResult)) (func(), error) {
		return s.options.Supervisor.DecideRoll(names, d, done)
	})
}

// reloadPrograms answers when the programs have reloaded, or could not.
func (s *Server) reloadPrograms(w http.ResponseWriter, r *http.Request) error {
	return s.onPrograms(s.options.Supervisor.ReloadPrograms)(w, r)
}

// awaitPrograms answers when programs are as the configuration wants them, or could not become so.
func (s *Server) awaitPrograms(w http.ResponseWriter, r *http.Request) error {
	return s.onPrograms(s.options.Await)(w, r)
}

// clearLogs answers when the log files are empty.
func (s *Server) clearLogs(w http.ResponseWriter, r *http.Request) error {
	rotated, err := flag(r, "rotated", false)
	if err != nil {
		return err
	}
	return s.onPrograms(func(names []string, done func([]procs.CommandResult)) (func(), error) {
		outputs, err := s.options.Supervisor.Outputs(names, false)
		if err != nil {
			return nil, err
		}
		results := make([]procs.CommandResult, len(outputs))
		remaining, canceled := len(outputs), false
		for i, o := range outputs {
			o.Clear(rotated, func(result procs.CommandResult) {
				results[i] = result
				if remaining--; remaining == 0 && !canceled {
					done(results)
				}
			})
		}
		if len(outputs) == 0 { // a program without instances
			done(results)
		}
		return func() { canceled = true }, nil // the files are emptied nevertheless
	})(w, r)
}

// onPrograms returns the handler of a command for the programs that a request names. It answers
// when the command is done. If the request's time-out is over first, the command continues.
func (s *Server) onPrograms(
	command func(names []string, done func([]procs.CommandResult)) (cancel func(), err error),
) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		names, err := requireNames(r)
		if err != nil {
			return err
		}
		ctx, cancel, err := withTimeout(r)
		if err != nil {
			return err
		}
		defer cancel()
		done, err := await(ctx, s, func(done func([]procs.CommandResult)) (func(), error) {
			return command(names, done)
		})
		if err != nil {
			return err
		}
		return s.answer(w, http.StatusOK, commandResults(done))
	}
}

// withTimeout returns the context of a request, limited by its parameter timeout.
func withTimeout(r *http.Request) (context.Context, context.CancelFunc, error) {
	text := r.Form.Get("timeout")
	if text == "" {
		return r.Context(), func() {}, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 {
		return nil, nil, badParameter("timeout", "write it as 10s or 1m30s",
			"not a positive duration: %q", text)
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	return ctx, cancel, nil
}

// await calls begin on the loop and returns the value passed to done. It returns early with the
// error of begin, or if ctx is done; then it calls cancel.
func await[T any](ctx context.Context, s *Server, begin func(done func(T)) (cancel func(), err error)) (T, error) {
	type result struct {
		all T
		err error
	}
	results := make(chan result, 1)
	var cancel func() // used on the loop only; nil if there is nothing to cancel
	s.options.Post(func() {
		// The client is gone. A request whose time-out has passed is still carried out.
		if errors.Is(ctx.Err(), context.Canceled) {
			return
		}
		var err error
		cancel, err = begin(func(all T) { results <- result{all: all} })
		if err != nil {
			cancel = nil
			results <- result{err: err}
		}
	})
	select {
	case r := <-results:
		return r.all, r.err
	case <-ctx.Done():
		s.options.Post(func() {
			if cancel != nil {
				cancel()
			}
		})
		var none T
		return none, context.Cause(ctx)
	}
}

// scale changes the number of instances of programs. Without "wait=0" it answers when that is done.
func (s *Server) scale(w http.ResponseWriter, r *http.Request) error {
	requests, err := scalings(r.Form["scale"])
	if err != nil {
		return err
	}
	wait, err := flag(r, "wait", true)
	if err != nil {
		return err
	}
	ctx, cancel, err := withTimeout(r)
	if err != nil {
		return err
	}
	defer cancel()
	done, err := await(ctx, s, func(done func([]procs.ScaleResult)) (func(), error) {
		return s.options.Supervisor.Scale(requests, wait, done)
	})
	if refused, ok := errors.AsType[*procs.ScaleError](err); ok {
		return &control.Error{Status: http.StatusConflict, Message: refused.Error(), Remedy: "nothing was scaled"}
	}
	if err != nil {
		return err
	}
	all := make([]control.ScaleResult, len(done))
	for i, d := range done {
		all[i] = control.ScaleResult{
			Program: d.Program, From: d.From, To: d.To, Instances: commandResults(d.Instances), Unrecorded: unrecorded(d.Unrecorded),
		}
	}
	return s.answer(w, http.StatusOK, all)
}

// scalings parses parameters such as scale=web=5.
func scalings(texts []string) ([]procs.Scaling, error) {
	if len(texts) == 0 {
		return nil, badRequest("add scale=NAME=N", "no program is named")
	}
	var all []procs.Scaling
	for _, text := range texts {
		name, number, ok := strings.Cut(text, "=")
		n, err := strconv.Atoi(number)
		if !ok || err != nil || name == "" {
			return nil, badParameter("scale", "write it as scale=web=5",
				"not a name and a number: %q", text)
		}
		all = append(all, procs.Scaling{Name: name, Replicas: n})
	}
	return all, nil
}

func (s *Server) signal(w http.ResponseWriter, r *http.Request) error {
	names, err := requireNames(r)
	if err != nil {
		return err
	}
	text := r.Form.Get("signal")
	if text == "" {
		return badRequest("add signal=HUP or the like", "no signal is named")
	}
	sig, err := signame.Parse(text)
	if err != nil {
		return badRequest("", "%v", err)
	}
	type result struct {
		all []procs.CommandResult
		err error
	}
	got, err := onLoop(r.Context(), s, func() result {
		all, err := s.options.Supervisor.Signal(names, sig)
		return result{all, err}
	})
	if err == nil {
		err = got.err
	}
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, commandResults(got.all))
}

// requireNames returns the names of a request, and an error if there are none: a command must not
// apply to all instances by omission.
func requireNames(r *http.Request) ([]string, error) {
	all := names(r)
	if len(all) == 0 {
		return nil, badRequest("add name=NAME, or name=* for all", "no program is named")
	}
	return all, nil
}

func commandResults(all []procs.CommandResult) []control.CommandResult {
	list := make([]control.CommandResult, len(all))
	for i, o := range all {
		list[i] = control.CommandResult{
			Name: o.Name, OK: o.OK, State: o.State.String(), Message: o.Message, Output: o.Output, Unrecorded: unrecorded(o.Unrecorded),
		}
	}
	return list
}

// unrecorded returns why a command is not in the journal, "" if it is.
func unrecorded(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
