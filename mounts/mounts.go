// Package mounts tells which file system a path lies on without touching that file system, which may hang.
//
// The kernel says what is mounted where; a [Table] reads that again when what it knows is a second old. Paths are taken as they are: who
// wants links to be followed follows them.
package mounts

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fresh is how long a reading of the kernel's table counts.
const fresh = time.Second

// A Table knows what is mounted where. Its methods may be called from any goroutine. The zero Table is ready to use.
type Table struct {
	mu     sync.Mutex
	readAt time.Time
	points map[string]uint64 // by mount points
}

// Device returns the number of the device, as the kernel makes it of major and minor, on which a path lies that need not exist. It is 0
// where the kernel's table can't be read.
func (t *Table) Device(path string) uint64 {
	points := t.current()
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if device, ok := points[at]; ok || len(at) <= 1 {
			return device
		}
	}
}

// IsPoint reports whether something is mounted at path.
func (t *Table) IsPoint(path string) bool {
	_, ok := t.current()[path]
	return ok
}

// current returns the devices by mount points. The map is never changed.
func (t *Table) current() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.points == nil || now.Sub(t.readAt) >= fresh {
		if text, err := read(); err == nil {
			t.points = parse(text)
		}
		t.readAt = now
	}
	return t.points
}

// parse returns the devices by mount points. Of those mounted at one point the last one counts, which is on top.
//
// Source: proc_pid_mountinfo(5).
func parse(text string) map[string]uint64 {
	points := make(map[string]uint64)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		first, second, _ := strings.Cut(fields[2], ":")
		major, err := strconv.ParseUint(first, 10, 32)
		minor, err2 := strconv.ParseUint(second, 10, 32)
		if err == nil && err2 == nil {
			points[Unescape(fields[4])] = deviceOf(uint32(major), uint32(minor))
		}
	}
	return points
}

// Unescape resolves the kernel's octal escapes of white space and backslashes in that table.
func Unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
