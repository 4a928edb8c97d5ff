package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"superd/tests/harness"
)

const stays = "[program.web]\ncommand = 'sleep infinity'\n"

// TestLogin: a token opens the pages, by the form or by the address, where it does not stay.
func TestLogin(t *testing.T) {
	s, _ := newSite(t, stays)
	b := newTab(t)
	b.expect("status of 403", "status of 401")
	b.open(s.url + "/")
	b.shows("login-form")
	b.fill("login-token", "not the token at all")
	b.click("login-submit")
	b.says("login-error", "not the token")
	b.fill("login-token", s.token)
	b.click("login-submit")
	b.shows("row-web")
	if cookie := value[string](b, "document.cookie"); cookie != "" {
		t.Errorf("scripts see the cookie %q", cookie)
	}
	if text := value[string](b, "JSON.stringify([localStorage, sessionStorage])"); strings.Contains(text, s.token) {
		t.Errorf("the token is kept: %s", text)
	}
	run(b, chromedp.Reload())
	b.shows("row-web")
	b.click("logout")
	b.shows("login-form")
	run(b, chromedp.Reload())
	b.shows("login-form")

	b.open("about:blank")
	b.open(s.url + "/#token=" + s.token)
	b.shows("row-web")
	if at := value[string](b, "location.href"); strings.Contains(at, s.token) {
		t.Errorf("the token stays in the address: %s", at)
	}
	// The server may be restarted: the session goes on
	address := strings.TrimPrefix(s.url, "http://")
	s.end()
	b.expect("Failed to load resource", "ERR_")
	s = serve(t, s.Site, address)
	run(b, chromedp.Reload())
	b.shows("row-web")
}

// TestForeignPages: a page of another server can neither read nor change anything, whatever name it
// has, though the browser has a session.
func TestForeignPages(t *testing.T) {
	s, _ := newSite(t, stays)
	port := s.url[strings.LastIndexByte(s.url, ':')+1:]
	b := newTab(t, chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"))
	b.expect("") // the browser says what it refuses
	b.enter(s)
	s.WaitState("web", "running")
	pid := s.Status("web").Pid

	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title><iframe></iframe><form method=post></form>")
	}))
	defer foreign.Close()
	foreignPort := foreign.URL[strings.LastIndexByte(foreign.URL, ':')+1:]
	for _, page := range []string{foreign.URL, "http://evil.example:" + foreignPort, "http://localhost:" + foreignPort} {
		b.open(page)
		for _, target := range []string{s.url, "http://localhost:" + port} {
			for _, options := range []string{
				"{credentials: 'include'}", "{credentials: 'include', mode: 'no-cors'}",
				"{method: 'POST', credentials: 'include'}", "{method: 'POST', credentials: 'include', mode: 'no-cors'}",
			} {
				path := "/api/v1/status"
				if strings.Contains(options, "POST") {
					path = "/api/v1/programs/web/stop"
				}
				got := value[string](b, fmt.Sprintf("fetch(%q, %s).then(r => r.text()).catch(() => '')", target+path, options))
				if got != "" {
					t.Errorf("%s reads from %s: %q", page, target+path, got)
				}
			}
		}
		// A form needs no script
		b.do(fmt.Sprintf("(document.forms[0].action = %q, document.forms[0].submit())", s.url+"/api/v1/programs/web/stop"))
		b.until("the form is answered", "document.body && document.body.textContent.includes('page of another server')")
		b.open(page)
		b.do(fmt.Sprintf("document.querySelector('iframe').src = %q", s.url+"/"))
		harness.Until(t, "the frame is refused", func() bool {
			return value[bool](b, "(() => { try { const d = document.querySelector('iframe').contentDocument; return d === null; } catch { return true; } })()")
		})
	}
	if now := s.Status("web"); now.Pid != pid || now.State != "running" {
		t.Errorf("the program is %s, pid %d: it was %d", now.State, now.Pid, pid)
	}
	// The name of a page of an attacker leads here now: for the browser both are the same server
	b.open("http://rebound.example:" + port + "/")
	b.until("the name is refused", `document.body.textContent.includes('this server has not the name \\"rebound.example\\"')`)
	got := value[string](b, "fetch('/login', {method: 'POST', body: '{}'}).then(r => r.status + '')")
	if got != "421" {
		t.Errorf("a login under a foreign name: %s, want 421", got)
	}
}
