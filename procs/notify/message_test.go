package notify

import (
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"superd/internal/terminal"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, datagram string
		want           Message
		err            string
	}{
		{"readiness", "READY=1", Message{Ready: true}, ""},
		{"with a status", "READY=1\nSTATUS=serving 3 clients\n", Message{Ready: true, HasStatus: true, Status: "serving 3 clients"}, ""},
		{"an empty status", "STATUS=", Message{HasStatus: true}, ""},
		{"a status with a =", "STATUS=a=b", Message{HasStatus: true, Status: "a=b"}, ""},
		{"the end", "STOPPING=1\nERRNO=2", Message{Stopping: true, Errno: syscall.ENOENT}, ""},
		{"main process", "MAINPID=4711", Message{MainPID: 4711}, ""},
		{"more time", "EXTEND_TIMEOUT_USEC=2500000", Message{ExtendTimeout: 2500 * time.Millisecond}, ""},
		{"watchdog", "WATCHDOG=1", Message{Watchdog: true}, ""},
		{"watchdog triggered", "WATCHDOG=trigger", Message{WatchdogTrigger: true}, ""},
		{"watchdog period", "WATCHDOG_USEC=1000000", Message{WatchdogPeriod: time.Second}, ""},
		{"reload", "RELOADING=1\nMONOTONIC_USEC=5000000", Message{Reloading: true, Monotonic: 5 * time.Second}, ""},
		{"barrier", "BARRIER=1", Message{Barrier: true}, ""},
		{"what is not known", "FDSTORE=1\nFDNAME=x\nX_OWN=1\nREADY", Message{}, ""},
		{"the first counts", "STATUS=a\nSTATUS=b", Message{HasStatus: true, Status: "a"}, ""},
		{"not 1", "READY=0\nSTOPPING=yes\nRELOADING=1 ", Message{}, ""},
		{"nothing", "", Message{}, ""},
		{"a NUL at the end", "READY=1\x00", Message{Ready: true}, ""},
		{"a NUL within", "READY=1\x00\nSTOPPING=1", Message{}, "parse message: it contains a NUL byte"},
		{"init", "MAINPID=1", Message{}, `parse message: "1" is not a value of MAINPID`},
		{"a negative pid", "READY=1\nMAINPID=-5", Message{Ready: true}, `parse message: "-5" is not a value of MAINPID`},
		{"no pid", "MAINPID=0x10", Message{}, `parse message: "0x10" is not a value of MAINPID`},
		{"too big a pid", "MAINPID=4294967298", Message{}, `parse message: "4294967298" is not a value of MAINPID`},
		{"more time than there is", "EXTEND_TIMEOUT_USEC=18446744073709551615", Message{}, `parse message: "18446744073709551615" is not a value of EXTEND_TIMEOUT_USEC`},
		{"garbage is cut", "ERRNO=\x1b" + strings.Repeat("x", 100), Message{}, `parse message: "\x1b` + strings.Repeat("x", 39) + `" is not a value of ERRNO`},
		{"terminal escapes", "STATUS=\x1b[2Jgone\x07", Message{HasStatus: true, Status: `\x1b[2Jgone\x07`}, ""},
		{"invalid UTF-8", "STATUS=a\xffb", Message{HasStatus: true, Status: `a\xffb`}, ""},
		{"a long status", "STATUS=" + strings.Repeat("ä", 1000), Message{HasStatus: true, Status: strings.Repeat("ä", maxStatus-1) + "…"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.datagram))
			text := ""
			if err != nil {
				text = err.Error()
			}
			if got != tt.want || text != tt.err {
				t.Errorf("Parse(%q) =\n%+v, %q, want\n%+v, %q", tt.datagram, got, text, tt.want, tt.err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"READY=1\nSTATUS=x\nMAINPID=12\nEXTEND_TIMEOUT_USEC=1\nWATCHDOG=1\nRELOADING=1\nMONOTONIC_USEC=1\nERRNO=2\nBARRIER=1",
		"STATUS=\x1b]0;title\x07\u202e", "STATUS=e\u0301\u0301", "=\n==\nREADY=1\x00", strings.Repeat("STATUS=\xe2\x80", 500),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, datagram []byte) {
		before := string(datagram)
		m, err := Parse(datagram)
		switch {
		case string(datagram) != before:
			t.Error("the datagram was changed")
		case !utf8.ValidString(m.Status) || strings.ContainsAny(m.Status, "\x1b\n\r\x00\x7f") || terminal.Width(m.Status) > maxStatus || len(m.Status) > 16*maxStatus:
			t.Errorf("status %q", m.Status)
		case m.MainPID < 0 || m.MainPID == 1 || m.ExtendTimeout < 0 || m.WatchdogPeriod < 0 || m.Monotonic < 0 || m.Errno > 4095:
			t.Errorf("%+v", m)
		case err != nil && (len(err.Error()) > 400 || strings.ContainsAny(err.Error(), "\x1b\n")):
			t.Errorf("error %q", err)
		}
	})
}
