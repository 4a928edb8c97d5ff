package web

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestHeaders: each answer has the headers that keep other pages and scripts out.
func TestHeaders(t *testing.T) {
	s := newSite(t)
	for _, r := range []request{
		{path: "/"}, {path: "/static/index.html"}, {path: "/static/none.js"}, {path: "/none"}, {path: "/session"},
		{path: "/api/v1/status"}, {path: "/api/v1/status", token: viewerToken}, {path: "/api/v1/version", token: "wrong"},
		{method: "POST", path: "/login", body: "{}"}, {method: "POST", path: "/logout"}, {method: "PUT", path: "/login"},
		{path: "/", host: "evil.example"}, {method: "POST", path: "/login", header: map[string]string{"Origin": "http://evil.example"}},
		{path: "/metrics", token: viewerToken}, {path: "/logs/download", token: viewerToken},
		{path: "/logs/download?instance=web", token: viewerToken},
		{path: "/api/v1/programs/../shutdown", token: operatorToken},
	} {
		answer, _ := s.do(r)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
				"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := answer.Header.Get(name); got != want {
				t.Errorf("%+v: %s: %s is %q, want %q", r, answer.Status, name, got, want)
			}
		}
		if answer.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%+v: other pages may read the answer", r)
		}
	}
}

// TestRoles: who may do what.
func TestRoles(t *testing.T) {
	s := newSite(t)
	readOnly := newSite(t, func(o *Options) { o.ReadOnly = true })
	for _, tt := range []struct {
		method, path          string
		none, viewer, operate int // statuses
		readOnly              int // for an operator of a server that changes nothing
	}{
		{"GET", "/", 200, 200, 200, 200},
		{"GET", "/api/v1/status", 401, 200, 200, 200},
		{"GET", "/api/local/v1/status", 401, 200, 200, 200},
		{"GET", "/api/other/v1/status", 401, 404, 404, 404},
		{"GET", "/api/v1/config", 401, 200, 200, 200},
		{"GET", "/api/v1/programs/web%2f1/why", 401, 200, 200, 200},
		{"GET", "/metrics", 401, 200, 200, 200},
		{"GET", "/logs/download?instance=web", 401, 200, 200, 200},
		{"POST", "/api/v1/programs/web/stop", 401, 403, 200, 403},
		{"POST", "/api/v1/programs/stop?name=web", 401, 403, 200, 403},
		{"POST", "/api/local/v1/programs/web/signal?signal=HUP", 401, 403, 200, 403},
		{"POST", "/api/v1/scale?scale=web=2", 401, 403, 200, 403},
		{"POST", "/api/v1/reload", 401, 403, 200, 403},
		// A browser may not do what lets superd execute something else, or end it
		{"POST", "/api/v1/shutdown", 401, 404, 404, 404},
		{"POST", "/api/v1/upgrade", 401, 404, 404, 404},
		{"POST", "/api/v1/programs/web/execute", 401, 404, 404, 404},
		{"POST", "/api/local/v1/programs/web/execute?command=id", 401, 404, 404, 404},
		{"POST", "/api/v1/programs/web/stop/../execute", 401, 404, 404, 404},
		{"POST", "/api/v1/programs/..%2f..%2fshutdown%3f/stop", 401, 403, 200, 403},
		{"GET", "/api/v1/programs/web/stop", 401, 404, 404, 404},
		{"GET", "/api/healthz", 401, 200, 200, 200},
		{"GET", "/api/local/readyz?name=web", 401, 200, 200, 200},
		{"GET", "/api/v1/notify", 401, 200, 200, 200},
		{"POST", "/api/v1/notify/mail/test", 401, 403, 200, 403},
		{"POST", "/api/v1/programs/web/disable", 401, 403, 200, 403},
		{"POST", "/api/v1/programs/enable?name=web", 401, 403, 200, 403},
	} {
		for _, by := range []struct {
			at    *site
			token string
			want  int
		}{{s, "", tt.none}, {s, viewerToken, tt.viewer}, {s, operatorToken, tt.operate}, {readOnly, operatorToken, tt.readOnly}} {
			answer, body := by.at.do(request{method: tt.method, path: tt.path, token: by.token})
			if answer.StatusCode != by.want {
				t.Errorf("%s %s with %q: %s, want %d\n%s", tt.method, tt.path, by.token, answer.Status, by.want, body)
			}
		}
	}
	for _, made := range append(s.requests, readOnly.requests...) {
		for _, never := range []string{"attach", "execute", "upgrade", "/v1/shutdown"} {
			if strings.Contains(made, never) {
				t.Errorf("superd got %s", made)
			}
		}
	}
}

