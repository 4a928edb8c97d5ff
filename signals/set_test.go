package signals

import (
	"slices"
	"syscall"
	"testing"
)

func TestSet(t *testing.T) {
	tests := []struct {
		name    string
		set     set
		members []syscall.Signal
		text    string
	}{
		{"empty", 0, nil, ""},
		{"the first", only(1), []syscall.Signal{1}, "SIGHUP"},
		{"the last", only(maxSignal), []syscall.Signal{64}, "signal 64"},
		{"ascending", only(syscall.SIGUSR1) | only(40) | only(syscall.SIGHUP),
			[]syscall.Signal{1, 10, 40}, "SIGHUP, SIGUSR1, signal 40"},
		{"as the kernel shows it", 0x4001, []syscall.Signal{1, 15}, "SIGHUP, SIGTERM"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := slices.Collect(tt.set.all()); !slices.Equal(got, tt.members) {
				t.Errorf("set %#x has %v, want %v", uint64(tt.set), got, tt.members)
			}
			if got := tt.set.String(); got != tt.text {
				t.Errorf("set %#x is %q, want %q", uint64(tt.set), got, tt.text)
			}
		})
	}
}
