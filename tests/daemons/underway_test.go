package daemons

import (
	"io"
	"net/http"
	"strings"

	"superd/tests/harness"
)

// backend serves HTTP in the machine. An answer to /slow comes when release is called; received
// says that the request has arrived. All other requests are answered at once, by the address.
func (m *machine) backend(address string) (received <-chan bool, release func()) {
	arrived, released := make(chan bool, 1), make(chan bool)
	server := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			io.WriteString(w, address)
			return
		}
		arrived <- true
		<-released
		io.WriteString(w, "slow answer")
	})}
	go server.Serve(m.listen(address))
	m.T.Cleanup(func() { server.Close() })
	return arrived, func() { close(released) }
}

// answers stops the daemon while a request is under way, which release lets end. It is answered.
func (m *machine) answers(request func() error, received <-chan bool, release func()) {
	m.T.Helper()
	answer := make(chan error, 1)
	go func() { answer <- request() }()
	select {
	case <-received:
	case err := <-answer:
		m.T.Fatalf("the request was to be under way, it ends with %v", err)
	}
	m.MustCtl("stop", "--no-wait", m.name)
	if st := m.Status(m.name); st.State != "stopping" {
		m.T.Errorf("%v, want it to wait for the request", st)
	}
	release()
	if err := <-answer; err != nil {
		m.T.Errorf("the request under way at the stop: %v", err)
	}
	m.stopped(m.name)
}

// refusesRestart shows that a mistake in a file of the daemon's configuration prevents a restart of
// a daemon that has no reload. The answer has the words of the daemon.
func (m *machine) refusesRestart(name, mistake, words string) {
	m.T.Helper()
	pid, good := m.pid(), m.read(name)
	m.write(name, good+mistake)
	if r := m.Ctl("restart", m.name); r.Exit != 1 || !strings.Contains(r.ErrOut, words) {
		m.T.Errorf("restart with a mistake: exit status %d, %q, want 1 and %q", r.Exit, r.ErrOut, words)
	}
	m.write(name, good)
	if now := m.pid(); now != pid {
		m.T.Errorf("after a refusal it is process %d, %d before", now, pid)
	}
}

// healthy waits until the daemon has passed a health check.
func (m *machine) healthy() {
	m.T.Helper()
	m.WaitStatus(m.name, "healthy", func(st harness.Status) bool {
		return st.HealthCheck != nil && st.HealthCheck.Passed != nil && *st.HealthCheck.Passed
	})
}
