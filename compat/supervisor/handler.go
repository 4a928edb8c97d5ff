package supervisor

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"superd/compat/xmlrpc"
)

// A Role is what the user at the other end may do.
type Role int

// The roles.
const (
	Viewer   Role = iota // may call what only reads
	Operator             // may control programs
	Owner                // may also end superd
)

// Limits on clients.
const (
	maxCall      = 1 << 20 // bytes
	maxMulticall = 1000
	maxRequests  = 32               // at the same time, of all users but the owner
	maxReaders   = 2                // answers with text of logs that are made at the same time
	callTimeout  = 5 * time.Second  // for a client that sends a call
	stallTimeout = 30 * time.Second // for a client that does not read
)

// A Handler answers XML-RPC at /RPC2 and follows logs at /logtail.
type Handler struct {
	Supervisor *Supervisor
	Role       func(*http.Request) Role
	Open       OpenFunc
	Pid        int // of superd

	remote   followers
	requests atomic.Int32  // under way, of all users but the owner
	readers  chan struct{} // semaphore
}

// NewHandler returns a handler. pid is that of superd.
func NewHandler(s *Supervisor, role func(*http.Request) Role, open OpenFunc, pid int) *Handler {
	return &Handler{Supervisor: s, Role: role, Open: open, Pid: pid, readers: make(chan struct{}, maxReaders)}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Each request may take a connection to superd, which the owner needs.
	if h.Role(r) < Owner {
		if h.requests.Add(1) > maxRequests {
			h.requests.Add(-1)
			http.Error(w, "too many requests at the same time", http.StatusServiceUnavailable)
			return
		}
		defer h.requests.Add(-1)
	}
	switch path := r.URL.Path; {
	case path == "/RPC2" || path == "/RPC2/":
		h.call(w, r)
	case path == remotePath && r.Method == http.MethodGet:
		h.serveRemote(w, r)
	case strings.HasPrefix(path, "/logtail/"):
		h.follow(w, r, strings.TrimPrefix(path, "/logtail/"))
	default: // superd's own log, at /mainlogtail, is not a file
		http.NotFound(w, r)
	}
}

func (h *Handler) call(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "XML-RPC takes POST", http.StatusBadRequest)
		return
	}
	client := http.NewResponseController(w)
	_ = client.SetReadDeadline(time.Now().Add(callTimeout))
	body := http.MaxBytesReader(w, r.Body, maxCall)
	method, params, err := xmlrpc.ReadCall(body)
	if err == nil {
		// Only after the body net/http notices the end of a client
		_, err = io.Copy(io.Discard, body)
	}
	_ = client.SetReadDeadline(time.Time{})
	if err != nil || method == "" {
		http.Error(w, "this is not a call of XML-RPC", http.StatusBadRequest)
		return
	}
	var answer []byte
	c := &call{Handler: h, request: r, ctx: r.Context(), text: maxRead}
	defer c.end()
	if value, err := c.invoke(method, params); err != nil {
		answer = xmlrpc.AnswerFault(asFault(err))
	} else {
		answer = xmlrpc.Answer(value)
	}
	if r.Context().Err() != nil {
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	_ = client.SetWriteDeadline(time.Now().Add(stallTimeout))
	_, _ = w.Write(answer) // an error means that the client is gone
}

// follow streams the log of the process that path names, as NAME/stdout.
func (h *Handler) follow(w http.ResponseWriter, r *http.Request, path string) {
	spec, stream, _ := strings.Cut(path, "/")
	of := Stdout
	if stream == "stderr" {
		of = Stderr
	}
	p, err := h.Supervisor.Process(r.Context(), spec)
	if err != nil || r.Method != http.MethodGet || p.logFile(of) == "" || !slices.Contains([]string{"", "stdout", "stderr"}, stream) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain;charset=utf-8")
	client := http.NewResponseController(w)
	out := stalling{w, client}
	_ = h.Supervisor.Follow(r.Context(), p, of, out, client.Flush) // ends with the client or superd
}

// stalling is a writer to a client that has to read in time.
type stalling struct {
	http.ResponseWriter
	client *http.ResponseController
}

func (s stalling) Write(text []byte) (int, error) {
	_ = s.client.SetWriteDeadline(time.Now().Add(stallTimeout))
	return s.ResponseWriter.Write(text)
}

// A call is a request under way, with the calls of a multicall.
type call struct {
	*Handler
	request *http.Request
	ctx     context.Context
	text    int  // bytes of logs that it may still return
	reads   bool // it has a place among the readers
}

// read takes a place among the readers of logs, once.
func (c *call) read() error {
	if c.reads {
		return nil
	}
	select {
	case c.readers <- struct{}{}:
		c.reads = true
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// end gives the place back.
func (c *call) end() {
	if c.reads {
		<-c.readers
	}
}

// A method answers a call.
type method struct {
	needs Role
	most  int // parameters, the last ones may be absent
	least int
	call  func(c *call, a arguments) (any, error)
}

// arguments are the parameters of a call. A method asks them for all that it needs, and does
// nothing if one had the wrong type.
type arguments struct {
	all []any
	bad *bool
}

func argument[T any](a arguments, at int, absent T) T {
	if at >= len(a.all) {
		return absent
	}
	v, ok := a.all[at].(T)
	*a.bad = *a.bad || !ok
	return v
}

func (a arguments) text(at int) string { return argument(a, at, "") }
func (a arguments) number(at int) int  { return argument(a, at, 0) }

// wait returns the parameter wait, which clients send as a boolean or a number.
func (a arguments) wait(at int) bool {
	if at < len(a.all) {
		if n, ok := a.all[at].(int); ok {
			return n != 0
		}
	}
	return argument(a, at, true)
}

func (c *call) invoke(name string, params []any) (any, error) {
	if name == "system.multicall" {
		return c.multicall(params)
	}
	m, ok := methods()[name]
	if !ok {
		return nil, fault(UnknownMethod, "")
	}
	if len(params) < m.least || len(params) > m.most {
		return nil, fault(IncorrectParameters, "")
	}
	if c.Role(c.request) < m.needs {
		return nil, fault(Failed, "this user may only view programs: let root add the user to operators in [control]")
	}
	a := arguments{params, new(bool)}
	value, err := m.call(c, a)
	if *a.bad {
		return nil, fault(IncorrectParameters, "")
	}
	return value, err
}

// multicall answers several calls, in their order. A call that fails does not end the others.
func (c *call) multicall(params []any) (any, error) {
	if len(params) != 1 {
		return nil, fault(IncorrectParameters, "")
	}
	calls, ok := params[0].([]any)
	if !ok || len(calls) > maxMulticall {
		return nil, fault(IncorrectParameters, "")
	}
	values := make([]any, 0, len(calls))
	for _, v := range calls {
		one, _ := v.(map[string]any)
		name, _ := one["methodName"].(string)
		arguments, _ := one["params"].([]any)
		var value any
		var err error
		switch name {
		case "":
			err = fault(IncorrectParameters, "No methodName")
		case "system.multicall":
			err = fault(IncorrectParameters, "Recursive system.multicall forbidden")
		default:
			value, err = c.invoke(name, arguments)
		}
		if err != nil {
			f := asFault(err)
			value = map[string]any{"faultCode": f.Code, "faultString": f.Text}
		}
		values = append(values, value)
	}
	return values, nil
}
