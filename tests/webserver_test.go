package tests

import (
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"superd/tests/harness"
)

// TestHTTPServer: a real HTTP server serves whenever superd shows it as ready, whatever happens to
// superd.
func TestHTTPServer(t *testing.T) {
	t.Parallel()
	url := "http://127.0.0.1:" + freePort(t) + "/"
	s := harness.NewSite(t, `
		[program.site]
		command = ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "`+strings.Trim(url[len("http://127.0.0.1:"):], "/")+`"]
		directory = "DIR/pages"
		ready = { http = "`+url+`", interval = "100ms" }
		health = { http = "`+url+`alive", interval = "200ms", timeout = "2s", failures = 2 }
		backoff.initial = "50ms"
		[program.reader]
		command = "sleep infinity"
		requires = ["site"]
		`)
	s.Mkdir("pages")
	s.Write("pages/index.html", "a page\n")
	s.Write("pages/alive", "yes\n")
	client := http.Client{Timeout: harness.Deadline, Transport: &http.Transport{DisableKeepAlives: true}}
	serves := func(when string) {
		t.Helper()
		response, err := client.Get(url)
		if err != nil {
			t.Fatalf("it is ready, %s: %v", when, err)
		}
		defer response.Body.Close()
		if page, err := io.ReadAll(response.Body); string(page) != "a page\n" || err != nil {
			t.Errorf("%s: %q, %v", when, page, err)
		}
	}
	d := s.Start()
	reader := s.WaitState("reader", "running").Pid
	serves("since its dependent is running")
	site := s.Status("site").Pid
	another := func(what string) {
		t.Helper()
		site = s.WaitStatus("site", what, func(st harness.Status) bool { return st.State == "running" && st.Pid != site }).Pid
		serves("after it " + what)
	}
	s.Kill(site, syscall.SIGKILL)
	another("was killed")

	s.Track(d.Pid).Kill()
	serves("while superd is dead")
	d.FindSupervisor()
	if st := s.WaitState("site", "running"); st.Pid != site {
		t.Errorf("superd was killed, and the server is another process: %v", st)
	}

	s.WaitStatus("site", "is healthy", func(st harness.Status) bool { return st.Healthy != nil && *st.Healthy })
	s.Kill(site, syscall.SIGSTOP)
	another("hung")
	s.WaitStatus("site", "is healthy", func(st harness.Status) bool { return st.Healthy != nil && *st.Healthy })
	s.Move("pages/alive", "pages/dead")
	another("answered with 404")
	s.Move("pages/dead", "pages/alive")
	if why := s.MustCtl("why", "site").Out; !strings.Contains(why, "HTTP 404") {
		t.Errorf("why site:\n%s", why)
	}
	if st := s.Status("reader"); st.Pid != reader {
		t.Errorf("crashes of what it requires have touched it: %v", st)
	}
}
