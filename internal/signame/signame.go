// Package signame has the names of signals, as people write them.
package signame

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"superd/internal/words"
)

// names are the signal names of Linux by number, from 1 on. A configuration may be checked on
// another system, where the numbers differ or a name does not exist.
//
// Source: signal(7), the numbers of x86, arm and most others.
var names = [...]string{1: "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS",
	"SIGFPE", "SIGKILL", "SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT",
	"SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ",
	"SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS"}

// Real-time signals that glibc leaves to programs. Source: man 7 signal.
const (
	realtimeMin = 34
	realtimeMax = 64
)

// Parse parses a signal: "SIGTERM", "TERM", "15", "SIGRTMIN+3", "SIGRTMAX-1", in any case.
// The error suggests the most similar name.
func Parse(s string) (syscall.Signal, error) {
	name := strings.ToUpper(strings.TrimSpace(s))
	if number, err := strconv.Atoi(name); err == nil {
		if number < 1 || number > realtimeMax {
			return 0, fmt.Errorf("no signal has the number %.80q: they go from 1 to %d", s, realtimeMax)
		}
		return syscall.Signal(number), nil
	}
	name = "SIG" + strings.TrimPrefix(name, "SIG")
	if number := slices.Index(names[1:], name); number >= 0 {
		return syscall.Signal(number + 1), nil
	}
	if sig, ok := realtime(name); ok {
		return sig, nil
	}
	return 0, fmt.Errorf("unknown signal %.80q%s", s,
		words.DidYouMean(name, names[1:], `: write a name as "SIGTERM" or a number as "15"`))
}

func realtime(name string) (syscall.Signal, bool) {
	for _, base := range []struct {
		name   string
		number int
	}{{"SIGRTMIN", realtimeMin}, {"SIGRTMAX", realtimeMax}} {
		rest, ok := strings.CutPrefix(name, base.name)
		if !ok {
			continue
		}
		offset, err := 0, error(nil)
		if rest != "" {
			offset, err = strconv.Atoi(rest)
		}
		if err != nil || rest != "" && rest[0] != '+' && rest[0] != '-' {
			return 0, false
		}
		number := base.number + offset
		return syscall.Signal(number), realtimeMin <= number && number <= realtimeMax
	}
	return 0, false
}

// Name returns the name of a signal: SIGTERM, SIGRTMIN+3.
func Name(sig syscall.Signal) string {
	switch {
	case int(sig) < len(names):
		return names[sig]
	case sig < realtimeMin: // reserved by glibc, without names
		return strconv.Itoa(int(sig))
	}
	return "SIGRTMIN+" + strconv.Itoa(int(sig)-realtimeMin)
}

// All returns the names of signals, without those of real-time signals.
func All() []string { return slices.Clone(names[1:]) }
