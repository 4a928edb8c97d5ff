package config

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// The real-time signals that glibc leaves to programs. Source: man 7 signal.
const (
	realtimeMin = 34
	realtimeMax = 64
)

// ParseSignal reads a signal: "SIGTERM", "TERM", "15", "SIGRTMIN+3", "SIGRTMAX-1", in any case. The error names the
// nearest signal.
func ParseSignal(s string) (syscall.Signal, error) {
	name := strings.ToUpper(strings.TrimSpace(s))
	if number, err := strconv.Atoi(name); err == nil {
		if number < 1 || number > realtimeMax {
			return 0, fmt.Errorf("no signal has the number %s: they go from 1 to %d", shorten(s), realtimeMax)
		}
		return syscall.Signal(number), nil
	}
	name = "SIG" + strings.TrimPrefix(name, "SIG")
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	if sig, ok := realtime(name); ok {
		return sig, nil
	}
	var names []string
	for sig := syscall.Signal(1); sig < realtimeMin; sig++ {
		if name := unix.SignalName(sig); name != "" {
			names = append(names, name)
		}
	}
	return 0, fmt.Errorf("unknown signal %s%s", shorten(s), didYouMean(name, names, `: write a name as "SIGTERM" or a number as "15"`))
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

func showSignal(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return "SIGRTMIN+" + strconv.Itoa(int(sig)-realtimeMin)
}
