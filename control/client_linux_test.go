package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// listen returns a listening socket and its path.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), SocketName)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, path
}

// answering answers each connection with text and closes it. With hasty it does not read first.
func answering(t *testing.T, text string, hasty bool) *Client {
	t.Helper()
	l, path := listen(t)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if !hasty {
				_, _ = conn.Read(make([]byte, 4096))
			}
			_, _ = io.WriteString(conn, text)
			conn.Close()
		}
	}()
	return NewClient(path)
}

func TestNoSuperd(t *testing.T) {
	dir := t.TempDir()
	file, stale := filepath.Join(dir, "file"), filepath.Join(dir, "stale")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for _, path := range []string{filepath.Join(dir, "none"), filepath.Join(file, "below"), file, stale} {
		_, err := NewClient(path).Version(t.Context())
		if !errors.Is(err, ErrNoSuperd) || !strings.Contains(err.Error(), path+": start one with `superd run`") {
			t.Errorf("version of %s: %v, want %v", path, err, ErrNoSuperd)
		}
	}
}

func TestSocketThatMayNotBeConnectedTo(t *testing.T) {
	_, path := listen(t)
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() {
		if os.Geteuid() == 0 {
			// File access of this thread alone, which ends with this goroutine.
			runtime.LockOSThread()
			if err := unix.Setfsuid(65534); err != nil {
				result <- err
				return
			}
		}
		_, err := NewClient(path).Version(t.Context())
		result <- err
	}()
	if err := <-result; err == nil || !strings.Contains(err.Error(), "become root or the user that superd runs as") {
		t.Errorf("version: %v, want the user to become", err)
	}
}

func TestLongPath(t *testing.T) {
	_, err := NewClient("/" + strings.Repeat("x", MaxSocketPath)).Version(t.Context())
	if err == nil || !strings.Contains(err.Error(), "choose a shorter runtime directory") {
		t.Errorf("version: %v, want advice to choose a shorter runtime directory", err)
	}
}

func TestSuperdThatDoesNotAnswer(t *testing.T) {
	_, path := listen(t) // without accept
	c := NewClient(path, WithTimeout(10*time.Millisecond))
	if _, err := c.Version(t.Context()); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("version: %v, want that it does not answer", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := c.Command(ctx, "stop", []string{"web"}, true, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stop: %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestStrangeAnswers(t *testing.T) {
	tests := []struct {
		name, answer string
		hasty        bool
		want         string
	}{
		{"refused before it is read", "HTTP/1.1 403 Forbidden\r\nContent-Length: 35\r\n\r\n{\"error\":\"may not\",\"remedy\":\"do x\"}", true, "may not; do x"},
		{"an error in plain text", "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n400 Bad Request", false, "400 Bad Request"},
		{"nothing", "", false, "ended before the answer"},
		{"not HTTP", "SSH-2.0-OpenSSH\r\n\r\n", false, "malformed HTTP"},
		{"not JSON", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnope", false, "read answer of superd"},
		{"cut off", "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n{", false, "unexpected EOF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := answering(t, tt.answer, tt.hasty)
			c.repeatTimeout = 50 * time.Millisecond
			_, err := c.Version(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("version: %v, want %q", err, tt.want)
			}
		})
	}
}

// TestRepeatedRequests: a request that may be made twice is repeated if superd ends before it
// answers.
func TestRepeatedRequests(t *testing.T) {
	l, path := listen(t)
	accepted := 0
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if accepted++; accepted > 2 {
				_, _ = http.ReadRequest(bufio.NewReader(conn))
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
			}
			conn.Close()
		}
	}()
	if _, err := NewClient(path).Status(t.Context(), nil); err != nil {
		t.Errorf("status, lost twice: %v", err)
	}
	l2, path := listen(t)
	go func() {
		for {
			conn, err := l2.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	for _, verb := range []string{"start", "restart"} {
		if _, err := NewClient(path).Command(t.Context(), verb, []string{"web"}, true, 0); !errors.Is(err, errEnded) {
			t.Errorf("%s, lost: %v, want that at once", verb, err)
		}
	}
}

// TestStreamContinues: a stream continues after the last whole line, wherever the one before was
// cut, and ends when there is no answer any more.
func TestStreamContinues(t *testing.T) {
	l, path := listen(t)
	requests := make(chan url.Values, 10)
	go func() {
		for i := range 3 {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				return
			}
			_ = r.ParseForm()
			requests <- r.Form
			text := fmt.Sprintf(`{"instance":"web","length":3,"lines":2,"cursor":"web:r0.%d"}`+"\n%d\n%d\n", i, i, i)
			text += [...]string{`{"len`, `{"length":3}` + "\n", `{"length":3}` + "\na"}[i]
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(text), text)
			if i == 2 {
				l.Close()
			}
			conn.Close()
		}
	}()
	var got []string
	idleCalls := 0
	err := NewClient(path).Logs(t.Context(), LogQuery{Names: []string{"web"}, Lines: 1, Follow: true}, func(l *LogBlock) error {
		got = append(got, strings.Split(string(l.Text), "\n")...)
		return nil
	}, func() error { idleCalls++; return nil })
	if err != nil || strings.Join(got, " ") != "0 0 1 1 2 2" || idleCalls == 0 {
		t.Errorf("followed logs: %q, %v, idle %d times; want three blocks and no error: superd ended", got, err, idleCalls)
	}
	for i := range 3 {
		form := <-requests
		if want := []string{fmt.Sprintf("web:r0.%d", i-1)}; i > 0 && !slices.Equal(form["cursor"], want) || i == 0 && form["cursor"] != nil {
			t.Errorf("request %d asked for what follows %q", i, form["cursor"])
		}
	}
}

// TestLogsThatTakeLong: the first line that matches may be found later than superd answers
// otherwise.
func TestLogsThatTakeLong(t *testing.T) {
	l, path := listen(t)
	c := NewClient(path, WithTimeout(10*time.Millisecond))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * c.timeout)
		_, _ = io.WriteString(w, `{"instance":"web","length":1,"cursor":"web:r0.0"}`+"\nx\n")
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	got := ""
	if err := c.Logs(t.Context(), LogQuery{Lines: -1}, func(b *LogBlock) error { got += string(b.Text); return nil }, nil); err != nil || got != "x" {
		t.Errorf("logs that took long: %q, %v", got, err)
	}
}

