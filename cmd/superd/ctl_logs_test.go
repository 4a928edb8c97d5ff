package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSinceTime(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	now := time.Date(2026, 3, 1, 8, 30, 0, 500, zone)
	tests := []struct{ text, want string }{
		{"", ""},
		{"10m", "10m"},
		{"2026-11-21T07:20:45.5Z", "2026-11-21T07:20:45.5Z"},
		{"07:20", "2026-03-01T07:20:00+02:00"},
		{"08:30:00", "2026-03-01T08:30:00+02:00"},
		{"08:31", "2026-02-28T08:31:00+02:00"}, // yesterday, since 08:31 is still to come today
		{"2026-02-03", "2026-02-03T00:00:00+02:00"},
		{"2026-02-03 19:33", "2026-02-03T19:33:00+02:00"},
		{"2026-02-03 19:33:05", "2026-02-03T19:33:05+02:00"},
		{"2026-02-03T19:33", "2026-02-03T19:33:00+02:00"},
		{"2026-02-03T19:33:05.25", "2026-02-03T19:33:05.25+02:00"},
	}
	for _, tt := range tests {
		if got, err := parseTime("since", "", tt.text, now); got != tt.want || err != nil {
			t.Errorf("wantedTime(%q) = %q, %v, want %q", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"yesterday", "25:00", "2026-02-30", "10", "07:20Z"} {
		if got, err := parseTime("since", "", text, now); err == nil || !strings.Contains(err.Error(), "read --since: want ") {
			t.Errorf("wantedTime(%q) = %q, %v, want an error that says how to write it", text, got, err)
		}
	}
}

// TestLogsFlagErrors checks that an error names the flag, whether superd or the command finds it.
func TestLogsFlagErrors(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"refused","parameter":"grep","problem":"missing closing )","remedy":"see"}`))
	}
	dir := superdStub(t, map[string]http.HandlerFunc{"/v1/status": fixed(200, onlyUp), "/v1/logs": refuse})
	for _, tt := range [][3]string{
		{"--grep", "(", "read --grep: missing"}, {"--since", "19.33", "read --since: want"},
		{"-n", "-1", "read --lines: want"}, {"-n", "-5", "read --lines: want"}, {"-n", "x", "read --lines: want"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), []string{"ctl", "--runtime-dir", dir, "logs", "db", tt[0], tt[1]}, &stdout, &stderr); status == 0 || !strings.Contains(stderr.String(), tt[2]) {
			t.Errorf("logs %s %s: status %d, %q, want %q", tt[0], tt[1], status, &stderr, tt[2])
		}
	}
}
