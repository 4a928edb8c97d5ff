package pidfd

import (
	"errors"
	"syscall"
	"testing"
)

func TestExitString(t *testing.T) {
	tests := []struct {
		name string
		exit Exit
		want string
	}{
		{"zero value is unknown", Exit{}, "exit status unknown"},
		{"success", Exit{Known: true}, "exit status 0"},
		{"failure", Exit{Known: true, Code: 3}, "exit status 3"},
		{"signal", Exit{Known: true, Signal: syscall.SIGKILL}, "killed by SIGKILL"},
		{"core", Exit{Known: true, Signal: syscall.SIGSEGV, Core: true}, "killed by SIGSEGV (core dumped)"},
		{"a signal without a name", Exit{Known: true, Signal: 40}, "killed by signal 40"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.exit.String(); got != tt.want {
				t.Errorf("%#v.String() = %q, want %q", tt.exit, got, tt.want)
			}
		})
	}
}

func TestExitSuccess(t *testing.T) {
	tests := []struct {
		name string
		exit Exit
		want bool
	}{
		{"status 0", Exit{Known: true}, true},
		{"status 1", Exit{Known: true, Code: 1}, false},
		{"a signal", Exit{Known: true, Signal: syscall.SIGTERM}, false},
		{"unknown", Exit{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.exit.Success(); got != tt.want {
				t.Errorf("%v.Success() = %v, want %v", tt.exit, got, tt.want)
			}
		})
	}
}

// TestExitFromKernel: both of the kernel's forms of an exit mean the same.
func TestExitFromKernel(t *testing.T) {
	tests := []struct {
		name         string
		wait         syscall.WaitStatus
		code, status int32
		want         Exit
	}{
		{"status 0", 0, cldExited, 0, Exit{Known: true}},
		{"status 42", 0x2a00, cldExited, 42, Exit{Known: true, Code: 42}},
		{"status 255", 0xff00, cldExited, 255, Exit{Known: true, Code: 255}},
		{"SIGKILL", 9, cldKilled, 9, Exit{Known: true, Signal: syscall.SIGKILL}},
		{"SIGSEGV and core", 0x8b, cldDumped, 11, Exit{Known: true, Signal: syscall.SIGSEGV, Core: true}},
		{"a real-time signal", 64, cldKilled, 64, Exit{Known: true, Signal: 64}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ExitOf(tt.wait); got != tt.want {
				t.Errorf("ExitOf(%#x) = %+v, want %+v", tt.wait, got, tt.want)
			}
			if got := exitOfChild(tt.code, tt.status); got != tt.want {
				t.Errorf("exitOfChild(%d, %d) = %+v, want %+v", tt.code, tt.status, got, tt.want)
			}
		})
	}
}

func TestErrorsWrapTheirCause(t *testing.T) {
	tests := []struct{ err, cause error }{
		{ErrGone, syscall.ESRCH},
		{ErrNotChild, syscall.ECHILD},
		{ErrUnsupported, errors.ErrUnsupported},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, tt.cause) {
			t.Errorf("errors.Is(%v, %v) = false, want true", tt.err, tt.cause)
		}
	}
}
