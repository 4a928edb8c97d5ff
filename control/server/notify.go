package server

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"superd/alerts/deliver"
	"superd/control"
	"superd/internal/words"
)

// receivers sends the state of the receivers of alerts.
func (s *Server) receivers(w http.ResponseWriter, _ *http.Request) error {
	list, now := []control.Receiver{}, time.Now()
	if s.options.Alerts != nil {
		for _, st := range s.options.Alerts.Status() {
			list = append(list, receiverOf(&st, now))
		}
	}
	return s.answer(w, http.StatusOK, list)
}

func receiverOf(st *deliver.Status, now time.Time) control.Receiver {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return new(t.UTC().Truncate(time.Microsecond))
	}
	r := control.Receiver{
		Name: st.Name, Kind: "webhook", Target: st.Target, Cursor: st.Cursor, Lag: st.Lag, Pending: st.Pending,
		Delivered: st.Delivered, Failures: st.Failures, LastSuccess: at(st.LastSuccess), LastErrorAt: at(st.LastErrorAt),
	}
	if st.Exec {
		r.Kind = "exec"
	}
	if st.Problem != "" {
		r.Problem = &st.Problem
	}
	if st.LastError != "" {
		r.LastError = &st.LastError
	}
	if !st.RetryAt.IsZero() {
		r.RetryIn = new(max(st.RetryAt.Sub(now), 0).Seconds())
	}
	return r
}

// testReceiver makes a test delivery to a receiver and says what came of it.
func (s *Server) testReceiver(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	if s.options.Alerts == nil {
		return refuseTest(&deliver.UnknownError{Name: name})
	}
	result, err := s.options.Alerts.Test(r.Context(), name)
	if err != nil {
		return refuseTest(err)
	}
	answer := control.ReceiverTest{
		Name: name, OK: result.Err == nil, Message: "delivered", Output: result.Output,
		Duration: result.Duration.Round(time.Millisecond).Seconds(),
	}
	if result.Status != 0 {
		answer.Status = &result.Status
	}
	if result.Err != nil {
		answer.Message = result.Err.Error()
	}
	return s.answer(w, http.StatusOK, answer)
}

// refuseTest returns the answer to a test that was not made.
func refuseTest(err error) error {
	if unknown, ok := errors.AsType[*deliver.UnknownError](err); ok {
		remedy := "add a table [notify." + unknown.Name + "], and reload"
		if nearest := words.Nearest(unknown.Name, unknown.Known); nearest != "" {
			remedy = fmt.Sprintf("did you mean %q?", nearest)
		}
		return &control.Error{Status: http.StatusNotFound, Message: err.Error(), Remedy: remedy}
	}
	if _, ok := errors.AsType[*deliver.InvalidError](err); ok {
		return &control.Error{Status: http.StatusConflict, Message: err.Error(), Remedy: "correct it, and reload"}
	}
	return &control.Error{Status: http.StatusConflict, Message: err.Error(), Remedy: "try again later"}
}
