package tests

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// A webServer is a running `superd web`.
type webServer struct {
	t      testing.TB
	url    string
	token  string
	errOut *harness.Output
	end    func() (exit int)
}

// startWeb starts `superd web` with more arguments and waits until it listens.
func startWeb(t *testing.T, s *harness.Site, args ...string) *webServer {
	t.Helper()
	cmd := s.Command(append([]string{"web", "-c", s.Config, "--token-file", s.Path("token")}, args...)...)
	errOut := new(harness.Output)
	cmd.Stderr = errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceValue(func() int {
		end(cmd)
		return cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() { end() })
	errOut.Wait(t, "superd: pages at ")
	_, rest, _ := strings.Cut(errOut.String(), "superd: pages at ")
	url, _, _ := strings.Cut(rest, "/;")
	return &webServer{t, url, strings.TrimSpace(s.Read("token")), errOut, end}
}

// do makes a request with a token and returns status and body.
func (w *webServer) do(method, path, token string) (status int, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// events passes on the events of a stream after a cursor, until the connection ends.
func (w *webServer) events(ctx context.Context, last string, got chan<- map[string]any) {
	r, err := http.NewRequestWithContext(ctx, "GET", w.url+"/stream?cursor=0", nil)
	if err != nil {
		w.t.Error(err)
		return
	}
	r.Header.Set("Authorization", "Bearer "+w.token)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return // the test has ended
	}
	defer answer.Body.Close()
	lines, kind := bufio.NewScanner(answer.Body), ""
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if k, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kind = k
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && kind == "event" {
			event := map[string]any{}
			err := json.Unmarshal([]byte(data), &event)
			if ctx.Err() != nil {
				return // the scanner takes the part of a line that has come for a line
			}
			if err != nil {
				w.t.Error(err)
			}
			got <- event
		}
	}
}

