package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A Status is one object of GET /v1/status.
type Status struct {
	Name, Program, State string
	Groups               []string
	Ready                bool
	Healthy              *bool
	Pid                  int // 0 for null
	Since                *time.Time
	UptimeS              *float64 `json:"uptime_s"`
	Restarts             int
	Exit                 *ExitStatus
	NextStartInS         *float64 `json:"next_start_in_s"`
	CPUS                 *float64 `json:"cpu_s"`
	RSSBytes             *int64   `json:"rss_bytes"`
	LogFile              string   `json:"log_file"`
	StderrFile           string   `json:"stderr_file"`
	DroppedBytes         int64    `json:"dropped_bytes"`
	DroppedLines         int64    `json:"dropped_lines"`
	Autostart            bool
	Enablement           string
	LogOutage            *struct {
		Since  time.Time
		Reason string
		Drops  bool
	} `json:"log_outage"`
	LogSink     string `json:"log_sink"`
	LastLine    string `json:"last_line"`
	Reason      string
	StatusText  string `json:"status_text"`
	HealthCheck *struct {
		Passed   *bool
		Reason   string
		Failures int `json:"failures_in_row"`
	} `json:"health_check"`
}

// ExitStatus is how the last run ended.
type ExitStatus struct {
	Code   *int
	Signal *string
	At     *time.Time
	Known  bool
}

func (e *ExitStatus) String() string {
	switch {
	case e == nil:
		return "none"
	case e.Signal != nil:
		return *e.Signal
	case e.Code != nil:
		return fmt.Sprint(*e.Code)
	default:
		return "unknown"
	}
}

func (st Status) String() string {
	return fmt.Sprintf("%s: %s, pid %d, restarts %d, exit %v, last line %q, reason %q",
		st.Name, st.State, st.Pid, st.Restarts, st.Exit, st.LastLine, st.Reason)
}

// Socket returns the path of the control socket.
func (s *Site) Socket() string { return filepath.Join(s.RuntimeDir, "superd.sock") }

// Dial connects to the control socket.
func (s *Site) Dial() (net.Conn, error) { return net.Dial("unix", s.Socket()) }

// Request sends a request, such as POST /v1/reload, to the control socket and returns the answer.
func (s *Site) Request(method, path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), Deadline)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.Socket())
		},
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://superd"+path, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

func (s *Site) status() ([]Status, error) {
	code, body, err := s.Request("GET", "/v1/status")
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", code, body)
	}
	var all []Status
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, fmt.Errorf("decode %q: %w", body, err)
	}
	return all, nil
}

// All returns the status of every program.
func (s *Site) All() []Status {
	s.T.Helper()
	all, err := s.status()
	if err != nil {
		s.T.Fatalf("status: %v", err)
	}
	return all
}

// Status returns the status of one program.
func (s *Site) Status(name string) Status {
	s.T.Helper()
	all := s.All()
	i := slices.IndexFunc(all, func(st Status) bool { return st.Name == name })
	if i < 0 {
		s.T.Fatalf("status: no program %q among %v", name, all)
	}
	return all[i]
}

// WaitStatus waits until ok returns true for the status of a program, and returns that status.
func (s *Site) WaitStatus(name, what string, ok func(Status) bool) Status {
	s.T.Helper()
	var st Status
	if !within(func() bool { st = s.Status(name); return ok(st) }) {
		s.T.Fatalf("waiting until %s %s: is %v", name, what, st)
	}
	return st
}

// WaitState waits until a program is in the given state.
func (s *Site) WaitState(name, state string) Status {
	s.T.Helper()
	return s.WaitStatus(name, "is "+state, func(st Status) bool { return st.State == state })
}

// WaitAll waits until ok returns true for the status of every program.
func (s *Site) WaitAll(what string, ok func(Status) bool) {
	s.T.Helper()
	var all []Status
	not := func(st Status) bool { return !ok(st) }
	if !within(func() bool { all = s.All(); return !slices.ContainsFunc(all, not) }) {
		all = slices.DeleteFunc(all, ok)
		s.T.Fatalf("waiting until all are %s: %d are not, as %v", what, len(all), all[:min(len(all), 5)])
	}
}

// WaitRunning waits until every program is running, and returns their pids by name.
func (s *Site) WaitRunning() map[string]int {
	s.T.Helper()
	pids := make(map[string]int)
	s.WaitAll("running", func(st Status) bool { pids[st.Name] = st.Pid; return st.State == "running" })
	return pids
}

// Log returns the content of a program's default log file.
func (s *Site) Log(name string) string {
	s.T.Helper()
	return s.Read("log/" + name + ".log")
}

// WaitLog waits until the log of a program contains text, and returns the log.
func (s *Site) WaitLog(name, text string) string {
	s.T.Helper()
	var log string
	if !within(func() bool { log = s.Log(name); return strings.Contains(log, text) }) {
		s.T.Fatalf("waiting for %q in the log of %s, got %q", text, name, log)
	}
	return log
}