// TestCallsAreAll: pages may make each request of superd, but for those that are as much as a login
// at the machine.
func TestCallsAreAll(t *testing.T) {
	text, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	never := []string{"POST /v1/programs/{name}/attach", "POST /v1/programs/{name}/execute", "POST /v1/shutdown", "POST /v1/upgrade"}
	var has, want []string
	for _, c := range calls() {
		has = append(has, c.method+" "+c.path)
	}
	path := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if p, ok := strings.CutPrefix(line, "  /"); ok {
			path = "/" + strings.TrimSuffix(p, ":")
		} else if line == "    get:" || line == "    post:" {
			want = append(want, strings.ToUpper(strings.Trim(line, " :"))+" "+path)
		}
	}
	want = slices.DeleteFunc(want, func(c string) bool { return slices.Contains(never, c) })
	slices.Sort(has)
	slices.Sort(want)
	if len(want) < 20 || !slices.Equal(has, want) {
		t.Errorf("pages may make\n%s\nsuperd answers\n%s", strings.Join(has, "\n"), strings.Join(want, "\n"))
	}
}

// TestChangesAreLogged: the log says what was asked, also by a form, on one line.
func TestChangesAreLogged(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	body := "name=web%1b[2J%0a&name=" + strings.Repeat("x", 2*maxLogged)
	s.do(request{method: "POST", path: "/api/v1/programs/stop?wait=1", body: body, token: operatorToken,
		header: map[string]string{"Content-Type": formType}})
	if got := log.String(); !strings.Contains(got, "wait=1") || !strings.Contains(got, "name=web%1B%5B2J%0A&name=xxx") ||
		!strings.Contains(got, "x...") || strings.Count(got, "\n") != 1 || len(got) > 2*maxLogged {
		t.Errorf("the log has %q", got)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) != 1 || !strings.HasSuffix(s.requests[0], body) {
		t.Errorf("superd got %.200q", s.requests)
	}
}

// TestPassesOn: superd gets the request, and the browser its answer.
func TestPassesOn(t *testing.T) {
	s := newSite(t)
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	for _, tt := range []struct {
		request
		status     int
		got, asked string
	}{
		{request{path: "/api/v1/programs/a%2fb%3f/why"}, 200, `{"path":"/v1/programs/a%2Fb%3F/why"}`, "GET /v1/programs/a%2Fb%3F/why"},
		{request{path: "/api/v1/events?since=7&lines=2"}, 200, "", "GET /v1/events?lines=2&since=7"},
		{request{method: "POST", path: "/api/v1/scale", body: "scale=web%3D2", header: form}, 200, `{"path":"/v1/scale"}`, "POST /v1/scale scale=web%3D2"},
		{request{method: "POST", path: "/api/v1/scale", body: "{}", header: map[string]string{"Content-Type": "application/json"}}, 415, "not a form", ""},
		{request{method: "POST", path: "/api/v1/scale", body: strings.Repeat("x", maxBodyBytes+1), header: form}, 413, "more than 65536 bytes", ""},
		{request{path: "/api/v1/version", token: "none of them at all"}, 403, "not the token", ""},
		{request{path: "/stream?cursor=x"}, 400, "not the number of an event", ""},
		{request{path: "/stream?host=b"}, 404, "no host is named", ""},
		{request{path: "/logs/stream?n=2001"}, 400, "n may be 0 to 2000", ""},
	} {
		if tt.token == "" {
			tt.token = operatorToken
		}
		s.requests = nil
		if answer, body := s.do(tt.request); answer.StatusCode != tt.status || !strings.Contains(body, tt.got) {
			t.Errorf("%s: %s, %s; want %d, %s", tt.path, answer.Status, body, tt.status, tt.got)
		}
		s.mu.Lock()
		if asked := strings.Join(s.requests, "\n"); asked != tt.asked {
			t.Errorf("%s: superd got %q, want %q", tt.path, asked, tt.asked)
		}
		s.mu.Unlock()
	}
	s.kill()
	if answer, body := s.do(request{path: "/api/v1/version", token: operatorToken}); answer.StatusCode != 503 ||
		!strings.Contains(body, "does not answer") || answer.Header.Get("Retry-After") == "" {
		t.Errorf("without superd: %s, %s", answer.Status, body)
	}
}