// TestWeb: the pages show and change programs for those who have a token, and no event is missed
// when superd is killed or upgraded and when the page comes back.
func TestWeb(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[web]
		listen = "127.0.0.1:9"
		viewer_token_file = "viewer"
		[program.crashes]
		command = ["sh", "-c", "echo some output; exit 3"]
		backoff = { initial = "20ms", max = "20ms" }
		[program.stays]
		command = "sleep infinity"
		`)
	s.BuildUI()
	d := s.Start()
	w := startWeb(t, s, "--listen", "127.0.0.1:0")
	viewer := strings.TrimSpace(s.Read("viewer"))
	if got := w.errOut.String(); strings.Count(got, "superd: made a token in ") != 2 || strings.Contains(got, w.token) {
		t.Errorf("it printed %s", got)
	}
	s.WaitState("stays", "running")
	if status, body := w.do("GET", "/api/v1/status?name=stays", viewer); status != 200 || !strings.Contains(body, `"state":"running"`) {
		t.Errorf("status for a viewer: %d, %s", status, body)
	}
	if status, body := w.do("POST", "/api/v1/programs/stays/restart", viewer); status != 403 {
		t.Errorf("a restart by a viewer: %d, %s", status, body)
	}
	before := s.Status("stays").Pid
	if status, body := w.do("POST", "/api/v1/programs/stays/restart", w.token); status != 200 || s.Status("stays").Pid == before {
		t.Errorf("a restart: %d, %s", status, body)
	}
	if status, body := w.do("GET", "/logs/download?instance=crashes", viewer); status != 200 || !strings.Contains(body, "some output\n") {
		t.Errorf("a log: %d, %.100s", status, body)
	}
	if status, body := w.do("GET", "/metrics", viewer); status != 200 || !strings.Contains(body, "\nsuperd_up 1\n") {
		t.Errorf("metrics: %d, %.100s", status, body)
	}

	events := make(chan map[string]any, 100_000)
	ctx, cancel := context.WithCancel(t.Context())
	go w.events(ctx, "", events)
	last := 0.0
	follow := func(what string, ok func(map[string]any) bool) {
		t.Helper()
		for timeout := time.After(harness.Deadline); ; {
			select {
			case e := <-events:
				cursor, _ := e["cursor"].(float64)
				lost, _ := e["lost"].(float64)
				if cursor-lost != last+1 {
					t.Fatalf("event %v follows %v: %v", cursor, last, e)
				}
				if last = cursor; ok(e) {
					return
				}
			case <-timeout:
				t.Fatalf("no event: %s", what)
			}
		}
	}
	superd := func(state string) func(map[string]any) bool {
		return func(e map[string]any) bool { return e["kind"] == "superd" && e["state"] == state }
	}
	follow("the first start", superd("started"))
	d.Kill()
	d = s.Start()
	follow("the start after kill -9", superd("started"))
	s.MustCtl("upgrade", "--binary", s.BuildVersion("two", "2.0"))
	follow("the start after the upgrade", superd("started"))
	cancel()
	restarts := s.Status("crashes").Restarts
	s.WaitStatus("crashes", "restarts while no page is open", func(st harness.Status) bool { return st.Restarts > restarts+3 })
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	events = make(chan map[string]any, 100_000) // the one before may have later events
	go w.events(ctx, fmt.Sprint(last), events)
	n := 0
	follow("five more", func(map[string]any) bool { n++; return n == 5 })

	d.Signal(syscall.SIGTERM)
	d.Wait()
	if status, body := w.do("GET", "/api/v1/status", w.token); status != 503 || !strings.Contains(body, "no superd answers") {
		t.Errorf("without superd: %d, %s", status, body)
	}
	if exit := w.end(); exit != 0 {
		t.Errorf("exit status %d\n%s", exit, w.errOut)
	}
	if got := w.errOut.String(); !strings.Contains(got, "path=/v1/programs/stays/restart") || !strings.Contains(got, "by=operator") {
		t.Errorf("the restart is not in its messages:\n%s", got)
	}
}

// TestWebRefuses: what cannot be meant, or is not safe, is refused with a remedy.
func TestWebRefuses(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, laterOnly)
	if r := s.Run("web"); r.Exit != 1 || !strings.Contains(r.ErrOut, "no superd-ui beside") {
		t.Errorf("without superd-ui: exit status %d, %q", r.Exit, r.ErrOut)
	}
	s.BuildUI()
	s.Write("other.toml", "[web]\nlisten = '0.0.0.0:9001'\n")
	s.Write("open", "a token that everybody has read\n")
	s.Chmod("open", 0o644)
	s.Write("cert.pem", "none")
	s.Write("same", "a token of 16 characters or more\n")
	s.Write("secret", "the-token-of-16-or-more\n")
	s.Chmod("secret", 0o600)
	token := []string{"--token-file", s.Path("secret")}
	for _, tt := range []struct {
		args   []string
		exit   int
		errOut string
	}{
		{append(token, "--listen", "0.0.0.0:0"), 1, "others could read the token on the way: name a certificate"},
		{append(token, "--listen", "9001"), 2, "write HOST:PORT"},
		{[]string{"-c", "other.toml"}, 2, "other.toml:2:10: web.listen: 0.0.0.0 is beyond the loopback interface"},
		{[]string{"-c", "none.toml"}, 2, "none.toml"},
		{[]string{"--token-file", s.Path("open")}, 1, "others may read or change"},
		{[]string{"--token-file", s.Path("same")}, 1, "others may read or change"},
		{append(token, "--viewer-token-file", s.Path("secret")), 2, "hold the same one"},
		{append(token, "--tls-cert", s.Path("cert.pem")), 2, "tls-key"},
		{append(token, "--tls-cert", s.Path("cert.pem"), "--tls-key", s.Path("cert.pem")), 1, "read certificate"},
		{append(token, "--host", "-oProxyCommand=x"), 2, "not a host"},
		{append(token, "extra"), 2, "unknown command"},
		{append(token, "--lisen", "x"), 2, "unknown flag"},
	} {
		r := s.Run(append([]string{"web"}, tt.args...)...)
		if r.Exit != tt.exit || !strings.Contains(r.ErrOut, tt.errOut) || !strings.HasPrefix(r.ErrOut, "superd: ") {
			t.Errorf("%q: exit status %d, %q; want %d, %q", tt.args, r.Exit, r.ErrOut, tt.exit, tt.errOut)
		}
	}
}

// writeCertificate writes a certificate for a name with a serial number, and its key.
func writeCertificate(t *testing.T, s *harness.Site, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	s.Write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})))
	s.Write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
}

// TestWebTLS: with a certificate it may listen everywhere, and takes a new one while it runs.
func TestWebTLS(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, laterOnly)
	s.BuildUI()
	writeCertificate(t, s, 1)
	w := startWeb(t, s, "--listen", "0.0.0.0:0", "--tls-cert", s.Path("cert.pem"), "--tls-key", s.Path("key.pem"))
	port := w.url[strings.LastIndexByte(w.url, ':')+1:]
	serial := func() (n int64, cookie string) {
		client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // made by this test
		answer, err := client.Post("https://127.0.0.1:"+port+"/login", "application/json", strings.NewReader(fmt.Sprintf(`{"token":%q}`, w.token)))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.ProtoMajor != 2 {
			t.Errorf("it speaks %s", answer.Proto)
		}
		return answer.TLS.PeerCertificates[0].SerialNumber.Int64(), answer.Header.Get("Set-Cookie")
	}
	if n, cookie := serial(); n != 1 || !strings.Contains(cookie, "; Secure;") {
		t.Errorf("serial number %d, cookie %q", n, cookie)
	}
	writeCertificate(t, s, 2)
	harness.Until(t, "it has the new certificate", func() bool { n, _ := serial(); return n == 2 })
	s.Write("cert.pem", "none")
	w.errOut.Wait(t, "") // it lives
	if n, _ := serial(); n != 2 {
		t.Errorf("after a broken certificate: serial number %d", n)
	}
}

// TestWebHosts: the pages of one server show programs of several hosts, and one that fails is told.
func TestWebHosts(t *testing.T) {
	t.Parallel()
	s := hostsSite(t)
	s.BuildUI()
	s.Env = append(s.Env, "SUPERD_SSH="+s.Path("ssh"))
	w := startWeb(t, s, "--listen", "127.0.0.1:0", "--host", "local,admin@a,b,down")
	if _, body := w.do("GET", "/session", w.token); !strings.Contains(body, `"hosts":["local","admin@a","b","down"]`) {
		t.Errorf("session: %s", body)
	}
	for path, want := range map[string]string{
		"/api/v1/status": `"name":"web"`, "/api/local/v1/status": `"name":"web"`, "/api/admin@a/v1/status": `"name":"web"`,
		"/api/b/v1/status": `"name":"db"`, "/api/down/v1/status": "Connection refused", "/api/none/v1/status": "no host is named",
	} {
		for range 2 { // the second time with the connection of the first
			if _, body := w.do("GET", path, w.token); !strings.Contains(body, want) {
				t.Errorf("%s: %s, want %s", path, body, want)
			}
		}
	}
	if status, body := w.do("POST", "/api/b/v1/programs/old/start", w.token); status != 200 || !strings.Contains(body, `"ok":true`) {
		t.Errorf("a start on another host: %d, %s", status, body)
	}
}

// TestWebAsProgram: superd runs its pages as a program, under a user who may do only that.
func TestWebAsProgram(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can run programs as other users")
	}
	s := harness.NewSite(t, `
		[control]
		operators = ["daemon"]
		[program.web]
		command = ["superd", "web", "--runtime-dir", "DIR/run", "--listen", "127.0.0.1:0", "--token-file", "DIR/state/token"]
		user = "daemon"
		ready = { line = "pages at" }
		[program.later]
		command = "sleep infinity"
		autostart = false
		`)
	s.BuildUI()
	s.Mkdir("state")
	if err := os.Chown(s.Path("state"), 1, 1); err != nil {
		t.Fatal(err)
	}
	s.Chmod("state", 0o700)
	s.Start()
	s.WaitState("web", "running")
	log := s.WaitLog("web", "pages at")
	_, rest, _ := strings.Cut(log, "superd: pages at ")
	url, _, _ := strings.Cut(rest, "/;")
	w := &webServer{t: t, url: url, token: strings.TrimSpace(s.Read("state/token"))}
	if status, body := w.do("POST", "/api/v1/programs/later/start", w.token); status != 200 || !strings.Contains(body, `"ok":true`) {
		t.Errorf("a start: %d, %s\n%s", status, body, log)
	}
}
