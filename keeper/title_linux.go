package keeper

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Titles of superd's processes, as ps(1) shows them.
const (
	frontTitle      = "superd: terminal"
	keeperTitle     = "superd: keeper"
	SupervisorTitle = "superd: supervisor"
)

// SetTitle makes ps(1) show the process's role and, if known, its runtime directory instead of its
// command line: "superd: keeper (/run/superd)". If the kernel refuses, nothing changes; only
// readers of ps(1) depend on it.
//
// It gives the kernel another address for the command line. Overwriting the old one would work only
// if that is long enough, and the environment behind it must stay, since processes are found by it.
//
// Source: prctl(2), PR_SET_MM_MAP, which needs no privilege; proc_pid_stat(5).
func SetTitle(role, runtimeDir string) {
	title := role
	if runtimeDir != "" {
		title += " (" + runtimeDir + ")"
	}
	text := append([]byte(title), 0)
	memory, err := unix.Mmap(-1, 0, len(text), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return
	}
	copy(memory, text)
	layout, err := readLayout()
	if err == nil {
		layout.argStart = uint64(uintptr(unsafe.Pointer(&memory[0])))
		layout.argEnd = layout.argStart + uint64(len(text))
		err = unix.Prctl(unix.PR_SET_MM, unix.PR_SET_MM_MAP, uintptr(unsafe.Pointer(&layout)), unsafe.Sizeof(layout), 0)
	}
	if err != nil {
		unix.Munmap(memory)
	}
	// Otherwise it stays mapped, since the kernel reads it on each access. A process sets few
	// titles.
}

// A layout is struct prctl_mm_map.
type layout struct {
	startCode, endCode, startData, endData uint64
	startBrk, brk, startStack              uint64
	argStart, argEnd, envStart, envEnd     uint64
	auxv                                   uint64
	auxvSize                               uint32
	exeFD                                  int32
}

// readLayout returns the addresses of the parts of this process's memory.
func readLayout() (l layout, err error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return layout{}, err
	}
	fields := strings.Fields(string(stat)[strings.LastIndexByte(string(stat), ')')+1:])
	const first = 3 // number of the field after the name, as counted in the manual page
	for _, part := range []struct {
		field int
		to    *uint64
	}{
		{26, &l.startCode}, {27, &l.endCode}, {28, &l.startStack}, {45, &l.startData}, {46, &l.endData},
		{47, &l.startBrk}, {48, &l.argStart}, {49, &l.argEnd}, {50, &l.envStart}, {51, &l.envEnd},
	} {
		if part.field-first >= len(fields) {
			return layout{}, fmt.Errorf("read /proc/self/stat: %d fields", len(fields)+first-1)
		}
		if *part.to, err = strconv.ParseUint(fields[part.field-first], 10, 64); err != nil {
			return layout{}, fmt.Errorf("read /proc/self/stat: %w", err)
		}
	}
	brk, _, _ := unix.RawSyscall(unix.SYS_BRK, 0, 0, 0)
	l.brk, l.exeFD = uint64(brk), -1
	return l, nil
}
