package probe

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"superd/loop"
)

const patience = 90 * time.Second

// ask runs a loop until a check has ended. With a timeout the check is stopped then.
func ask(t testing.TB, timeout time.Duration, checker func(*loop.Loop) (Checker, error)) string {
	t.Helper()
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	answer := "no answer"
	c, err := checker(l)
	if err != nil {
		t.Fatal(err)
	}
	stop := c.Check(func(err error) {
		answer = fmt.Sprint(err)
		l.Stop()
	})
	if timeout > 0 {
		l.Root().After(timeout, func() { stop() })
	}
	l.Root().After(patience, l.Stop)
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
	return answer
}

func askTCP(t testing.TB, timeout time.Duration, address string) string {
	t.Helper()
	return ask(t, timeout, func(l *loop.Loop) (Checker, error) { return TCP(l, address), nil })
}

func askHTTP(t testing.TB, timeout time.Duration, address string) string {
	t.Helper()
	return ask(t, timeout, func(l *loop.Loop) (Checker, error) { return HTTP(l, address) })
}

func listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestTCP(t *testing.T) {
	l := listen(t, "tcp", "127.0.0.1:0")
	address := l.Addr().String()
	if got := askTCP(t, 0, address); got != "<nil>" {
		t.Errorf("a port that listens: %s", got)
	}
	l.Close()
	if got, want := askTCP(t, 0, address), "connect to "+address+": connection refused"; got != want {
		t.Errorf("a port that doesn't listen: %s, want %s", got, want)
	}
	if got := askTCP(t, 0, "name.invalid:80"); !strings.HasPrefix(got, "look up name.invalid: ") {
		t.Errorf("a name that isn't there: %s", got)
	}
}

// serve returns the address of a server with pages for each case.
func serve(t testing.TB) (address string) {
	wait := make(chan struct{})
	mux := http.NewServeMux()
	page := func(path string, f http.HandlerFunc) { mux.HandleFunc(path, f) }
	page("/ok", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "fine") })
	page("/redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/broken", http.StatusFound) })
	page("/broken", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "database \x1b[2Jgone\nsecond line", http.StatusServiceUnavailable)
	})
	page("/page", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<html>")
	})
	page("/hang", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-wait:
		case <-r.Context().Done():
		}
	})
	page("/drip", func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := io.WriteString(w, "x"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-wait:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	page("/huge", func(w http.ResponseWriter, r *http.Request) {
		for range 1 << 20 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	page("/header", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(wait) })
	return server.URL
}

func TestHTTP(t *testing.T) {
	address := serve(t)
	tests := []struct {
		path, want string
		timeout    time.Duration
	}{
		{"/ok", "<nil>", 0},
		{"/redirect", "<nil>", 0},
		// The prober makes it harmless
		{"/broken", "HTTP 503 Service Unavailable: database \x1b[2Jgone", 0},
		{"/page", "HTTP 404 Not Found", 0},
		{"/hang", "context canceled", 20 * time.Millisecond},
		{"/drip", "read answer: context canceled", 20 * time.Millisecond},
		{"/huge", "<nil>", 0},
		{"/header", "net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded 65536 bytes; aborted", 0},
	}
	for _, tt := range tests {
		if got := askHTTP(t, tt.timeout, address+tt.path); got != tt.want {
			t.Errorf("GET %s: %q, want %q", tt.path, got, tt.want)
		}
	}
}

func TestHTTPS(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	server.Config.ErrorLog = nil
	if got := askHTTP(t, 0, server.URL); got != "HTTP 404 Not Found: 404 page not found" {
		t.Errorf("a loopback address with a certificate of another host: %s", got)
	}
	for host, want := range map[string]bool{"localhost": true, "127.0.0.9": true, "::1": true, "10.0.0.1": false, "localhost.example": false, "": false} {
		if got := isLoopback(host); got != want {
			t.Errorf("isLoopback(%q) = %v", host, got)
		}
	}
}

func TestHTTPOverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.sock")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" || r.URL.RawQuery != "full=1" || r.Host != "localhost" {
			http.Error(w, r.Host+r.URL.String(), http.StatusBadRequest)
		}
	}))
	server.Listener.Close()
	server.Listener = listen(t, "unix", path)
	server.Start()
	defer server.Close()
	if got := askHTTP(t, 0, "http://unix:"+path+":/healthz?full=1"); got != "<nil>" {
		t.Error(got)
	}
	if got, want := askHTTP(t, 0, "http://unix:"+path+"x:/"), "connect to "+path+"x: no such file or directory"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNothingLeaks runs hundreds of checks, some of which hang: neither a descriptor nor a
// goroutine is left.
func TestNothingLeaks(t *testing.T) {
	address := serve(t)
	blackhole := listen(t, "tcp", "127.0.0.1:0") // accepts in the kernel and never answers
	goroutines, fds := runtime.NumGoroutine(), countFDs(t)
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	prober := New(l, 20, 1)
	results := 0
	scope := l.Root().Child()
	targets := []string{address + "/ok", address + "/redirect", address + "/hang", address + "/drip", address + "/huge",
		"http://" + blackhole.Addr().String(), "http://127.0.0.1:1/"}
	for _, target := range append(targets, targets...) {
		c, err := HTTP(l, target)
		if err != nil {
			t.Fatal(err)
		}
		prober.Start(scope, c, Options{Interval: 5 * time.Millisecond, Timeout: 10 * time.Millisecond}, func(Result) {
			if results++; results == 500 {
				scope.Close()
				l.Post(l.Stop)
			}
		})
	}
	l.Root().After(patience, l.Stop)
	if err := l.Run(); err != nil {
		t.Fatal(err)
	}
	if results != 500 {
		t.Errorf("%d results", results)
	}
	for start := time.Now(); ; runtime.Gosched() {
		g, f := runtime.NumGoroutine()-goroutines, countFDs(t)-fds
		if g <= 0 && f <= 0 {
			break
		}
		if time.Since(start) > patience {
			t.Fatalf("%d goroutines and %d descriptors are left", g, f)
		}
	}
}

func countFDs(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
