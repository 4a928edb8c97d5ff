package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// answerTimeout bounds the wait for an answer that a healthy superd gives at once.
	answerTimeout = 10 * time.Second

	// maxSize is the largest announced size, in bytes, for which a buffer is allocated in advance.
	maxSize = 16 << 20

	// MaxSocketPath is the longest path of a Unix socket: sun_path holds 108 bytes with the
	// terminating NUL (unix(7)).
	MaxSocketPath = 107
)

// repeatPause is the pause before a request is repeated that superd did not answer.
const repeatPause = 20 * time.Millisecond

// errEnded is wrapped by the error of a request whose connection ended before the answer.
var errEnded = errors.New("the connection ended before the answer")

// StatusNoSuperd is the exit status of commands that find no superd.
const StatusNoSuperd = 4

// ErrNoSuperd is wrapped by the error of a request if no superd listens on the socket.
var ErrNoSuperd = errors.New("no superd answers")

// A Client sends requests to the superd that listens on one socket. It keeps no connection between
// requests; several goroutines may use it at once.
type Client struct {
	path    string                                  // of the socket, for messages
	connect func(context.Context) (net.Conn, error) // nil: to the socket at path
	// Time-out of answers that superd gives at once
	timeout time.Duration
	// Time during which unanswered requests are repeated
	repeatTimeout time.Duration
}

// An Option changes a new [Client].
type Option func(*Client)

// WithConnect lets connect make the connections, such as through ssh. The path of the client then
// only says in messages where they lead.
func WithConnect(connect func(context.Context) (net.Conn, error)) Option {
	return func(c *Client) { c.connect = connect }
}

// WithTimeout sets how long the client waits for an answer that a healthy superd gives at once; it
// is 10 seconds otherwise. An answer that comes when something is done may take any time: the
// context limits it.
func WithTimeout(d time.Duration) Option {
	return func(c *Client) { c.timeout = d }
}

// WithRepeat sets how long requests are repeated that superd did not answer since it ended; it is
// 10 seconds otherwise. 0: they are not repeated.
func WithRepeat(d time.Duration) Option {
	return func(c *Client) { c.repeatTimeout = d }
}

// NewClient returns a client of the superd whose control socket is at path: [SocketName] in its
// runtime directory. It connects with the first request.
func NewClient(path string, options ...Option) *Client {
	c := &Client{path: path, timeout: answerTimeout, repeatTimeout: answerTimeout}
	for _, set := range options {
		set(c)
	}
	return c
}

// Status returns the instances that match names (programs, instances, groups, globs), all of them
// if there are no names, ordered by name.
func (c *Client) Status(ctx context.Context, names []string) (all []Status, err error) {
	r := request{path: "/v1/status", query: url.Values{"name": names}}
	err = c.receive(ctx, r, func(answer *exchange) (err error) {
		all, err = decodeStatuses(answer)
		return err
	})
	return all, err
}

