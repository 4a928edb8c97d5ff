package server

import (
	"errors"
	"net/http"
	"time"

	"superd/control"
	"superd/logs"
	"superd/procs"
)

// logs sends the last lines of an instance's output as they are, and with follow what comes after them.
//
// A follower that does not read is not ended, since it may be a pager that somebody left open; it holds its
// goroutine and a log file, and reads on where it was.
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
		capture *logs.Capture
		err     error
	}
	name := r.PathValue("name")
	got, err := ask(r.Context(), s, func() result {
		capture, err := s.options.Supervisor.Capture(name)
		return result{capture, err}
	})
	if err != nil {
		return err
	}
	if _, unknown := errors.AsType[*procs.UnknownNameError](got.err); got.err != nil && !unknown {
		return &control.Error{Status: http.StatusConflict, Message: got.err.Error()} // several have the name
	} else if unknown {
		return got.err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	out := &stream{w: w, client: http.NewResponseController(w)}
	if follow {
		if err := out.client.Flush(); err != nil {
			return err
		}
	} else {
		out.stall = s.stall
	}
	if err := got.capture.Follow(r.Context(), lines, follow, out); err != nil && !out.begun && !follow {
		return err // nothing sent yet: it can still be told
	} else if err != nil && r.Context().Err() == nil && out.err == nil {
		s.log.Warn("log not sent to its end", "instance", name, "error", err)
		panic(http.ErrAbortHandler) // cuts the connection, so that the client sees that something is missing
	}
	return nil
}

// A stream sends what is written to it at once.
type stream struct {
	w      http.ResponseWriter
	client *http.ResponseController
	stall  time.Duration // for how long the client may not read; 0: for ever
	begun  bool
	err    error // the client's fault
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
