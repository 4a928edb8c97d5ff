package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/control"
)

// TestStream: a page gets all states, then those that change, and is told when superd is gone.
func TestStream(t *testing.T) {
	s := newSite(t)
	s.change(func() {
		s.states = `[{"name":"a","state":"running","uptime_s":1},{"name":"b","state":"stopped","uptime_s":null}]`
	})
	c := s.stream("/stream?cursor=0", nil)
	if f := c.next("snapshot", "status"); f.kind != "snapshot" || f.data != s.states {
		t.Errorf("first frame: %+v", f)
	}
	// Time alone is no change
	s.change(func() {
		s.states = `[{"name":"a","state":"running","uptime_s":2},{"name":"b","state":"running","uptime_s":1}]`
	})
	if f := c.next("snapshot", "status", "gone"); f.kind != "status" || f.data != `[{"name":"b","state":"running","uptime_s":1}]` {
		t.Errorf("after a change: %+v", f)
	}
	s.change(func() { s.states = `[{"name":"a","state":"running","uptime_s":3}]` })
	if f := c.next("snapshot", "status", "gone"); f.kind != "gone" || f.data != `["b"]` {
		t.Errorf("after the end of b: %+v", f)
	}
	s.kill()
	if f := c.next("snapshot", "status", "down"); f.kind != "down" || !strings.Contains(f.data, "superd on local does not answer") {
		t.Errorf("without superd: %+v", f)
	}
	// A page that is opened meanwhile is told, too
	if f := s.stream("/stream", nil).next("snapshot", "status", "down"); f.kind != "down" {
		t.Errorf("a new page without superd: %+v", f)
	}
	s.states = `[{"name":"c"}]`
	s.start()
	c.next("up")
	if f := c.next("snapshot", "status", "down"); f.kind != "snapshot" || f.data != s.states {
		t.Errorf("with superd again: %+v", f)
	}
	c.cancel()
}

// TestEventsContinue: no event is missed or repeated through ends of superd and of the connection.
func TestEventsContinue(t *testing.T) {
	s := newSite(t)
	for range 5 {
		s.event("old")
	}
	want := 3
	expect := func(c *sseClient, upTo int) {
		t.Helper()
		for ; want <= upTo; want++ {
			if f := c.next("event"); f.id != strconv.Itoa(want) || !strings.HasPrefix(f.data, fmt.Sprintf(`{"cursor":%d,`, want)) {
				t.Fatalf("got event %+v, want number %d", f, want)
			}
		}
	}
	c := s.stream("/stream?cursor=2", nil)
	expect(c, 5)
	s.event("new")
	expect(c, 6)
	s.kill()
	for range 3000 {
		s.event("while superd was away")
	}
	s.start()
	expect(c, 3006)
	c.cancel()
	s.event("while the page was away")
	// The browser names the last event, and the cursor of the first request
	c = s.stream("/stream?cursor=2", map[string]string{"Last-Event-ID": "3006"})
	expect(c, 3007)
	// Without either, it begins with the newest
	if f := s.stream("/stream", nil).next("event"); f.id != "3007" {
		t.Errorf("a new page gets event %s first", f.id)
	}
}

// TestEventsOfAnEmptyLog: a page that was opened before the first event misses none.
func TestEventsOfAnEmptyLog(t *testing.T) {
	s := newSite(t)
	c := s.stream("/stream", nil)
	s.waitFor("GET /v1/events?follow=1&lines=1")
	s.kill()
	s.event("one")
	s.event("two")
	s.start()
	for _, want := range []string{"1", "2"} {
		if f := c.next("event"); f.id != want {
			t.Errorf("got event %+v, want number %s", f, want)
		}
	}
}

// TestLogoutEndsStreams: a session that has ended gets nothing more, by a stream that it has.
func TestLogoutEndsStreams(t *testing.T) {
	s := newSite(t)
	cookie, other := s.login(operatorToken), s.login(operatorToken)
	c, stays := s.streamOf(request{path: "/stream?cursor=0", cookie: cookie}), s.streamOf(request{path: "/stream?cursor=0", cookie: other})
	endless := s.open(t.Context(), request{path: "/api/v1/events?follow=1&since=0", cookie: cookie})
	defer endless.Body.Close()
	c.next("snapshot")
	stays.next("snapshot")
	s.do(request{method: "POST", path: "/logout", cookie: cookie})
	s.event("later")
	stays.next("event")
	for f := range c.frames {
		t.Errorf("after the logout: %+v", f)
	}
	if text, err := io.ReadAll(endless.Body); err == nil || len(text) > 0 {
		t.Errorf("the endless answer after the logout: %q, %v", text, err)
	}
}