// decodeStatuses decodes an array of statuses while superd collects its later elements.
func decodeStatuses(array io.Reader) (all []Status, err error) {
	d := json.NewDecoder(array)
	begin, err := d.Token()
	if err != nil {
		return nil, err
	}
	if begin != json.Delim('[') {
		return nil, fmt.Errorf("want an array, got %v", begin)
	}
	for d.More() {
		all = append(all, Status{})
		if err = d.Decode(&all[len(all)-1]); err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return all, err
}

// Brief is Status without the values that superd has to collect.
func (c *Client) Brief(ctx context.Context, names []string) (all []Brief, err error) {
	err = c.get(ctx, "/v1/status", url.Values{"name": names, "brief": {"1"}}, &all)
	return all, err
}

// Watch calls f with the current status of names, and again after each change, until ctx is done, f
// returns an error or superd ends for good. The error is nil only if superd ended the stream.
func (c *Client) Watch(ctx context.Context, names []string, f func([]Status) error) error {
	return c.WatchJSON(ctx, names, func(line []byte) error {
		var all []Status
		if err := json.Unmarshal(line, &all); err != nil {
			return fmt.Errorf("read status: %w", err)
		}
		return f(all)
	})
}

// WatchJSON is Watch with the status as sent: a JSON array on one line, with its line end.
func (c *Client) WatchJSON(ctx context.Context, names []string, f func(line []byte) error) error {
	r := request{path: "/v1/status/watch", query: url.Values{"name": names}}
	return c.stream(ctx, streaming{request: func() request { return r }, endless: true, line: f})
}

// WatchBrief calls f with the brief status of names, as sent: a JSON array of [Brief] on one line.
// It calls f again after each change, also of what a Brief does not have: the line is the same
// then. Unlike [Client.Watch] it returns when superd ends, even if a successor takes over.
func (c *Client) WatchBrief(ctx context.Context, names []string, f func(line []byte) error) error {
	r := request{path: "/v1/status/watch", query: url.Values{"name": names, "brief": {"1"}}}
	return c.stream(ctx, streaming{request: func() request { return r }, line: f})
}

// ended reports whether a stream ended since superd did.
func ended(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// Command starts, stops or restarts ("start", "stop", "restart") the instances that match names.
// With wait it returns when that is done, or after timeout if that is positive; superd continues in
// either case.
func (c *Client) Command(ctx context.Context, verb string, names []string, wait bool, timeout time.Duration) ([]CommandResult, error) {
	return c.command(ctx, verb, url.Values{"name": names, "wait": {strconv.FormatBool(wait)}}, wait, timeout)
}

func (c *Client) command(ctx context.Context, verb string, form url.Values, wait bool, timeout time.Duration) ([]CommandResult, error) {
	if timeout > 0 {
		form.Set("timeout", timeout.String())
	}
	var all []CommandResult
	err := c.post(ctx, "/v1/programs/"+verb, form, wait, &all)
	return all, err
}

// RestartRolling restarts the instances that match names by a rolling restart of each program. If
// canary is positive, it returns when so many extra replicas run: [Client.ContinueRoll] or
// [Client.UndoRoll] decides then. timeout is as for [Client.Command].
func (c *Client) RestartRolling(ctx context.Context, names []string, canary int, timeout time.Duration) ([]CommandResult, error) {
	form := url.Values{"name": names, "rolling": {"true"}}
	if canary > 0 {
		form.Set("canary", strconv.Itoa(canary))
	}
	return c.command(ctx, "restart", form, true, timeout)
}

// ContinueRoll continues the rolling restarts of programs that wait. timeout is as for
// [Client.Command].
func (c *Client) ContinueRoll(ctx context.Context, names []string, timeout time.Duration) ([]CommandResult, error) {
	return c.command(ctx, "continue", url.Values{"name": names}, true, timeout)
}

// UndoRoll ends the rolling restarts of programs, and removes their extra replicas. timeout is as
// for [Client.Command].
func (c *Client) UndoRoll(ctx context.Context, names []string, timeout time.Duration) ([]CommandResult, error) {
	return c.command(ctx, "undo", url.Values{"name": names}, true, timeout)
}

// Signal sends a signal ("HUP", "SIGHUP", "1") to the main processes of the instances that match
// names.
func (c *Client) Signal(ctx context.Context, signal string, names []string) ([]CommandResult, error) {
	var all []CommandResult
	err := c.post(ctx, "/v1/programs/signal", url.Values{"name": names, "signal": {signal}}, false, &all)
	return all, err
}

// ReloadPrograms makes the instances that match names read their configuration again. timeout is as
// for [Client.Command].
func (c *Client) ReloadPrograms(ctx context.Context, names []string, timeout time.Duration) ([]CommandResult, error) {
	return c.command(ctx, "reload", url.Values{"name": names}, true, timeout)
}

// ClearLogs empties the log files of the instances that match names, and with rotated removes the
// rotated ones.
func (c *Client) ClearLogs(ctx context.Context, names []string, rotated bool) ([]CommandResult, error) {
	var all []CommandResult
	form := url.Values{"name": names, "rotated": {strconv.FormatBool(rotated)}}
	err := c.post(ctx, "/v1/programs/clear-logs", form, true, &all)
	return all, err
}

// Reload makes superd read its configuration again and activate it, unless it has a mistake.
func (c *Client) Reload(ctx context.Context) (ReloadResult, error) { return c.reload(ctx, nil) }

// DryReload returns what [Client.Reload] would change, and changes nothing.
func (c *Client) DryReload(ctx context.Context) (ReloadResult, error) {
	return c.reload(ctx, url.Values{"dry_run": {"1"}})
}

func (c *Client) reload(ctx context.Context, form url.Values) (ReloadResult, error) {
	var r ReloadResult
	err := c.post(ctx, "/v1/reload", form, true, &r)
	return r, err
}

// Await waits until programs are as a reload wants them: no rolling restart of them is under way,
// and each instance is up, down as it should be, or has failed. A name of nothing is that of a
// program that was removed. timeout is as for [Client.Command].
func (c *Client) Await(ctx context.Context, names []string, timeout time.Duration) ([]CommandResult, error) {
	return c.command(ctx, "await", url.Values{"name": names}, true, timeout)
}

// Scale sets the number of instances of programs. The keys of replicas are names of programs or
// groups, or globs. With wait it returns when that is done, or after timeout if that is positive;
// superd continues in either case.
func (c *Client) Scale(ctx context.Context, replicas map[string]int, wait bool, timeout time.Duration) ([]ScaleResult, error) {
	form := url.Values{"wait": {strconv.FormatBool(wait)}}
	for name, n := range replicas {
		form.Add("scale", fmt.Sprintf("%s=%d", name, n))
	}
	if timeout > 0 {
		form.Set("timeout", timeout.String())
	}
	var all []ScaleResult
	err := c.post(ctx, "/v1/scale", form, wait, &all)
	return all, err
}

// Shutdown makes superd stop all programs and exit. It returns once superd has accepted the
// request.
func (c *Client) Shutdown(ctx context.Context) (Shutdown, error) {
	var s Shutdown
	err := c.post(ctx, "/v1/shutdown", nil, false, &s)
	return s, err
}

// Upgrade makes superd continue with another binary, an absolute path; "" is the file it was
// started from. It returns just before superd executes the binary, or with the error that prevents
// it.
func (c *Client) Upgrade(ctx context.Context, binary string) (Upgrade, error) {
	form := url.Values{}
	if binary != "" {
		form.Set("binary", binary)
	}
	var u Upgrade
	err := c.post(ctx, "/v1/upgrade", form, true, &u)
	return u, err
}

// Version returns the version and identity of the running superd.
func (c *Client) Version(ctx context.Context) (Version, error) {
	var v Version
	err := c.get(ctx, "/v1/version", nil, &v)
	return v, err
}

func (c *Client) get(ctx context.Context, path string, query url.Values, into any) error {
	return c.decode(ctx, request{path: path, query: query}, into)
}

func (c *Client) post(ctx context.Context, path string, form url.Values, unbounded bool, into any) error {
	return c.decode(ctx, request{path: path, form: form, post: true, unbounded: unbounded, repeatable: isRepeatable(path)}, into)
}

// isRepeatable reports whether a post has the same effect when it is made twice. A start does not:
// a one-shot would run twice.
func isRepeatable(path string) bool {
	switch path {
	case "/v1/programs/enable", "/v1/programs/disable", "/v1/programs/stop", "/v1/programs/reload",
		"/v1/programs/await", "/v1/reload", "/v1/scale":
		return true
	}
	return false
}

// decode makes a request whose answer is one JSON value, and stores that in into.
func (c *Client) decode(ctx context.Context, r request, into any) error {
	return c.receive(ctx, r, func(answer *exchange) error {
		body, err := answer.all()
		if err != nil {
			return err
		}
		return json.Unmarshal(body, into)
	})
}

// receive makes a request and calls read with the answer. If the answer is cut off, as when superd
// is killed, it repeats the request if that is harmless; read is then called again.
func (c *Client) receive(ctx context.Context, r request, read func(answer *exchange) error) error {
	for deadline := time.Now().Add(c.repeatTimeout); ; {
		x, err := c.do(ctx, r)
		if err != nil {
			return err
		}
		err = read(x)
		x.Close()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			return nil
		case !ended(err) || r.post && !r.repeatable || time.Now().After(deadline):
			return fmt.Errorf("read answer of superd: %w", err)
		}
		select {
		case <-time.After(repeatPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

type request struct {
	post      bool
	path      string
	query     url.Values
	form      url.Values // sent as the body, which may be longer than a request line
	unbounded bool       // the answer may take any time

	repeatable bool // a post that may be repeated; any get may
}

// do makes a request and returns the answer, which the caller closes. If superd ends before it
// answers, in a crash or an upgrade, a request that is safe to repeat is sent again: the successor
// answers soon.
func (c *Client) do(ctx context.Context, r request) (*exchange, error) {
	var ended error
	for deadline := time.Now().Add(c.repeatTimeout); ; {
		answer, err := c.once(ctx, r)
		switch {
		case ended != nil && errors.Is(err, ErrNoSuperd):
			return nil, ended // superd has ended for good
		case !errors.Is(err, errEnded) || r.post && !r.repeatable || time.Now().After(deadline):
			return answer, err
		}
		ended = err
		select {
		case <-time.After(repeatPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// once sends one request over a new connection.
//
// It does not use http.Client: its transport keeps connections, goroutines and proxies that a
// single request over a Unix socket does not need, and they would cost more than the request.
func (c *Client) once(ctx context.Context, r request) (*exchange, error) {
	x, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.exchange(ctx, x, r); err != nil {
		x.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return x, nil
}

// exchange sends a request and reads the answer up to its body.
func (c *Client) exchange(ctx context.Context, x *exchange, r request) error {
	if !r.unbounded {
		x.limit(time.Now().Add(c.timeout))
	}
	req, err := r.build(ctx)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	// A superd that refuses the connection answers without reading, so look for the answer even
	// after a write error.
	writeErr := req.Write(x.conn)
	answer, err := http.ReadResponse(bufio.NewReader(x.conn), req)
	if writeErr != nil && err != nil {
		err = writeErr
	}
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Message: fmt.Sprintf("superd on %s does not answer", c.path),
			Remedy: "check whether it is suspended or the machine is overloaded"}
	case ended(err), errors.Is(err, syscall.EPIPE):
		return fmt.Errorf("send request to superd on %s: %w", c.path, errEnded)
	case err != nil:
		return fmt.Errorf("send request to superd on %s: %w", c.path, err)
	}
	if answer.StatusCode/100 != 2 {
		body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
		return decodeError(answer.StatusCode, body)
	}
	x.limit(time.Time{})
	x.Reader, x.size = answer.Body, answer.ContentLength
	return nil
}

func (r *request) build(ctx context.Context) (*http.Request, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if r.post {
		method, body = http.MethodPost, strings.NewReader(r.form.Encode())
	}
	target := "http://superd" + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	req.Close = true
	if r.post {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req, nil
}

// An exchange is a connection for one request. When its context is done, reads and writes fail.
type exchange struct {
	io.Reader       // body of the answer
	size      int64 // bytes of the body; -1: unknown
	ctx       context.Context
	conn      net.Conn
	release   func() bool
}

// limit sets the time at which reads and writes fail; zero: never.
func (x *exchange) limit(t time.Time) {
	_ = x.conn.SetDeadline(t)
	if x.ctx.Err() != nil {
		x.expire() // ctx may have been done just before t replaced its deadline
	}
}

// all returns the body.
func (x *exchange) all() ([]byte, error) {
	const room = 1 << 20 // capacity for a body of unknown size; unused pages are never touched
	var body bytes.Buffer
	if 0 <= x.size && x.size <= maxSize {
		body.Grow(int(x.size) + bytes.MinRead)
	} else {
		body.Grow(room)
	}
	_, err := io.Copy(&body, x)
	return body.Bytes(), err
}

func (x *exchange) expire() { _ = x.conn.SetDeadline(time.Unix(1, 0)) }

func (x *exchange) Close() error {
	x.release()
	return x.conn.Close()
}

func (c *Client) dial(ctx context.Context) (*exchange, error) {
	if c.connect == nil {
		return c.dialSocket(ctx)
	}
	conn, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	return newExchange(ctx, conn), nil
}

func newExchange(ctx context.Context, conn net.Conn) *exchange {
	x := &exchange{ctx: ctx, conn: conn}
	x.release = context.AfterFunc(ctx, x.expire)
	return x
}

func (c *Client) dialSocket(ctx context.Context) (*exchange, error) {
	if len(c.path) > MaxSocketPath {
		return nil, &Error{Message: fmt.Sprintf("socket path %s has %d bytes, the kernel allows %d", c.path, len(c.path), MaxSocketPath),
			Remedy: "choose a shorter runtime directory with --runtime-dir"}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.path)
	switch {
	case ctx.Err() != nil:
		if err == nil {
			conn.Close()
		}
		return nil, ctx.Err()
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%w on %s: start one with `superd run`, or name its configuration with -c or its directory with --runtime-dir", ErrNoSuperd, c.path)
	case errors.Is(err, fs.ErrPermission):
		return nil, &Error{Status: http.StatusForbidden, Message: fmt.Sprintf("may not connect to %s", c.path),
			Remedy: "become root or the user that superd runs as"}
	case err != nil:
		return nil, fmt.Errorf("connect to superd: %w", err)
	}
	return newExchange(ctx, conn), nil
}

// Connect returns a connection to superd on which nothing is sent yet.
func (c *Client) Connect(ctx context.Context) (net.Conn, error) {
	x, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	if !x.release() { // ctx is done
		x.conn.Close()
		return nil, ctx.Err()
	}
	return x.conn, nil
}
