package web

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait; only a defect reaches it.
const patience = time.Minute

const (
	operatorToken = "token-of-operators-0001"
	viewerToken   = "token-of-viewers-000001"
)

// A fakeSuperd answers as superd does. It can be killed and started again.
type fakeSuperd struct {
	t *testing.T

	mu       sync.Mutex
	server   *httptest.Server // nil: it is dead
	states   string           // JSON of all statuses
	events   []string
	logs     func(w http.ResponseWriter, form map[string][]string)
	requests []string // METHOD PATH?QUERY BODY
	answered []string // likewise, those whose endless answer has begun
	hangs    bool
	changed  chan struct{}
}

func newFakeSuperd(t *testing.T) *fakeSuperd {
	f := &fakeSuperd{t: t, states: `[]`, changed: make(chan struct{})}
	f.start()
	t.Cleanup(f.kill)
	return f
}

func (f *fakeSuperd) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
}

func (f *fakeSuperd) kill() {
	f.mu.Lock()
	server := f.server
	f.server = nil
	f.mu.Unlock()
	if server != nil {
		server.CloseClientConnections()
		server.Config.Close()
		server.Listener.Close()
	}
}

// change changes what it answers.
func (f *fakeSuperd) change(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeSuperd) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	request := strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), body))
	f.requests = append(f.requests, request)
	logs := f.logs
	f.mu.Unlock()
	sent := 0
	for first := true; ; first = false {
		f.mu.Lock()
		states, events, changed, hangs := f.states, f.events, f.changed, f.hangs
		f.mu.Unlock()
		if hangs {
			select {
			case <-changed:
				continue
			case <-r.Context().Done():
				return
			}
		}
		switch r.URL.Path {
		case "/v1/status":
			fmt.Fprintln(w, states)
			return
		case "/v1/status/watch":
			fmt.Fprintln(w, states)
		case "/v1/events":
			if first && r.URL.Query().Has("lines") {
				sent = max(0, len(events)-1)
			} else if first {
				_, _ = fmt.Sscan(r.URL.Query().Get("since"), &sent)
			}
			for ; sent < len(events); sent++ {
				fmt.Fprintln(w, events[sent])
			}
			if !r.URL.Query().Has("follow") {
				return
			}
		case "/v1/logs":
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			if err := r.ParseForm(); err != nil {
				f.t.Error(err)
			}
			logs(w, r.Form)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, "{\"path\":%q}\n", r.URL.EscapedPath())
			return
		}
		w.(http.Flusher).Flush()
		f.mu.Lock()
		f.answered = append(f.answered, request)
		f.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fakeSuperd) dial(ctx context.Context) (net.Conn, error) {
	f.mu.Lock()
	server := f.server
	f.mu.Unlock()
	if server == nil {
		return nil, io.ErrClosedPipe
	}
	return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
}

// waitFor returns when a request has been made, and its answer has begun.
func (f *fakeSuperd) waitFor(request string) {
	f.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		f.mu.Lock()
		answered := slices.Contains(f.answered, request)
		f.mu.Unlock()
		if answered {
			return
		}
	}
	f.t.Fatalf("superd was not asked %s", request)
}

// event adds an event to the log.
func (f *fakeSuperd) event(kind string) {
	f.change(func() { f.events = append(f.events, fmt.Sprintf(`{"cursor":%d,"kind":%q}`, len(f.events)+1, kind)) })
}

// A site is a server with its superd.
type site struct {
	*fakeSuperd
	url string
	web *Server
}

func newSite(t *testing.T, change ...func(*Options)) *site {
	t.Helper()
	f := newFakeSuperd(t)
	o := Options{Version: "1", Tokens: Tokens{operatorToken, viewerToken}, Log: slog.New(slog.DiscardHandler), Port: 9001,
		Hosts: []Host{{"local", f.dial}}}
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := Listen(ctx, "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	web := New(ctx, o)
	server := web.HTTP()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		cancel()
		server.Close()
		<-ended
	})
	return &site{f, "http://" + listener.Addr().String(), web}
}

// A request is made by do; what is not set is left out.
type request struct {
	method, path, body string
	token, cookie      string
	host               string
	header             map[string]string
}

// do makes a request and returns the answer with its whole body.
func (s *site) do(r request) (*http.Response, string) {
	s.t.Helper()
	answer := s.open(s.t.Context(), r)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer, string(text)
}

func (s *site) open(ctx context.Context, r request) *http.Response {
	s.t.Helper()
	if r.method == "" {
		r.method = "GET"
	}
	req, err := http.NewRequestWithContext(ctx, r.method, s.url+r.path, strings.NewReader(r.body))
	if err != nil {
		s.t.Fatal(err)
	}
	if r.body == "" {
		req.Body = nil
		req.ContentLength = 0
	}
	req.Host = r.host
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.cookie != "" {
		req.Header.Set("Cookie", r.cookie)
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

// login returns the cookie of a session.
func (s *site) login(token string) string {
	s.t.Helper()
	answer, body := s.do(request{method: "POST", path: "/login", body: fmt.Sprintf(`{"token":%q}`, token)})
	if answer.StatusCode != http.StatusNoContent || len(answer.Cookies()) != 1 {
		s.t.Fatalf("login: %s, cookies %v, %s", answer.Status, answer.Cookies(), body)
	}
	c := answer.Cookies()[0]
	return c.Name + "=" + c.Value
}

// A frame is an event of a stream.
type frame struct{ kind, id, data string }

// A sseClient reads a stream.
type sseClient struct {
	t      *testing.T
	frames chan frame
	cancel context.CancelFunc
}

func (s *site) stream(path string, header map[string]string) *sseClient {
	s.t.Helper()
	return s.streamOf(request{path: path, token: operatorToken, header: header})
}

func (s *site) streamOf(r request) *sseClient {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	answer := s.open(ctx, r)
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(answer.Body)
		s.t.Fatalf("%s: %s, %s", r.path, answer.Status, text)
	}
	c := &sseClient{s.t, make(chan frame, 10_000), cancel}
	s.t.Cleanup(cancel)
	go func() {
		defer close(c.frames)
		defer answer.Body.Close()
		var f frame
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 64<<20)
		for lines.Scan() {
			key, value, _ := strings.Cut(lines.Text(), ": ")
			switch key {
			case "event":
				f.kind = value
			case "id":
				f.id = value
			case "data":
				f.data = value
			case "":
				if f.kind != "" {
					c.frames <- f
				}
				f = frame{}
			}
		}
	}()
	return c
}

// next returns the next frame of one of the kinds.
func (c *sseClient) next(kinds ...string) frame {
	c.t.Helper()
	for end := time.After(patience); ; {
		select {
		case f, ok := <-c.frames:
			if !ok {
				c.t.Fatalf("the stream ended, waiting for %v", kinds)
			}
			for _, kind := range kinds {
				if f.kind == kind {
					return f
				}
			}
		case <-end:
			c.t.Fatalf("no frame of %v came", kinds)
		}
	}
}