// TestHungSuperd: a superd that accepts connections and answers nothing is shown as down.
func TestHungSuperd(t *testing.T) {
	s := newSite(t)
	s.web.hosts[0].timeout = 200 * time.Millisecond
	c := s.stream("/stream", nil)
	c.next("snapshot")
	hang := func(hangs bool) { s.change(func() { s.hangs = hangs }) }
	hang(true)
	if f := c.next("down"); !strings.Contains(f.data, "superd on local does not answer: it is connected, but sends nothing") {
		t.Errorf("a superd that hangs: %+v", f)
	}
	if f := s.stream("/stream", nil).next("snapshot", "down"); f.kind != "down" {
		t.Errorf("a new page: %+v", f)
	}
	for _, path := range []string{"/api/v1/status", "/api/healthz"} {
		if answer, text := s.do(request{path: path, token: viewerToken}); answer.StatusCode != 503 || !strings.Contains(text, "sends nothing") {
			t.Errorf("%s of a superd that hangs: %d %s", path, answer.StatusCode, text)
		}
	}
	hang(false)
	c.next("up")
	c.next("snapshot")
}

// TestLogStream: lines come in order, and those before are not repeated after a break.
func TestLogStream(t *testing.T) {
	s := newSite(t)
	var asked []string
	s.logs = func(w http.ResponseWriter, form map[string][]string) {
		asked = append(asked, fmt.Sprint(form["lines"], form["follow"], form["name"], form["cursor"]))
		fmt.Fprint(w, `{"instance":"web","cursor":"web:0"}`+"\n")
		fmt.Fprint(w, `{"time":"2026-11-21T07:21:47Z","instance":"web","stream":"stderr","lines":2,"length":7,"cursor":"web:7"}`+"\none\ntwo\n")
		fmt.Fprint(w, `{"instance":"web","note":"removed","lost_bytes":12,"cursor":"web:9"}`+"\n")
		fmt.Fprint(w, `{"instance":"web","length":4,"cursor":"web:13"}`+"\n\xff<b>\n")
	}
	c := s.stream("/logs/stream?name=web&n=5", nil)
	if f := c.next("lines", "gap"); f.kind != "gap" || f.data != `{"skipped_bytes":12}` {
		t.Errorf("the gap: %+v", f)
	}
	f := c.next("lines", "gap")
	var lines []logLine
	if err := json.Unmarshal([]byte(f.data), &lines); err != nil || f.id != "web:13" || len(lines) != 4 {
		t.Fatalf("lines: %v, %+v", err, f)
	}
	if l := lines[1]; l.Text != "two" || l.Stream != "stderr" || *l.Time != "2026-11-21T07:21:47Z" || l.Name != "web" {
		t.Errorf("a line: %+v", l)
	}
	if l := lines[2]; l.Text != "removed" || l.Stream != "superd" {
		t.Errorf("a note: %+v", l)
	}
	if l := lines[3]; l.Text != "\ufffd<b>" || l.Stream != "" || l.Time != nil {
		t.Errorf("a raw line: %+v", l)
	}
	s.kill()
	s.start()
	c.next("lines")
	c.cancel()
	s.stream("/logs/stream?name=web&cursor=web:7", map[string]string{"Last-Event-ID": "web:13"}).next("lines")
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(asked, "|"); got != "[5] [1] [web] []|[5] [1] [web] [web:13]|[200] [1] [web] [web:13]" {
		t.Errorf("superd was asked for %s", got)
	}
}

// TestLogTailIsBounded: a client that does not read loses the oldest lines, and is told how many
// bytes.
func TestLogTailIsBounded(t *testing.T) {
	tail := &logTail{wake: make(chan struct{}, 1), cursors: map[string]string{}}
	add := func(text string) {
		tail.add(&control.LogBlock{Instance: "web", Text: []byte(text), Length: new(len(text)), Cursor: "web:1"})
	}
	sent, skipped := 0, int64(0)
	frame := func() {
		var b bytes.Buffer
		tail.frame(&b)
		for line := range strings.Lines(b.String()) {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				var gap struct {
					Skipped int64 `json:"skipped_bytes"`
				}
				var lines []logLine
				if json.Unmarshal([]byte(data), &gap) == nil {
					skipped += gap.Skipped
				} else if err := json.Unmarshal([]byte(data), &lines); err != nil {
					t.Fatal(err)
				}
				if len(lines) > maxFrameLines {
					t.Errorf("%d lines in a frame", len(lines))
				}
				for _, l := range lines {
					sent += len(l.Text) + 1
				}
			}
		}
	}
	all := 0
	for i := range 50_000 {
		text := strings.Repeat("x", i%5000)
		add(text)
		all += len(text) + 1
		if tail.bytes > maxFrameBytes || len(tail.lines) > 3*maxFrameLines {
			t.Fatalf("%d bytes in %d lines are kept", tail.bytes, len(tail.lines))
		}
		if i%20_000 == 0 {
			frame()
		}
	}
	frame()
	if int64(sent)+skipped != int64(all) || skipped == 0 {
		t.Errorf("%d bytes were sent and %d skipped, of %d", sent, skipped, all)
	}
}

