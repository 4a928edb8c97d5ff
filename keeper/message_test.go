package keeper

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/pidfd"
)

func TestExitLine(t *testing.T) {
	for _, exit := range []pidfd.Exit{
		{Known: true}, {Known: true, Code: 42}, {Known: true, Code: 255},
		{Known: true, Signal: unix.SIGKILL}, {Known: true, Signal: unix.SIGSEGV, Core: true},
	} {
		e := Exit{Pid: 812, Start: 1 << 40, Status: waitStatus(exit)}
		key, value := cut(e.line())
		got, ok := parseExit(value)
		if key != keyExited || !ok || got != e || got.Of() != exit {
			t.Errorf("%v is encoded as %q, decoded as %v, %v", exit, e.line(), got.Of(), ok)
		}
	}
	for _, bad := range []string{"", "1", "x,1,2", "1,x,2", "1,2,x", "1,2,3,4", "1,-2,3"} {
		if e, ok := parseExit(bad); ok {
			t.Errorf("parseExit(%q) = %v", bad, e)
		}
	}
}

func TestExitList(t *testing.T) {
	var l exitList
	for pid := range maxExits + 2 {
		l.add(Exit{Pid: pid, Start: 7, Status: syscall.WaitStatus(0)})
	}
	send := func() (count int, first string) {
		for {
			lines, sent := l.unsent()
			if lines == "" {
				return count, first
			}
			if first == "" {
				first, _, _ = strings.Cut(lines, "\n")
			}
			count += strings.Count(lines, "\n") + 1
			sent()
		}
	}
	if n, first := send(); n != maxExits || first != "X_SUPERD_EXITED=2,7,0" {
		t.Errorf("%d are sent, first %s, want the newest %d", n, first, maxExits)
	}
	if n, _ := send(); n != 0 {
		t.Errorf("%d are sent again", n)
	}
	l.acknowledge("2,7")
	l.acknowledge("3,8") // another process of that pid
	l.acknowledge("junk")
	l.add(Exit{Pid: 1, Start: 9})
	if n, first := send(); n != 1 || first != "X_SUPERD_EXITED=1,9,0" {
		t.Errorf("%d are sent, first %s, want the new one", n, first)
	}
	l.sent = 0 // the next supervisor
	if n, first := send(); n != maxExits || first != "X_SUPERD_EXITED=3,7,0" {
		t.Errorf("the next one gets %d, first %s", n, first)
	}
}
