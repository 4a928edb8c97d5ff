// Package web serves the pages of `superd web`, and the API for them.
//
// It reaches superd by the control socket only, here or on other hosts, and keeps nothing that its
// clients cannot afford to lose. A request passes these in order: the headers of every answer, the
// check of the name that the browser has called ([names]), of the page that has made the request,
// of the token or cookie ([auth]), and of the role. Then it is answered from the embedded files
// (static.go), by superd (api.go), or by a stream (stream.go, logstream.go).
//
// What a client may take is bounded: connections and streams, the size of requests, the time of a
// write. A client that does not read loses lines of logs and is disconnected at last. It holds up
// nobody.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"superd/control"
	"superd/metrics"
)

// Limits on clients.
const (
	maxConnections = 256
	maxRequests    = 64 // that superd is answering, over all clients
	maxOwnRequests = 16 // of one session
	maxStreams     = 64 // over all clients
	maxOwnStreams  = 16 // of one session

	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 64 << 10
	maxLoginBytes  = 4 << 10 // of the body of somebody who has not logged in
	// read and dropped of a larger body, so that its client may read why
	maxRefusedBytes = 1 << 20

	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	writeTimeout  = 20 * time.Second // of one write; the whole answer may take longer
	idleTimeout   = 30 * time.Second
)

// Options are what a server needs to know.
type Options struct {
	Version string
	Hosts   []Host // at least one, each name once
	Tokens  Tokens
	// ReadOnly lets nobody change anything.
	ReadOnly bool
	// Names are names by which browsers may call the server, beside localhost, loopback addresses
	// and the address that they have connected to. Case and port do not count.
	Names []string
	// Port distinguishes the cookie from that of another server on this host.
	Port int
	// TLS says that browsers use https, here or with a reverse proxy.
	TLS bool
	// Log gets failed logins and changes.
	Log *slog.Logger
}

// A Host is a superd that the pages show.
type Host struct {
	Name string
	Dial func(context.Context) (net.Conn, error) // connects to its control socket
}

// A Server answers the requests of browsers and scripts.
type Server struct {
	options  Options
	auth     *auth
	names    names
	hosts    []*host
	requests *quota // that superd is answering
	streams  *quota // answers without an end
	handler  http.Handler
}

// New returns a server. Its streams end when ctx is done.
func New(ctx context.Context, o Options) *Server {
	s := &Server{
		options: o, auth: newAuth(o), names: newNames(o.Names),
		requests: newQuota(maxRequests, maxOwnRequests), streams: newQuota(maxStreams, maxOwnStreams),
	}
	for _, h := range o.Hosts {
		s.hosts = append(s.hosts, newHost(ctx, h))
	}
	s.handler = s.guard(s.routes())
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// HTTP returns the HTTP server, with the limits on clients. It has no listener yet.
func (s *Server) HTTP() *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxOwnStreams * 2},
	}
}

// routes returns the handler of requests that have passed the guard.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	files := newFiles()
	mux.HandleFunc("GET /{$}", files.index)
	mux.HandleFunc("GET /static/{name}", files.file)
	mux.HandleFunc("POST /login", s.login)
	mux.HandleFunc("POST /logout", s.logout)
	mux.HandleFunc("GET /session", s.session)
	mux.Handle("/api/", s.api())
	mux.Handle("GET /stream", s.viewed(s.stream))
	mux.Handle("GET /logs/stream", s.viewed(s.logStream))
	mux.Handle("GET /logs/download", s.viewed(s.download))
	mux.Handle("GET /metrics", s.viewed(s.metrics))
	for path, method := range map[string]string{"/login": "POST", "/logout": "POST", "/{$}": "GET",
		"/static/{name}": "GET", "/session": "GET", "/stream": "GET", "/logs/stream": "GET",
		"/logs/download": "GET", "/metrics": "GET"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", method)
			refuse(w, &control.Error{Status: http.StatusMethodNotAllowed,
				Message: fmt.Sprintf("%s does not take %s", r.URL.Path, r.Method), Remedy: "use " + method})
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { refuse(w, errNoPath(r)) })
	return mux
}

func errNoPath(r *http.Request) error {
	return &control.Error{Status: http.StatusNotFound,
		Message: fmt.Sprintf("unknown path %s", r.URL.Path), Remedy: "see docs/web.md for all paths"}
}

// viewed returns a handler for all who may see the state of programs.
func (s *Server) viewed(serve func(http.ResponseWriter, *http.Request, session) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.auth.require(r, roleViewer)
		if err != nil {
			refuse(w, err)
			return
		}
		if err := serve(w, r, who); err != nil {
			refuse(w, err)
		}
	})
}

// session tells a page who has logged in, and what there is to show.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	var answer struct {
		Role     *string  `json:"role"` // null: nobody has logged in
		ReadOnly bool     `json:"read_only"`
		Hosts    []string `json:"hosts"`
		Version  string   `json:"version"`
	}
	answer.Hosts = []string{}
	who, err := s.auth.require(r, roleViewer)
	if err == nil {
		name := who.role.String()
		answer.Role, answer.ReadOnly, answer.Version = &name, s.options.ReadOnly, s.options.Version
		for _, h := range s.hosts {
			answer.Hosts = append(answer.Hosts, h.name)
		}
		s.auth.renew(w, who)
	} else if refused, ok := errors.AsType[*control.Error](err); ok && refused.Status == http.StatusTooManyRequests {
		refuse(w, err)
		return
	}
	sendJSON(w, http.StatusOK, &answer)
}

// metrics serves the metrics of one host.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request, who session) error {
	h, err := s.host(r.FormValue("host"))
	if err != nil {
		return err
	}
	if !s.requests.take(who.id) {
		return errBusy
	}
	defer s.requests.give(who.id)
	metrics.Handler(control.NewClient(h.name, control.WithConnect(h.dial)).Counters).ServeHTTP(w, r)
	return nil
}

// host returns the host with that name; "" is the first.
func (s *Server) host(name string) (*host, error) {
	for _, h := range s.hosts {
		if h.name == name || name == "" {
			return h, nil
		}
	}
	return nil, &control.Error{Status: http.StatusNotFound, Message: fmt.Sprintf("no host is named %q", name),
		Remedy: "/session lists the hosts"}
}

var errBusy = &control.Error{Status: http.StatusServiceUnavailable, Message: "too many requests at a time",
	Remedy: "try again in a second"}

// refuse answers with an error, as superd does.
func refuse(w http.ResponseWriter, err error) {
	refused, ok := errors.AsType[*control.Error](err)
	if !ok {
		refused = &control.Error{Message: err.Error(), Status: http.StatusInternalServerError}
	}
	if late, ok := errors.AsType[*throttledError](err); ok {
		w.Header().Set("Retry-After", strconv.Itoa(1+int(late.wait/time.Second)))
	}
	status := refused.Status
	if status < http.StatusBadRequest {
		status = http.StatusBadGateway // superd did not answer as it should
	}
	if status == http.StatusServiceUnavailable && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", "1")
	}
	sendJSON(w, status, refused)
}

// sendJSON sends an answer. Its error is that of the connection, which ends.
func sendJSON(w http.ResponseWriter, status int, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"answer cannot be written as JSON","remedy":""}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}
