package report

import (
	"testing"
	"time"

	"superd/control"
	"superd/internal/terminal"
)

func TestShortForms(t *testing.T) {
	tests := []struct{ got, want string }{
		{Age(-time.Hour), "0s"},
		{Age(99*time.Second + 999*time.Millisecond), "99s"},
		{Age(100 * time.Second), "1m"},
		{Age(100 * time.Minute), "1h"},
		{Age(47*time.Hour + 59*time.Minute), "47h"},
		{Age(48 * time.Hour), "2d"},
		{CPUTime(0), "0.00s"},
		{CPUTime(9.994), "9.99s"},
		{CPUTime(12.34), "12.3s"},
		{CPUTime(125), "2m05s"},
		{CPUTime(6000), "1h40m"},
		{Memory(0), "0.0K"},
		{Memory(1 << 20), "1.0M"},
		{Memory(150 << 20), "150M"},
		{Memory(999 << 10), "999K"},
		{Memory(1000 << 10), "1.0M"},
		{Memory(3 << 40), "3.0T"},
		{Memory(3000 << 40), "3000T"},
		{Seconds(0.0000341), "34.1µs"},
		{Seconds(0.05799), "58ms"},
		{Seconds(0.34077), "341ms"},
		{Seconds(1.6249), "1.62s"},
		{Seconds(59.96), "1m"},
		{Seconds(90.4), "1m30s"},
		{Seconds(120), "2m"},
		{Seconds(7200), "2h"},
		{Seconds(123456.7), "34h17m37s"},
	}
	for i, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("case %d: got %q, want %q", i, tt.got, tt.want)
		}
	}
}

func TestReasonAndLastLine(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	outage := &control.LogOutage{Since: now.Add(-5 * time.Second), Reason: "write /l: no space left on device"}
	tests := []struct {
		name         string
		s            control.Status
		reason, line string
	}{
		{"a running program shows its line",
			control.Status{State: "running", LastLine: new("hello"), Reason: new("started")}, "", "hello"},
		{"a failed one says why",
			control.Status{State: "failed", LastLine: new("oops"), Reason: new("exit status 3")}, "exit status 3", "oops"},
		{"a starting one, too",
			control.Status{State: "starting", Reason: new("waits for READY=1")}, "waits for READY=1", ""},
		{"a stopping one, too",
			control.Status{State: "stopping", Reason: new("stopped by the operator")}, "stopped by the operator", ""},
		{"a reason of several lines",
			control.Status{State: "failed", Reason: new("one\ntwo")}, "one; two", ""},
		{"what it says of itself",
			control.Status{State: "running", LastLine: new("hello"), StatusText: new("3 clients")}, "", "[3 clients] hello"},
		{"it is not well",
			control.Status{State: "running", Healthy: new(false), HealthCheck: &control.HealthCheck{Reason: new("refused")}},
			"unhealthy: refused", ""},
		{"its log takes nothing",
			control.Status{State: "running", LastLine: new("hello"), LogOutage: outage, DroppedBytes: 9, DroppedLines: 2},
			"no log for 5s: write /l: no space left on device; 2 lines dropped", "hello"},
		{"its sandbox has a gap",
			control.Status{State: "running", SandboxWarnings: []string{"sandbox.landlock.read: not supported"}},
			"sandbox incomplete: sandbox.landlock.read: not supported", ""},
		{"nothing", control.Status{State: "stopped"}, "", ""},
		{"escapes are harmless",
			control.Status{State: "failed", LastLine: new("\x1b[2J\tx"), Reason: new("\u009b2J")}, `\u009b2J`, `\x1b[2J x`},
	}
	for _, tt := range tests {
		if got, line := Reason(&tt.s, now), LastLine(&tt.s); got != tt.reason || line != tt.line {
			t.Errorf("%s: reason %q, last line %q, want %q, %q", tt.name, got, line, tt.reason, tt.line)
		}
	}
}

// TestStatusTableFits checks that a narrow table drops the last lines before the reasons, and that
// it has no column of reasons if there are none.
func TestStatusTableFits(t *testing.T) {
	up := control.Status{Name: "web", State: "running", Pid: new(4711), LastLine: new("hello, world"), CPU: new(1.5), RSS: new(int64(1 << 20))}
	down := control.Status{Name: "db", State: "failed", Restarts: 5, LastLine: new("cannot connect to the server"),
		Reason: new("start limit hit: 5 failures within 1m: exit status 3 after 12ms")}
	tests := []struct {
		width int
		all   []control.Status
		want  string
	}{
		{0, []control.Status{up}, "" +
			"NAME  STATE    SINCE   PID  RESTARTS    CPU  MEMORY  LAST LINE\n" +
			"web   running         4711         0  1.50s    1.0M  hello, world\n"},
		{100, []control.Status{up, down}, "" +
			"NAME  STATE    SINCE   PID  RESTARTS    CPU  MEMORY  REASON                             LAST LINE\n" +
			"web   running         4711         0  1.50s    1.0M                                     hello, world\n" +
			"db    failed                       5                 start limit hit: 5 failures with…  cannot conn…\n"},
		{80, []control.Status{up, down}, "" +
			"NAME  STATE    SINCE   PID  REASON                                  LAST LINE\n" +
			"web   running         4711                                          hello, world\n" +
			"db    failed                start limit hit: 5 failures within 1m…  cannot conn…\n"},
		{40, []control.Status{up, down}, "" +
			"NAME  STATE    REASON\n" +
			"web   running\n" +
			"db    failed   start limit hit: 5 failu…\n"},
	}
	for _, tt := range tests {
		got := string(StatusTable(tt.all, time.Now(), nil).Text(terminal.Output{Width: tt.width}))
		if got != tt.want {
			t.Errorf("width %d:\n%swant\n%s", tt.width, got, tt.want)
		}
	}
}
