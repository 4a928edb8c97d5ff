package server

import (
	"context"
	"net/http"
	"time"

	"superd/config"
	"superd/control"
	"superd/procs"
)

// command returns the handler that starts, stops or restarts. Without "wait=0" it answers when that is done.
func (s *Server) command(op procs.Op) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		names, err := someNames(r)
		if err != nil {
			return err
		}
		wait, err := flag(r, "wait", true)
		if err != nil {
			return err
		}
		ctx := r.Context()
		if text := r.Form.Get("timeout"); text != "" {
			timeout, err := time.ParseDuration(text)
			if err != nil || timeout <= 0 {
				return badRequest("write it as 10s or 1m30s", "parameter timeout: not a positive duration: %q", text)
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		done, err := s.perform(ctx, op, names, wait)
		if err != nil {
			return err
		}
		return s.answer(w, http.StatusOK, outcomes(done))
	}
}

// perform gives a command to the supervisor and waits for its end. When ctx is done first, nobody waits
// any more, but the command stands.
func (s *Server) perform(ctx context.Context, op procs.Op, names []string, wait bool) ([]procs.Outcome, error) {
	type result struct {
		all []procs.Outcome
		err error
	}
	results := make(chan result, 1)
	var cancel func() // on the loop only; nil when there is nothing to cancel
	s.options.Post(func() {
		if ctx.Err() != nil {
			return
		}
		var err error
		cancel, err = s.options.Supervisor.Command(op, names, wait, func(all []procs.Outcome) { results <- result{all: all} })
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
		return nil, context.Cause(ctx)
	}
}

func (s *Server) signal(w http.ResponseWriter, r *http.Request) error {
	names, err := someNames(r)
	if err != nil {
		return err
	}
	text := r.Form.Get("signal")
	if text == "" {
		return badRequest("add signal=HUP or the like", "no signal is named")
	}
	sig, err := config.ParseSignal(text)
	if err != nil {
		return badRequest("`kill -l` lists the signals", "%v", err)
	}
	type result struct {
		all []procs.Outcome
		err error
	}
	got, err := ask(r.Context(), s, func() result {
		all, err := s.options.Supervisor.Signal(names, sig)
		return result{all, err}
	})
	if err == nil {
		err = got.err
	}
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, outcomes(got.all))
}

// someNames returns the names of a request that must not be about everything by omission.
func someNames(r *http.Request) ([]string, error) {
	all := names(r)
	if len(all) == 0 {
		return nil, badRequest("add name=NAME, or name=* for all", "no program is named")
	}
	return all, nil
}

func outcomes(all []procs.Outcome) []control.Outcome {
	list := make([]control.Outcome, len(all))
	for i, o := range all {
		list[i] = control.Outcome{Name: o.Name, OK: o.OK, State: o.State.String(), Message: o.Message}
	}
	return list
}