// TestStalledBrowser: a browser that does not read holds up nobody, and is disconnected.
func TestStalledBrowser(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	big := strings.Repeat("x", 1<<20)
	s.change(func() { s.states = `[{"name":"a","reason":"` + big + `"}]` })
	stalled, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	fmt.Fprintf(stalled, "GET /stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n", operatorToken)
	c := s.stream("/stream", nil)
	c.next("snapshot")
	for i := range 30 { // more than the buffers of the kernel take
		s.change(func() { s.states = fmt.Sprintf(`[{"name":"a","n":%d,"reason":"%s"}]`, i, big) })
		for f := c.next("status"); !strings.Contains(f.data, fmt.Sprintf(`"n":%d,`, i)); {
			f = c.next("status")
		}
	}
	_ = stalled.SetReadDeadline(time.Now().Add(patience))
	waitForOneStream(t, s)
}

// waitForOneStream waits until only one stream is left.
func waitForOneStream(t *testing.T, s *site) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		s.web.streams.mu.Lock()
		n := s.web.streams.sum
		s.web.streams.mu.Unlock()
		if n == 1 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d streams are open", n)
		}
	}
}

// A deadlineRecorder has the last deadline for writes, and whether there was one at each write.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	deadline time.Time
	unbound  []string
}

func (d *deadlineRecorder) SetWriteDeadline(at time.Time) error { d.deadline = at; return nil }

func (d *deadlineRecorder) SetReadDeadline(time.Time) error { return nil }

func (d *deadlineRecorder) wrote(what string) {
	if d.deadline.IsZero() {
		d.unbound = append(d.unbound, what)
	}
}

func (d *deadlineRecorder) Write(b []byte) (int, error) {
	d.wrote("body")
	return d.ResponseRecorder.Write(b)
}

func (d *deadlineRecorder) Flush() { d.wrote("flush") }

// TestWritesAreBounded: a client that does not read holds up no answer for ever, with a body or
// without. A stream that has nothing to write has no limit.
func TestWritesAreBounded(t *testing.T) {
	s := newSite(t)
	etag := `"none"`
	for _, want := range []int{200, 304} {
		d := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
		r := httptest.NewRequest("GET", "http://localhost/static/index.html", nil)
		r.Header.Set("If-None-Match", etag)
		s.web.ServeHTTP(d, r)
		etag = d.Header().Get("ETag")
		if d.Code != want || d.deadline.IsZero() || len(d.unbound) > 0 {
			t.Errorf("%d: status %d, until %v, without a limit: %v", want, d.Code, d.deadline, d.unbound)
		}
	}
	d := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	w := &writer{ResponseWriter: d, control: http.NewResponseController(d)}
	if err := http.NewResponseController(w).Flush(); err != nil || len(d.unbound) > 0 || !d.deadline.IsZero() {
		t.Errorf("flush: %v, until %v, without a limit: %v", err, d.deadline, d.unbound)
	}
}

// TestStreamsAreBounded: a client has only so many streams, and gets them back.
func TestStreamsAreBounded(t *testing.T) {
	s := newSite(t)
	var open []*sseClient
	for range maxOwnStreams {
		open = append(open, s.stream("/stream", nil))
	}
	r := request{path: "/stream", token: operatorToken}
	if answer, body := s.do(r); answer.StatusCode != 503 || !strings.Contains(body, "too many") {
		t.Errorf("one stream more: %s, %s", answer.Status, body)
	}
	r.path = "/logs/stream?name=web" // superd is not asked, and there is no answer to that
	if answer, body := s.do(r); answer.StatusCode != 503 || !strings.Contains(body, "too many") {
		t.Errorf("one stream of a log more: %s, %s", answer.Status, body)
	}
	s.mu.Lock()
	if asked := strings.Join(s.requests, " "); strings.Contains(asked, "/v1/logs") {
		t.Errorf("superd got %s", asked)
	}
	s.mu.Unlock()
	if answer, _ := s.do(request{path: "/api/v1/status", token: operatorToken}); answer.StatusCode != 200 {
		t.Errorf("another request: %s", answer.Status)
	}
	for _, c := range open[1:] {
		c.cancel()
	}
	waitForOneStream(t, s)
	s.stream("/stream", nil)
}

