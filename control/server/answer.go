package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"superd/config"
	"superd/control"
	"superd/control/mistakes"
	"superd/internal/escape"
	"superd/procs/selection"
)

// answer writes v as one line of JSON.
func (s *Server) answer(w http.ResponseWriter, status int, v any) error {
	body, err := escape.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	s.answerJSON(w, status, append(body, '\n'))
	return nil
}

// answerJSON writes body, a line of JSON, as the answer.
func (s *Server) answerJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", mediaJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.writeTimeout))
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client is gone
}

// refuse answers with an error. It closes the connection if the request was not read completely.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	e := explain(err)
	if s.ctx.Err() != nil {
		e = &control.Error{Status: http.StatusServiceUnavailable, Message: "superd has ended"}
	}
	if e.Status == http.StatusRequestEntityTooLarge || e.Status == http.StatusBadRequest {
		w.Header().Set("Connection", "close")
	}
	s.log.Debug("request refused", "method", r.Method, "path", r.URL.Path, "status", e.Status, "error", e.Message)
	if err := s.answer(w, e.Status, e); err != nil {
		s.log.Warn("request not answered", "error", err)
	}
}

// explain converts any error to one for a client.
func explain(err error) *control.Error {
	if e, ok := errors.AsType[*control.Error](err); ok {
		return e
	}
	if unknown, ok := errors.AsType[*selection.UnknownNameError](err); ok {
		e := &control.Error{Status: http.StatusNotFound, Message: fmt.Sprintf("no program, instance or group is named %q", unknown.Name),
			Remedy: "see `superd ctl status` for the names"}
		if nearest := unknown.Nearest(); nearest != "" {
			e.Remedy = fmt.Sprintf("did you mean %q?", nearest)
		}
		return e
	}
	if wrong, ok := errors.AsType[config.Errors](err); ok {
		return &control.Error{Status: http.StatusUnprocessableEntity, Message: wrong.Error(),
			Remedy: "correct the configuration and reload again; until then the old one stays in force", Mistakes: mistakes.JSON(wrong, "error")}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &control.Error{Status: http.StatusGatewayTimeout, Message: "not done within the timeout",
			Remedy: "superd continues with it: see `superd ctl status`"}
	}
	return &control.Error{Status: http.StatusInternalServerError, Message: err.Error()}
}

func badRequest(remedy, format string, args ...any) error {
	return &control.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Remedy: remedy}
}

// badParameter is badRequest for the value of a parameter.
func badParameter(name, remedy, format string, args ...any) error {
	problem := fmt.Sprintf(format, args...)
	return &control.Error{
		Status: http.StatusBadRequest, Message: "parameter " + name + ": " + problem,
		Parameter: name, Problem: problem, Remedy: remedy,
	}
}

func errTooLarge(limit int64) error {
	return &control.Error{Status: http.StatusRequestEntityTooLarge,
		Message: fmt.Sprintf("request body of more than %d bytes", limit), Remedy: "name fewer programs, or a group"}
}
