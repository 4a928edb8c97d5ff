package config

import (
	"reflect"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSignalNames: the table of names is the kernel's.
func TestSignalNames(t *testing.T) {
	for sig := syscall.Signal(1); sig < realtimeMin; sig++ {
		want := unix.SignalName(sig)
		if want == "" {
			want = strconv.Itoa(int(sig)) // glibc's own, without a name
		}
		if got := SignalName(sig); got != want {
			t.Errorf("SignalName(%d) = %q, want %q", sig, got, want)
		}
	}
}

func TestParseSignal(t *testing.T) {
	for in, want := range map[string]syscall.Signal{
		"SIGTERM": syscall.SIGTERM, "term": syscall.SIGTERM, " Usr1 ": syscall.SIGUSR1, "15": 15, "64": 64,
		"SIGRTMIN": 34, "rtmin+3": 37, "SIGRTMAX-1": 63, "SIGRTMAX": 64,
	} {
		if got, err := ParseSignal(in); got != want || err != nil {
			t.Errorf("ParseSignal(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "0", "-1", "65", "SIG", "SIGFOO", "SIGRTMIN-1", "SIGRTMIN+31", "SIGRTMIN3", "SIGRTMIN+", "SIGSIGTERM", "99999999999999999999"} {
		if got, err := ParseSignal(in); err == nil {
			t.Errorf("ParseSignal(%q) = %d, want an error", in, got)
		}
	}
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if got, err := ParseSignal(SignalName(sig)); got != sig || err != nil {
			t.Errorf("ParseSignal(%q) = %d, %v, want %d", SignalName(sig), got, err, sig)
		}
	}
}

func TestShownDurationsAndSizesReadTheSame(t *testing.T) {
	for shown, d := range map[string]time.Duration{
		"0s": 0, "1ns": 1, "100ms": 100 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "1m": time.Minute, "1h": time.Hour,
		"1h0m5s": time.Hour + 5*time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute, "20h": 20 * time.Hour,
	} {
		got, err := ParseDuration(shown)
		if err != nil || got != d || showDuration(d) != shown {
			t.Errorf("%v is shown as %q; ParseDuration(%q) = %v, %v", d, showDuration(d), shown, got, err)
		}
	}
	for shown, n := range map[string]int64{"0": 0, "1": 1, "999": 999, "1KB": 1000, "1KiB": 1024, "10MB": 10_000_000, "3GiB": 3 << 30, "2TB": 2e12} {
		got, err := parseSize(shown)
		if err != nil || got != n || showSize(n) != shown {
			t.Errorf("%d is shown as %q; parseSize(%q) = %d, %v", n, showSize(n), shown, got, err)
		}
	}
	for in, want := range map[string]int64{"1.5GB": 1_500_000_000, "1.5 kib": 1536, "0.0005KB": 0, "9223372036854775807": 1<<63 - 1, "7b": 7} {
		if got, err := parseSize(in); got != want || err != nil {
			t.Errorf("parseSize(%q) = %d, %v, want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "MB", "1.2.3MB", "0x10", "1/3", "1e3", "+1", "1_000", "9223372036854775808", "1M", "1XB", "1 000"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("parseSize(%q) = %d, want an error", in, got)
		}
	}
}

func TestNearest(t *testing.T) {
	candidates := []string{"command", "directory", "environment", "env_file", "restart", "web", "db", "stop_timeout", "start_timeout"}
	for name, want := range map[string]string{
		"comand": "command", "cmomand": "command", "COMMAND": "command", "commands": "command", "stop-timeout": "stop_timeout",
		"stoptimeout": "stop_timeout", "env": "environment", "wbe": "web", "dbb": "db", "xyz": "", "": "", "completely": "", "dir": "directory",
	} {
		if got := Nearest(name, candidates); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestInstances(t *testing.T) {
	for _, tt := range []struct {
		replicas int
		want     []string
	}{{1, []string{"web"}}, {3, []string{"web@1", "web@2", "web@3"}}} {
		p := &Program{Name: "web", Settings: &Settings{Replicas: tt.replicas}}
		if got := p.Instances(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("instances of %d replicas = %q, want %q", tt.replicas, got, tt.want)
		}
	}
}