// TestFollowedJSONContinues: lines as JSON continue after the newest line of each log, and objects
// with only a cursor are not passed on.
func TestFollowedJSONContinues(t *testing.T) {
	l, path := listen(t)
	requests := make(chan string, 10)
	go func() {
		for i := range 2 {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r, err := http.ReadRequest(bufio.NewReader(conn))
			if err != nil {
				return
			}
			requests <- r.FormValue("cursor")
			text := `{"instance":"db","cursor":"db:r0.0"}` + "\n" + `{"time":null,"line":"\"cursor\":\"x:y","cursor":"web:stderr:r0.1"}` + "\n" +
				fmt.Sprintf(`{"time":null,"line":"%d","cursor":"web:stderr:r0.%[1]d"}`+"\n{", i+2)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(text), text)
			if i == 1 {
				l.Close()
			}
			conn.Close()
		}
	}()
	lines := 0
	err := NewClient(path).LogsJSON(t.Context(), LogQuery{Lines: -1, Follow: true}, func([]byte) error { lines++; return nil }, nil)
	if first, second := <-requests, <-requests; err != nil || lines != 4 || first != "" || second != "db:r0.0 web:stderr:r0.2" {
		t.Errorf("%d lines, %v; the requests continue at %q and %q", lines, err, first, second)
	}
}

// TestManyCursors: a follower of more instances than a form may have fields can continue.
func TestManyCursors(t *testing.T) {
	cursors := map[string]string{}
	for i := range 12_000 {
		name := fmt.Sprintf("web@%05d", i)
		cursors[name] = name + ":r0.0"
	}
	q := LogQuery{Names: []string{"web"}, Lines: -1, Follow: true}
	form, err := url.ParseQuery(q.request(cursors, true).form.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(form.Get("cursor")); len(form["cursor"]) != 1 || len(got) != len(cursors) || got[0] != "web@00000:r0.0" {
		t.Errorf("%d fields, the first with %d cursors, want one with all %d", len(form["cursor"]), len(got), len(cursors))
	}
}

func TestStreamThatIsCutOff(t *testing.T) {
	const cut = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n"
	err := answering(t, cut, false).Logs(t.Context(), LogQuery{Names: []string{"web"}}, func(*LogBlock) error { return nil }, nil)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("logs: %v, want %v: something is missing", err, io.ErrUnexpectedEOF)
	}
	own := fmt.Errorf("write: %w", unix.ECONNRESET)
	err = answering(t, cut, false).Logs(t.Context(), LogQuery{Names: []string{"web"}, Follow: true}, func(*LogBlock) error { return own }, nil)
	if !errors.Is(err, own) {
		t.Errorf("followed logs that can't be written: %v, want %v", err, own)
	}
}

func TestManyNamesGoInTheBody(t *testing.T) {
	l, path := listen(t)
	server := &http.Server{MaxHeaderBytes: 4096, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if len(r.Form["name"]) != 4000 || r.FormValue("wait") != "true" || r.FormValue("timeout") != "1m0s" {
			w.WriteHeader(http.StatusTeapot)
		}
		_, _ = io.WriteString(w, "[]")
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	names := make([]string, 4000)
	for i := range names {
		names[i] = "web"
	}
	if _, err := NewClient(path).Command(t.Context(), "start", names, true, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestPeerPid(t *testing.T) {
	_, path := listen(t)
	if pid, err := NewClient(path).PeerPid(t.Context()); pid != os.Getpid() || err != nil {
		t.Errorf("PeerPid = %d, %v, want %d", pid, err, os.Getpid())
	}
}
