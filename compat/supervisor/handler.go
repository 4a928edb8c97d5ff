package supervisor

import (
	"context"
	"net/http"
	"slices"
	"strings"
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
	stallTimeout = 30 * time.Second // for a client that does not read
)

// A Handler answers XML-RPC at /RPC2 and follows logs at /logtail.
type Handler struct {
	Supervisor *Supervisor
	Role       func(*http.Request) Role
	Open       OpenFunc
	Pid        int // of superd
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	switch path := r.URL.Path; {
	case path == "/RPC2" || path == "/RPC2/":
		h.call(w, r)
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
	method, params, err := xmlrpc.ReadCall(http.MaxBytesReader(w, r.Body, maxCall))
	if err != nil || method == "" {
		http.Error(w, "this is not a call of XML-RPC", http.StatusBadRequest)
		return
	}
	var answer []byte
	if value, err := h.invoke(r, method, params); err != nil {
		answer = xmlrpc.AnswerFault(asFault(err))
	} else {
		answer = xmlrpc.Answer(value)
	}
	if r.Context().Err() != nil {
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(stallTimeout))
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

// A method answers a call.
type method struct {
	needs Role
	most  int // parameters, the last ones may be absent
	least int
	call  func(h *Handler, ctx context.Context, a arguments) (any, error)
}

// arguments are the parameters of a call. A wrong type is remembered, and refused before the call.
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

func (h *Handler) invoke(r *http.Request, name string, params []any) (any, error) {
	if name == "system.multicall" {
		return h.multicall(r, params)
	}
	m, ok := methods()[name]
	if !ok {
		return nil, fault(UnknownMethod, "")
	}
	if len(params) < m.least || len(params) > m.most {
		return nil, fault(IncorrectParameters, "")
	}
	if h.Role(r) < m.needs {
		return nil, fault(Failed, "this user may only view programs: let root add the user to operators in [control]")
	}
	a := arguments{params, new(bool)}
	value, err := m.call(h, r.Context(), a)
	if *a.bad {
		return nil, fault(IncorrectParameters, "")
	}
	return value, err
}

// multicall answers several calls, in their order. A call that fails does not end the others.
func (h *Handler) multicall(r *http.Request, params []any) (any, error) {
	if len(params) != 1 {
		return nil, fault(IncorrectParameters, "")
	}
	calls, ok := params[0].([]any)
	if !ok || len(calls) > maxMulticall {
		return nil, fault(IncorrectParameters, "")
	}
	values := make([]any, 0, len(calls))
	for _, c := range calls {
		call, _ := c.(map[string]any)
		name, _ := call["methodName"].(string)
		arguments, _ := call["params"].([]any)
		var value any
		var err error
		switch name {
		case "":
			err = fault(IncorrectParameters, "No methodName")
		case "system.multicall":
			err = fault(IncorrectParameters, "Recursive system.multicall forbidden")
		default:
			value, err = h.invoke(r, name, arguments)
		}
		if err != nil {
			f := asFault(err)
			value = map[string]any{"faultCode": f.Code, "faultString": f.Text}
		}
		values = append(values, value)
	}
	return values, nil
}
