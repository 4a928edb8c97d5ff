package keeper

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"superd/pidfd"
)

// What keeper and supervisor say to each other beside what sd_notify(3) has.
const (
	keySignal      = "X_SUPERD_SIGNAL"      // to the supervisor: the number of a signal that the keeper got
	keyResume      = "X_SUPERD_RESUME"      // to the supervisor: 1, it takes the place of one that did not come to an orderly end
	keyExited      = "X_SUPERD_EXITED"      // to the supervisor: pid,start,status of a process that the keeper has reaped
	keyAcknowledge = "X_SUPERD_ACKNOWLEDGE" // to the keeper: pid,start of one that the supervisor has noted
	keyUpgrade     = "X_SUPERD_UPGRADE"     // to the keeper: 1, the supervisor executes another binary next; 0, it has not
	keyExit        = "X_SUPERD_EXIT"        // to the keeper: the supervisor ends for good, with this status
)

// An Exit is the end of a process that the keeper has reaped.
type Exit struct {
	Pid    int
	Start  uint64 // clock ticks since boot
	Status syscall.WaitStatus
}

// Of returns how the process ended, as package pidfd has it.
func (e Exit) Of() pidfd.Exit { return pidfd.ExitOf(e.Status) }

func (e Exit) line() string {
	return fmt.Sprintf("%s=%d,%d,%d", keyExited, e.Pid, e.Start, uint32(e.Status))
}

// parseExit reads the value of keyExited, or that of keyAcknowledge, which has no status.
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

// waitStatus returns the wait status as of wait4(2) of an exit.
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

// number returns 0 for what is none.
func number(value string) int {
	n, _ := strconv.Atoi(value)
	return n
}