// TestOrigins: what pages of other servers may make a browser do.
func TestOrigins(t *testing.T) {
	s := newSite(t)
	cookie := s.login(operatorToken)
	for _, tt := range []struct {
		name, method, path string
		header             map[string]string
		status             int
	}{
		{"our page", "POST", "/api/v1/programs/web/stop", map[string]string{"Origin": s.url, "Sec-Fetch-Site": "same-origin"}, 200},
		{"our page in an old browser", "POST", "/api/v1/programs/web/stop", map[string]string{"Origin": s.url}, 200},
		{"curl", "POST", "/api/v1/programs/web/stop", nil, 200},
		{"a foreign page", "POST", "/api/v1/programs/web/stop", map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403},
		{"a foreign page in an old browser", "POST", "/api/v1/programs/web/stop", map[string]string{"Origin": "https://evil.example"}, 403},
		{"another port of this host", "POST", "/api/v1/programs/web/stop", map[string]string{"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, 403},
		{"a sandboxed page", "POST", "/api/v1/programs/web/stop", map[string]string{"Origin": "null"}, 403},
		{"login from a foreign page", "POST", "/login", map[string]string{"Origin": "https://evil.example"}, 403},
		{"a foreign page reads", "GET", "/api/v1/status", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403},
		{"another port of this host reads", "GET", "/api/v1/status", map[string]string{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}, 403},
		{"a link on a foreign page", "GET", "/", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200},
		{"a link to a log on a foreign page", "GET", "/logs/download?instance=web", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403},
		{"typed by the user", "GET", "/", map[string]string{"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200},
	} {
		answer, body := s.do(request{method: tt.method, path: tt.path, cookie: cookie, header: tt.header})
		if answer.StatusCode != tt.status {
			t.Errorf("%s: %s, want %d\n%s", tt.name, answer.Status, tt.status, body)
		}
	}
}

// TestNames: a name that leads here only because its owner says so is refused, whatever else the
// request has.
func TestNames(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Names = []string{"Superd.Example"} })
	for host, status := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:9001": 200, "[::1]:9001": 200, "[::1]": 200, "localhost": 200, "localhost:81": 200,
		"LOCALHOST.": 200, "superd.example": 200, "superd.example:443": 200, "SUPERD.example.": 200,
		"evil.example": 421, "evil.example:9001": 421, "localhost.evil.example": 421, "superd.example.evil": 421,
		"10.1.2.3": 421, "[2001:db8::1]:9001": 421, "127.0.0.1.nip.io": 421, "0x7f000001": 421, "2130706433": 421,
	} {
		// The browser believes that the page has the same origin
		header := map[string]string{"Origin": "http://" + host, "Sec-Fetch-Site": "same-origin"}
		for _, r := range []request{
			{path: "/session", host: host, header: header},
			{path: "/", host: host},
			{method: "POST", path: "/api/v1/programs/web/stop", token: operatorToken, host: host, header: header},
		} {
			if answer, _ := s.do(r); answer.StatusCode != status {
				t.Errorf("%s %s of %s: %s, want %d", r.method, r.path, host, answer.Status, status)
			}
		}
	}
}

// TestLogin: a token is exchanged for a cookie, which is as good until it ends.
func TestLogin(t *testing.T) {
	s := newSite(t)
	answer, _ := s.do(request{method: "POST", path: "/login", body: `{"token":"` + operatorToken + `"}`})
	if got := answer.Header.Get("Set-Cookie"); !strings.HasPrefix(got, "superd_session_9001=") ||
		!strings.HasSuffix(got, "; Path=/; Max-Age=604800; HttpOnly; SameSite=Strict") {
		t.Errorf("the cookie is %q", got)
	}
	for token, role := range map[string]string{operatorToken: `"operator"`, viewerToken: `"viewer"`} {
		cookie := s.login(token)
		if cookie == s.login(token) {
			t.Error("two sessions have the same cookie")
		}
		if _, body := s.do(request{path: "/session", cookie: cookie}); body != `{"role":`+role+`,"read_only":false,"hosts":["local"],"version":"1"}`+"\n" {
			t.Errorf("session: %s", body)
		}
		if answer, _ := s.do(request{path: "/api/v1/version", cookie: cookie}); answer.StatusCode != 200 {
			t.Errorf("version with a cookie: %s", answer.Status)
		}
		if answer, _ := s.do(request{method: "POST", path: "/logout", cookie: cookie}); answer.StatusCode != 204 || answer.Cookies()[0].MaxAge >= 0 {
			t.Errorf("logout: %s, %v", answer.Status, answer.Cookies())
		}
		if answer, _ := s.do(request{path: "/api/v1/version", cookie: cookie}); answer.StatusCode != 401 {
			t.Errorf("version after the logout: %s", answer.Status)
		}
	}
	if _, body := s.do(request{path: "/session"}); body != `{"role":null,"read_only":false,"hosts":[],"version":""}`+"\n" {
		t.Errorf("session of nobody: %s", body)
	}
	for body, status := range map[string]int{`{"token":"wrong"}`: 403, `{"token":""}`: 403, `{}`: 403, `{`: 400, ``: 400} {
		if answer, text := s.do(request{method: "POST", path: "/login", body: body}); answer.StatusCode != status || len(answer.Cookies()) > 0 ||
			!strings.Contains(text, `"remedy":"`) {
			t.Errorf("login with %s: %s, %s", body, answer.Status, text)
		}
	}
}

// TestBehindProxy: a reverse proxy with https makes the cookie secure, and may have a login of its
// own.
func TestBehindProxy(t *testing.T) {
	s := newSite(t, func(o *Options) { o.Names = []string{"superd.example"} })
	answer, body := s.do(request{method: "POST", path: "/login", body: `{"token":"` + operatorToken + `"}`,
		host: "superd.example", header: map[string]string{"Origin": "https://superd.example"}})
	if len(answer.Cookies()) != 1 || !answer.Cookies()[0].Secure {
		t.Fatalf("login: %s, cookies %v, %s", answer.Status, answer.Cookies(), body)
	}
	a, made := s.web.auth, answer.Cookies()[0].Value
	who := a.read(made, time.Now())
	who.until = who.until.Add(-2 * renewAfter)
	answer, body = s.do(request{path: "/session", cookie: a.cookie.Name + "=" + a.write(who),
		header: map[string]string{"Authorization": "Basic dXNlcjpwYXNz"}})
	if !strings.Contains(body, `"role":"operator"`) || len(answer.Cookies()) != 1 || !answer.Cookies()[0].Secure {
		t.Errorf("a renewal: %s, cookies %v", body, answer.Cookies())
	}
}

// TestBodies: who has not logged in cannot make this server keep much.
func TestBodies(t *testing.T) {
	s := newSite(t)
	cookie := s.login(operatorToken)
	form := map[string]string{"Content-Type": formType}
	for _, tt := range []struct {
		token, cookie string
		size, status  int
	}{
		{"", "", maxLoginBytes, 401}, {"", "", maxLoginBytes + 1, 413}, {"wrong", "", maxLoginBytes + 1, 413},
		{"", cookie + "x", maxLoginBytes + 1, 413},
		{operatorToken, "", maxLoginBytes + 1, 200}, {"", cookie, maxBodyBytes, 200}, {"", cookie, maxBodyBytes + 1, 413},
	} {
		answer, body := s.do(request{method: "POST", path: "/api/v1/reload", body: strings.Repeat("x", tt.size),
			token: tt.token, cookie: tt.cookie, header: form})
		if answer.StatusCode != tt.status {
			t.Errorf("%+v: %s, %s", tt, answer.Status, body)
		}
	}
}

// TestCookie: a cookie is valid for one token and one role, for a time, and at a successor too.
func TestCookie(t *testing.T) {
	options := Options{Tokens: Tokens{operatorToken, viewerToken}, Log: slog.New(slog.DiscardHandler)}
	a, now := newAuth(options), time.Now()
	value := a.write(session{role: roleViewer, id: identity{1}, until: now.Add(time.Hour)})
	if got := newAuth(options).read(value, now); got.role != roleViewer || got.id != (identity{1}) {
		t.Errorf("a successor reads %+v", got)
	}
	if got := a.read(value, now.Add(2*time.Hour)); got.role != roleNone {
		t.Errorf("after its end: %+v", got)
	}
	for i := range value {
		for _, c := range "AB_" {
			changed := value[:i] + string(c) + value[i+1:]
			// The last character has bits that do not count
			if got := a.read(changed, now); changed != value && i < len(value)-1 && got.role != roleNone {
				t.Errorf("with %q at %d: %+v", c, i, got)
			}
		}
	}
	options.Tokens.Viewer = "another token of viewers"
	if got := newAuth(options).read(value, now); got.role != roleNone {
		t.Errorf("with another token: %+v", got)
	}
	options.Tokens.Viewer = ""
	none := newAuth(options)
	if got := none.read(none.write(session{role: roleViewer, until: now.Add(time.Hour)}), now); got.role != roleNone {
		t.Errorf("without viewers: %+v", got)
	}
	if got := a.read(a.write(session{role: roleNone, until: now.Add(time.Hour)}), now); got.role != roleNone {
		t.Errorf("the cookie of nobody: %+v", got)
	}
	for range 2 * maxRevoked {
		s := session{role: roleViewer, until: now.Add(time.Hour)}
		s.id = identity([]byte(a.write(s))[:16])
		a.revoke(s)
	}
	if len(a.revoked) > maxRevoked {
		t.Errorf("%d sessions are remembered", len(a.revoked))
	}
}

// TestRenewal: a page in use gets a newer cookie of its session. The older one stays good until its
// end, and a logout with either ends both.
func TestRenewal(t *testing.T) {
	s := newSite(t)
	a, cookie := s.web.auth, func(value string) string { return s.web.auth.cookie.Name + "=" + value }
	begun := session{role: roleViewer, id: identity{1}, until: time.Now().Add(sessionLife - 2*renewAfter)}
	old := a.write(begun)
	var renewed string
	for range 2 { // two tabs at a time
		answer, body := s.do(request{path: "/session", cookie: cookie(old)})
		if len(answer.Cookies()) != 1 || !strings.Contains(body, `"role":"viewer"`) {
			t.Fatalf("session: %s, cookies %v", body, answer.Cookies())
		}
		renewed = answer.Cookies()[0].Value
	}
	last := a.read(renewed, begun.until.Add(time.Minute))
	if last.role != roleViewer || last.id != begun.id {
		t.Errorf("the newer cookie: %+v", last)
	}
	s.do(request{method: "POST", path: "/logout", cookie: cookie(old)})
	for _, value := range []string{old, renewed} {
		if got := a.read(value, time.Now()); got.role != roleNone {
			t.Errorf("after the logout: %+v", got)
		}
	}
	if until := a.revoked[begun.id]; until.Before(last.until) {
		t.Errorf("the logout is forgotten at %v", until)
	}
}

// TestOneSessionTakesItsShare: a session that has many requests at a time holds up no other one.
func TestOneSessionTakesItsShare(t *testing.T) {
	s := newSite(t)
	viewer, operator := s.login(viewerToken), s.login(operatorToken)
	name, value, _ := strings.Cut(viewer, "=")
	id := s.web.auth.read(value, time.Now()).id
	if name == "" || id == (identity{}) {
		t.Fatalf("the cookie is %q", viewer)
	}
	status := func(cookie, path string) int {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		answer := s.open(ctx, request{path: path, cookie: cookie})
		answer.Body.Close()
		return answer.StatusCode
	}
	for s.web.requests.take(id) {
	}
	if got := status(viewer, "/api/v1/version"); got != 503 {
		t.Errorf("a request too many: %d", got)
	}
	if got := status(operator, "/api/v1/version"); got != 200 {
		t.Errorf("a request of another session: %d", got)
	}
	if got := status(viewer, "/api/v1/status/watch"); got != 200 {
		t.Errorf("an endless answer beside them: %d", got)
	}
}

// TestWrongTokens: an address that has sent many wrong tokens has to wait until it may send another
// one. Sessions and right tokens from there are as good as before.
func TestWrongTokens(t *testing.T) {
	s := newSite(t)
	cookie := s.login(operatorToken)
	for range maxFailures {
		if answer, _ := s.do(request{path: "/session", token: "wrong"}); answer.StatusCode == 429 {
			break
		}
		s.do(request{method: "POST", path: "/login", body: `{"token":"wrong"}`})
	}
	answer, body := s.do(request{path: "/api/v1/version", token: "wrong"})
	if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" || !strings.Contains(body, "try again in") {
		t.Errorf("one more wrong token: %s, %s", answer.Status, body)
	}
	if answer, body := s.do(request{path: "/api/v1/version", token: operatorToken}); answer.StatusCode != 200 {
		t.Errorf("the right token after many wrong ones: %s, %s", answer.Status, body)
	}
	s.login(operatorToken)
	if answer, _ := s.do(request{path: "/api/v1/version", cookie: cookie}); answer.StatusCode != 200 {
		t.Errorf("a session: %s", answer.Status)
	}
}

