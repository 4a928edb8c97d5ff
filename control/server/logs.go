package server

import (
	"errors"
	"net/http"
	"time"

	"superd/control"
	"superd/logs"
	"superd/procs/selection"
)

// logs sends the last lines of an instance's output unchanged, and with follow the output after
// them.
//
// A follower that does not read stays connected, since it may be a pager that was left open. It
// keeps its goroutine and a log file open, and continues where it was.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) error {
	lines, err := lineCount(r)
	if err != nil {
		return err
	}
	follow, err := flag(r, "follow", false)
	if err != nil {
		return err
	}
	type result struct {
		collector *logs.Collector
		err       error
	}
	name := r.PathValue("name")
	got, err := onLoop(r.Context(), s, func() result {
		capture, err := s.options.Supervisor.Collector(name)
		return result{capture, err}
	})
	if err != nil {
		return err
	}
	if _, unknown := errors.AsType[*selection.UnknownNameError](got.err); got.err != nil && !unknown {
		// Several instances match the name.
		return &control.Error{Status: http.StatusConflict, Message: got.err.Error()}
	} else if unknown {
		return got.err
	}
	w.Header().Set("Content-Type", mediaBytes)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	out := &stream{w: w, client: http.NewResponseController(w)}
	if follow {
		if err := out.client.Flush(); err != nil {
			return err
		}
	} else {
		out.stall = s.writeTimeout
	}
	if err := got.collector.Follow(r.Context(), lines, follow, out); err != nil && !out.begun && !follow {
		return err // nothing sent yet, so an error can still be returned
	} else if err != nil && r.Context().Err() == nil && out.err == nil {
		s.log.Warn("log not sent completely", "instance", name, "error", err)
		// Closing the connection shows the client that output is missing.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// A stream sends at once what is written to it.
type stream struct {
	w      http.ResponseWriter
	client *http.ResponseController
	stall  time.Duration // how long the client may not read; 0: unlimited
	begun  bool
	err    error // error of a write to the client
}

func (o *stream) Write(p []byte) (int, error) {
	if o.stall > 0 {
		o.err = o.client.SetWriteDeadline(time.Now().Add(o.stall))
	}
	n := 0
	if o.err == nil {
		o.begun = true
		n, o.err = o.w.Write(p)
	}
	if o.err == nil && o.stall == 0 {
		o.err = o.client.Flush()
	}
	return n, o.err
}