// TestListen: beyond the loopback interface only with TLS.
func TestListen(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:0": "", ":0": "", "localhost:0": "", "[::1]:0": "", "127.0.0.2:0": "",
		"0.0.0.0:0": "others could read the token on the way", "[::]:0": "others could read", "9001": "write HOST:PORT",
		"192.0.2.1:0": "others could read", "none.invalid:0": "read listen",
	} {
		l, err := Listen(t.Context(), address, false)
		if err == nil {
			if !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
				t.Errorf("%s: listens on %s", address, l.Addr())
			}
			l.Close()
		}
		if want == "" && err != nil && address != "[::1]:0" || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	if l, err := Listen(t.Context(), "0.0.0.0:0", true); err != nil {
		t.Errorf("with TLS: %v", err)
	} else {
		l.Close()
	}
}

// TestConnectionsAreBounded: further connections wait until others end.
func TestConnectionsAreBounded(t *testing.T) {
	l, err := Listen(t.Context(), "127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 2*maxConnections)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	for range maxConnections + 1 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for range maxConnections - 1 {
		c := <-accepted
		defer c.Close()
	}
	last := <-accepted
	select {
	case <-accepted:
		t.Error("one connection too many is accepted")
	case <-time.After(20 * time.Millisecond):
	}
	last.Close()
	last.Close() // twice counts once
	(<-accepted).Close()
	l.Close()
	if _, open := <-accepted; open {
		t.Error("a closed listener accepts")
	}
}

// TestPagesAreText: the pages put no text of a program into HTML, nor what the policy refuses.
func TestPagesAreText(t *testing.T) {
	for name, f := range newFiles() {
		text := string(f.text)
		for _, never := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", " style=\"", " onclick=", "<script>"} {
			if strings.HasSuffix(name, ".png") {
				continue
			}
			if strings.Contains(text, never) {
				t.Errorf("%s has %s", name, never)
			}
		}
		if f.mediaType == "application/octet-stream" {
			t.Errorf("%s has no media type: add its end to types", name)
		}
	}
}

// TestFiles: a browser that has a file is not sent it again.
func TestFiles(t *testing.T) {
	s := newSite(t)
	answer, body := s.do(request{path: "/static/index.html"})
	if page, want := s.do(request{path: "/"}); page.StatusCode != 200 || want != body || answer.Header.Get("ETag") == "" {
		t.Errorf("/ differs from index.html, or has no ETag: %s", page.Status)
	}
	again, _ := s.do(request{path: "/", header: map[string]string{"If-None-Match": answer.Header.Get("ETag")}})
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("the same file again: %s", again.Status)
	}
}

// TestLoadToken: a token file is made once, and only one that nobody else has read is used.
func TestLoadToken(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state", "token")
	made, created, err := LoadToken(path)
	if err != nil || !created || len(made) < minTokenBytes {
		t.Fatalf("the first start: %q, %v, %v", made, created, err)
	}
	if again, created, err := LoadToken(path); err != nil || created || again != made {
		t.Errorf("the next start: %q, %v, %v; want %q", again, created, err, made)
	}
	for name, want := range map[string]os.FileMode{"state": 0o700, "state/token": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %v", name, info.Mode(), err, want)
		}
	}
	entries, err := os.ReadDir(filepath.Join(dir, "state"))
	if err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct{ name, path, want string }{
		{"others may read it", write("a", operatorToken, 0o640), "others may read or change"},
		{"short", write("b", "secret", 0o600), "at least 16 characters"},
		{"empty", write("c", "", 0o600), "at least 16 characters"},
		{"two words", write("d", "one word and another one", 0o600), "one word"},
		{"large", write("e", strings.Repeat("x", 5000), 0o600), "more than 4096 bytes"},
		{"a directory", dir, "not a regular file"},
		{"a device", "/dev/zero", "not a regular file"},
	} {
		if token, _, err := LoadToken(tt.path); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q, %v, want %q", tt.name, token, err, tt.want)
		}
	}
	if token, _, err := LoadToken(write("f", operatorToken+"\n", 0o400)); err != nil || token != operatorToken {
		t.Errorf("one's own token: %q, %v", token, err)
	}
}
