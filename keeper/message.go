package keeper

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"superd/pidfd"
)

// Messages between keeper and supervisor, in addition to those of sd_notify(3).
const (
	// To the supervisor: number of a signal that the keeper received
	keySignal = "X_SUPERD_SIGNAL"
	// To the keeper: number of such a signal that the supervisor handles now
	keySignalled = "X_SUPERD_SIGNALLED"
	// To the supervisor: number of a signal that a predecessor received, and for which superd must
	// end
	keyStop = "X_SUPERD_STOP"
	// To the supervisor: 1, its predecessor did not end in order
	keyResume = "X_SUPERD_RESUME"
	// To the supervisor: pid,start,status of a process that the keeper has reaped
	keyExited = "X_SUPERD_EXITED"
	// To the keeper: pid,start of an exit that the supervisor has recorded
	keyAcknowledge = "X_SUPERD_ACKNOWLEDGE"
	// To the keeper: 1, the supervisor is about to execute another binary; 0, it did not
	keyUpgrade = "X_SUPERD_UPGRADE"
	// Front process to keeper: 1, the terminal has hung up
	keyHangup = "X_SUPERD_HANGUP"
	// Keeper to front process: the runtime directory
	keyRuntimeDir = "X_SUPERD_RUNTIME_DIR"
	// To the keeper, and to the front process: superd ends for good, with this status
	keyExit = "X_SUPERD_EXIT"
)

// An Exit is the exit of a process that the keeper has reaped.
type Exit struct {
	Pid    int
	Start  uint64 // clock ticks since boot
	Status syscall.WaitStatus
}

// Of returns the exit in the form of package pidfd.
func (e Exit) Of() pidfd.Exit { return pidfd.ExitOf(e.Status) }

func (e Exit) line() string {
	return fmt.Sprintf("%s=%d,%d,%d", keyExited, e.Pid, e.Start, uint32(e.Status))
}

// parseExit parses the value of keyExited, or of keyAcknowledge, which has no status.
func parseExit(value string) (e Exit, ok bool) {
	fields := strings.Split(value, ",")
	if len(fields) < 2 || len(fields) > 3 {
		return Exit{}, false
	}
	pid, err1 := strconv.Atoi(fields[0])
	start, err2 := strconv.ParseUint(fields[1], 10, 64)
	status := uint64(0)
	var err3 error
	if len(fields) == 3 {
		status, err3 = strconv.ParseUint(fields[2], 10, 32)
	}
	return Exit{pid, start, syscall.WaitStatus(status)}, err1 == nil && err2 == nil && err3 == nil
}

// waitStatus returns an exit as a wait status of wait4(2).
func waitStatus(e pidfd.Exit) syscall.WaitStatus {
	status := syscall.WaitStatus(e.Code<<8) | syscall.WaitStatus(e.Signal)
	if e.Core {
		status |= 0x80
	}
	return status
}

func acknowledgeLine(pid int, start uint64) string {
	return fmt.Sprintf("%s=%d,%d", keyAcknowledge, pid, start)
}

func signalLine(sig syscall.Signal) string { return fmt.Sprintf("%s=%d", keySignal, int(sig)) }

func cut(line string) (key, value string) {
	key, value, _ = strings.Cut(line, "=")
	return key, value
}

// number returns the number in value, 0 if it is none.
func number(value string) int {
	n, _ := strconv.Atoi(value)
	return n
}
