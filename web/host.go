package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"superd/control"
)

// A host sends requests to one superd. Connections are kept for the next request, since each is a
// process of ssh if superd is on another host.
type host struct {
	name   string
	dial   func(context.Context) (net.Conn, error)
	client *http.Client
	feed   *feed

	timeout time.Duration // for the header of an answer that superd gives at once
}

// errLate says that superd hangs, or what is between.
var errLate = errors.New("it is connected, but sends nothing")

const (
	keptConnections = 4
	keptFor         = 30 * time.Second
	answerTimeout   = 30 * time.Second
	maxErrorBytes   = 1 << 20
	formType        = "application/x-www-form-urlencoded"
)

func newHost(ctx context.Context, h Host) *host {
	made := &host{name: h.Name, dial: h.Dial, timeout: answerTimeout}
	made.client = &http.Client{
		Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return h.Dial(ctx) },
			MaxIdleConnsPerHost: keptConnections, IdleConnTimeout: keptFor, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	made.feed = newFeed(ctx, made)
	return made
}

// A question is a request to superd.
type question struct {
	post  bool
	path  string // escaped
	query url.Values
	form  io.Reader // body; nil: none
	waits bool      // the answer may come at any time; otherwise superd gives it at once
}

// ask makes a request and returns the answer, whose body the caller closes. The error is a
// [control.Error] if superd refuses the request or does not answer.
func (h *host) ask(ctx context.Context, q question) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	if !q.waits {
		late := time.AfterFunc(h.timeout, func() { cancel(errLate) })
		defer late.Stop()
	}
	target := "http://superd" + q.path
	if len(q.query) > 0 {
		target += "?" + q.query.Encode()
	}
	method := http.MethodGet
	if q.post {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, target, q.form)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("make request: %w", err)
	}
	if q.form != nil {
		r.Header.Set("Content-Type", formType)
	}
	answer, err := h.client.Do(r)
	if err != nil {
		defer cancel(nil)
		return nil, h.unanswered(ctx, err)
	}
	answer.Body = &body{answer.Body, func() { cancel(nil) }}
	return answer, nil
}

// stream makes a request whose answer does not end, or is long. Any other answer than a success is
// an error.
func (h *host) stream(ctx context.Context, q question) (io.ReadCloser, error) {
	answer, err := h.ask(ctx, q)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, maxErrorBytes))
		e := &control.Error{Status: answer.StatusCode, Message: strings.TrimSpace(string(text))}
		_ = json.Unmarshal(text, e) // another server's message stays as it is
		return nil, e
	}
	return answer.Body, nil
}

// A body ends its request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// unanswered returns what to tell a browser about a superd that does not answer a request of ctx.
func (h *host) unanswered(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*control.Error](err); ok {
		if refused.Status == http.StatusForbidden {
			// Not that the browser may not: this server may not
			return &control.Error{Status: http.StatusBadGateway, Message: refused.Message, Remedy: refused.Remedy}
		}
		return refused
	}
	var reason *url.Error
	if errors.As(err, &reason) {
		err = reason.Err
	}
	silent := &control.Error{Status: http.StatusServiceUnavailable,
		Message: fmt.Sprintf("superd on %s does not answer: %v", h.name, err), Remedy: "start it, or wait until it is back"}
	if errors.Is(context.Cause(ctx), errLate) {
		silent.Message = fmt.Sprintf("superd on %s does not answer: %v", h.name, errLate)
		return &lateError{silent}
	}
	return silent
}

// A lateError is an [errLate] with what to do.
type lateError struct{ err *control.Error }

func (e *lateError) Error() string { return e.err.Error() }

func (e *lateError) Unwrap() []error { return []error{e.err, errLate} }
