// Package mounts finds the file system of a path without accessing that file system, which may
// hang.
//
// It uses the kernel's mount table; a [Table] reads that again when its copy is a second old. It
// does not resolve links in paths.
package mounts

import (
	"iter"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fresh is how long a copy of the kernel's table is used.
const fresh = time.Second

// A Table holds a copy of the mount table. Its methods may be called from any goroutine. The zero
// Table is ready to use.
type Table struct {
	mu     sync.Mutex
	readAt time.Time
	points map[string]uint64 // device by mount point
}

// Device returns the device number (as made from major and minor) of the file system of a path,
// which need not exist. It is 0 if the kernel's table can't be read.
func (t *Table) Device(path string) uint64 {
	points := t.current()
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if device, ok := points[at]; ok || len(at) <= 1 {
			return device
		}
	}
}

// IsPoint reports whether path is a mount point.
func (t *Table) IsPoint(path string) bool {
	_, ok := t.current()[path]
	return ok
}

// current returns the devices by mount point. The map is never changed.
func (t *Table) current() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.points == nil || now.Sub(t.readAt) >= fresh {
		if text, err := read(); err == nil {
			t.points = devices(text)
		}
		t.readAt = now
	}
	return t.points
}

// devices returns the devices by mount point. Of several mounts at one point the last one counts,
// which is on top.
func devices(text string) map[string]uint64 {
	points := make(map[string]uint64)
	for m := range Parse(text) {
		points[m.Point] = m.Device
	}
	return points
}

// A Mount is an entry of the kernel's mount table.
type Mount struct {
	Device  uint64
	Root    string // path within the file system
	Point   string
	Options string // of the mount, separated by commas
	Type    string // of the file system
}

// Parse returns the mounts in the text of a mountinfo file. It skips lines that it can't decode. A
// line may be of any length: an overlay has a path for each of its layers.
//
// Source: proc_pid_mountinfo(5).
func Parse(text string) iter.Seq[Mount] {
	return func(yield func(Mount) bool) {
		for line := range strings.Lines(text) {
			before, after, _ := strings.Cut(line, " - ")
			fields := strings.Fields(before)
			if len(fields) < 6 {
				continue
			}
			first, second, _ := strings.Cut(fields[2], ":")
			major, err := strconv.ParseUint(first, 10, 32)
			minor, err2 := strconv.ParseUint(second, 10, 32)
			if err != nil || err2 != nil {
				continue
			}
			kind, _, _ := strings.Cut(after, " ")
			m := Mount{deviceOf(uint32(major), uint32(minor)), unescape(fields[3]), unescape(fields[4]), fields[5], kind}
			if !yield(m) {
				return
			}
		}
	}
}

// unescape decodes the kernel's octal escapes of white space and backslashes in the table.
func unescape(s string) string {
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
