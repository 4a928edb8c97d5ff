package main

import (
	"testing"
	"time"

	"superd/control"
)

func TestShortForms(t *testing.T) {
	tests := []struct{ got, want string }{
		{age(-time.Hour), "0s"},
		{age(99*time.Second + 999*time.Millisecond), "99s"},
		{age(100 * time.Second), "1m"},
		{age(100 * time.Minute), "1h"},
		{age(47*time.Hour + 59*time.Minute), "47h"},
		{age(48 * time.Hour), "2d"},
		{cpuTime(0), "0.00s"},
		{cpuTime(9.994), "9.99s"},
		{cpuTime(12.34), "12.3s"},
		{cpuTime(125), "2m05s"},
		{cpuTime(6000), "1h40m"},
		{memory(0), "0.0K"},
		{memory(1 << 20), "1.0M"},
		{memory(150 << 20), "150M"},
		{memory(999 << 10), "999K"},
		{memory(1000 << 10), "1.0M"},
		{memory(3 << 40), "3.0T"},
		{memory(3000 << 40), "3000T"},
		{count(0, "mistake"), "no mistakes"},
		{count(1, "mistake"), "1 mistake"},
		{count(2, "mistake"), "2 mistakes"},
	}
	for i, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("case %d: got %q, want %q", i, tt.got, tt.want)
		}
	}
}

func TestLastWords(t *testing.T) {
	now := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		s    control.Status
		want string
	}{
		{"a running program shows its line", control.Status{State: "running", LastLine: new("hello"), Reason: new("started")}, "hello"},
		{"a failed one says why", control.Status{State: "failed", LastLine: new("oops"), Reason: new("exit status 3")}, "(exit status 3) oops"},
		{"why without a line", control.Status{State: "backoff", Reason: new("no such file")}, "(no such file)"},
		{"what it says of itself", control.Status{State: "running", LastLine: new("hello"), StatusText: new("3 clients")}, "[3 clients] hello"},
		{"it is not well", control.Status{State: "running", Healthy: new(false), HealthCheck: &control.HealthCheck{Reason: new("connection refused")}}, "(unhealthy: connection refused)"},
		{"its log takes nothing", control.Status{State: "running", LastLine: new("hello"), LogOutage: &control.LogOutage{Since: now.Add(-5 * time.Second), Reason: "write /l: no space left on device"}},
			"(no log for 5s: write /l: no space left on device) hello"},
		{"nothing", control.Status{State: "stopped"}, ""},
		{"escapes are harmless", control.Status{State: "running", LastLine: new("\x1b[2J\tx")}, `\x1b[2J x`},
	}
	for _, tt := range tests {
		if got := lastWords(&tt.s, now); got != tt.want {
			t.Errorf("%s: lastWords is %q, want %q", tt.name, got, tt.want)
		}
	}
}
