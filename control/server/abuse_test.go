package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/control"
)

func TestAbusiveRequests(t *testing.T) {
	patient := newHarness(t)
	// Its time-outs end while a request comes, and on a busy machine perhaps before one comes: then
	// the request is repeated.
	hasty := newHarness(t, func(s *Server) { s.http.ReadHeaderTimeout = 100 * time.Millisecond; s.body = 100 * time.Millisecond })
	incomplete := []string{"nothing", "half a request", "half a header", "half a body"}
	tests := []struct {
		name, send string
		want       string // begin of the answer; empty: closed without one
	}{
		{"nothing", "", ""},
		{"half a request", "GET /v1/sta", "HTTP/1.1 400"},
		{"half a header", "GET /v1/status HTTP/1.1\r\nHost: su", ""},
		{"half a body", "POST /v1/programs/start HTTP/1.1\r\nHost: superd\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nname=web", "HTTP/1.1 400"},
		{"garbage", "\x00\xff\x13garbage\r\n\r\n", "HTTP/1.1 400"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400"},
		{"huge request line", "GET /" + strings.Repeat("x", 1<<20), "HTTP/1.1 431"},
		{"huge header", "GET /v1/status HTTP/1.1\r\nHost: superd\r\nX: " + strings.Repeat("x", 1<<20), "HTTP/1.1 431"},
		{"huge body", "POST /v1/reload HTTP/1.1\r\nHost: superd\r\nContent-Length: 1000000000\r\n\r\n", "HTTP/1.1 413"},
		{"huge body in pieces", "POST /v1/reload HTTP/1.1\r\nHost: superd\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n" + strings.Repeat("x", 1<<20), "HTTP/1.1 413"},
		{"negative length", "POST /v1/reload HTTP/1.1\r\nHost: superd\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 400"},
		{"no host", "GET /v1/status HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
		{"upwards", "GET /v1/../../etc/passwd HTTP/1.1\r\nHost: superd\r\nConnection: close\r\n\r\n", "HTTP/1.1 307"},
		{"proxy", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", "HTTP/1.1 404"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			send := func(h *harness) (answer string, ok bool) {
				conn := h.dial()
				defer conn.Close()
				go func() { _, _ = io.WriteString(conn, tt.send) }() // the server may stop reading
				// Until the server closes it, as it must
				all, err := io.ReadAll(conn)
				if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
					t.Fatalf("not closed within %v; answered %q", patience, all)
				}
				answer = string(all)
				return answer, strings.HasPrefix(answer, tt.want) && (tt.want != "" || answer == "")
			}
			if !slices.Contains(incomplete, tt.name) {
				if got, ok := send(patient); !ok {
					t.Errorf("answer is %.100q, want %q", got, tt.want)
				}
				patient.answers()
				return
			}
			got, ok := send(hasty)
			for end := time.Now().Add(patience); !ok && time.Now().Before(end); {
				got, ok = send(hasty)
			}
			if !ok {
				t.Errorf("answer is %.100q, want %q", got, tt.want)
			}
			hasty.answersInTheEnd()
		})
	}
	for _, h := range []*harness{patient, hasty} {
		select {
		case call := <-h.fake.calls:
			t.Errorf("supervisor was asked %q", call)
		default:
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	h := newHarness(t)
	before := runtime.NumGoroutine()
	conns := make([]net.Conn, 0, 1000)
	for range cap(conns) {
		conns = append(conns, h.dial())
	}
	refused := 0
	for _, conn := range conns[maxConnections:] {
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("answer is %s, want 503", answer.Status)
		}
		refused++
	}
	if refused != len(conns)-maxConnections {
		t.Errorf("%d connections refused, want %d", refused, len(conns)-maxConnections)
	}
	if n := runtime.NumGoroutine() - before; n > 2*maxConnections {
		t.Errorf("%d goroutines for %d connections", n, maxConnections)
	}
	for _, conn := range conns {
		conn.Close()
	}
	h.answersInTheEnd() // the server notices in its own time
}

// TestForeignUserIsRefused connects as another user: the test binary, run as that user, is the
// client.
func TestForeignUserIsRefused(t *testing.T) {
	const otherUID = 65534
	if path := os.Getenv("SUPERD_TEST_SOCKET"); path != "" {
		_, err := control.NewClient(path).Command(t.Context(), "stop", []string{"web"}, true, 0)
		fmt.Println(err)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	h := newHarness(t)
	// A separate directory: the other user may not enter those of the test.
	dir, err := os.MkdirTemp("", "superd-peer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary, socket := filepath.Join(dir, "client"), filepath.Join(dir, control.SocketName)
	for _, step := range []error{os.Chmod(dir, 0o755), os.WriteFile(binary, self, 0o755), os.Chmod(binary, 0o755)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = h.server.Serve(l) }()
	as := func(uid uint32) string {
		cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^TestForeignUserIsRefused$")
		cmd.Env = append(os.Environ(), "SUPERD_TEST_SOCKET="+socket, "TMPDIR=/tmp")
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("run client as %d: %v\n%s", uid, err, out)
		}
		return string(out)
	}
	if out := as(otherUID); !strings.Contains(out, "user "+strconv.Itoa(otherUID)+" may not control this superd") {
		t.Errorf("client of another user got %q", out)
	}
	select {
	case call := <-h.fake.calls:
		t.Errorf("supervisor was asked %q by another user", call)
	default:
	}
	if out := as(0); strings.Contains(out, "may not") {
		t.Errorf("client of root got %q", out)
	}
	h.called("stop [web] wait=true")
}