// TestThrottle: wrong tokens are forgotten with time, and take a bounded memory.
func TestThrottle(t *testing.T) {
	var one throttle
	from, now := netip.MustParsePrefix("192.0.2.1/32"), time.Now()
	for i := range 3 * maxFailures {
		if wait := one.wait(from, now); (wait > 0) != (i >= maxFailures) {
			t.Errorf("after %d wrong tokens: wait %v", i, wait)
		}
		if i < maxFailures {
			one.add(from, now)
		}
	}
	if wait := one.wait(from, now.Add(failureForgotten)); wait != 0 {
		t.Errorf("when one is forgotten: wait %v", wait)
	}
	if wait := one.wait(netip.MustParsePrefix("192.0.2.2/32"), now); wait != 0 {
		t.Errorf("another address: wait %v", wait)
	}
	address := netip.MustParseAddr("198.51.100.0")
	for range 3 * maxAddresses {
		address = address.Next()
		one.add(netip.PrefixFrom(address, 32), now)
	}
	if len(one.until) > maxAddresses {
		t.Errorf("%d addresses are remembered", len(one.until))
	}
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1/32", "[2001:db8::1:2:3:4]:80": "2001:db8::/64", "[::1]:80": "::1/128",
		"[::ffff:192.0.2.1]:80": "192.0.2.1/32", "[fe80::1%eth0]:80": "fe80::/64",
	} {
		if got := clientOf(&http.Request{RemoteAddr: remote}); got.String() != want {
			t.Errorf("client of %s is %s, want %s", remote, got, want)
		}
	}
}
