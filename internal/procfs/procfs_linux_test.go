package procfs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/pidfd"
)

func TestParseStat(t *testing.T) {
	lineWith := func(name, state string, flags, threads, endCode int) string {
		return fmt.Sprintf("42 (%s) %s 7 40 39 0 -1 %d 1 2 3 4 150 25 7 8 39 -19 %d 0 12345 99 300 "+
			"18446744073709551615 4000 %d"+strings.Repeat(" 1", 22)+" 9000 9000",
			name, state, flags, threads, endCode)
	}
	line := func(name, state string, threads int) string {
		return lineWith(name, state, 0x400100, threads, 8000)
	}
	stat := func(name string, state byte, dead bool) Stat {
		return Stat{
			Pid: 42, Parent: 7, Group: 40, Session: 39, Start: 12345,
			Command: name, State: state, Dead: dead,
			CPU: 1750 * time.Millisecond, WaitedCPU: 150 * time.Millisecond,
			RSS: 300 * int64(os.Getpagesize()), Threads: 1,
		}
	}
	sh := line("sh", "S", 1)
	with := func(s Stat, change func(*Stat)) Stat {
		change(&s)
		return s
	}
	tests := []struct {
		name, line string
		want       Stat
	}{
		{"plain", sh, stat("sh", 'S', false)},
		{"a name of parentheses and spaces", line(") Z 1 (", "S", 1), stat(") Z 1 (", 'S', false)},
		{"a zombie", line("sh", "Z", 1), stat("sh", 'Z', true)},
		{"its first thread has ended", line("sh", "Z", 2),
			with(stat("sh", 'Z', false), func(s *Stat) { s.Threads = 2 })},
		{"it waits in the kernel", line("sh", "D", 1), stat("sh", 'D', false)},
		{"in the midst of an exec", lineWith("sh", "R", 0x400100, 1, 0),
			with(stat("sh", 'R', false), func(s *Stat) { s.InExec = true })},
		{"exiting", lineWith("sh", "R", 0x400104, 1, 8000),
			with(stat("sh", 'R', false), func(s *Stat) { s.Exiting = true })},
		{"with variables", strings.Replace(sh, "9000 9000", "9000 9100", 1),
			with(stat("sh", 'S', false), func(s *Stat) { s.EnvironSize = 100 })},
		{"a zombie has no environment", lineWith("sh", "Z", 0x400100, 1, 0), stat("sh", 'Z', true)},
		{"a thread of the kernel", lineWith("sh", "S", 0x208040, 1, 0),
			with(stat("sh", 'S', false), func(s *Stat) { s.Kernel = true })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := parseStat([]byte(tt.line)); got != tt.want || err != nil {
				t.Errorf("parseStat(%q) = %+v, %v, want %+v", tt.line, got, err, tt.want)
			}
		})
	}
	for _, bad := range []string{
		"", "42", "42 sh S 1", "42 (sh) S 1 2", "x" + sh,
		strings.Replace(sh, "12345", "x", 1), strings.Replace(sh, "150", "x", 1),
	} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestReadStat(t *testing.T) {
	s, err := ReadStat(os.Getpid())
	if err != nil || s.Pid != os.Getpid() || s.Parent != os.Getppid() ||
		s.RSS == 0 || s.Start == 0 || s.Command == "" {
		t.Errorf("ReadStat of this process: %+v, %v", s, err)
	}
	if _, err := ReadStat(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadStat of no process: %v, want %v", err, os.ErrNotExist)
	}
}

// TestOpenProcess: a process that reuses a pid is not opened in place of the old one.
func TestOpenProcess(t *testing.T) {
	s, err := ReadStat(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	p, err := OpenProcess(&s)
	if err != nil {
		t.Fatalf("OpenProcess of the parent: %v", err)
	}
	p.Close()
	s.Start--
	if p, err := OpenProcess(&s); !errors.Is(err, pidfd.ErrGone) {
		t.Errorf("OpenProcess of an earlier process with that pid = %v, %v, want %v",
			p, err, pidfd.ErrGone)
	}
}

// TestKilled: after SIGKILL, a process may have files open until it ends: it counts as killed.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	open := 0
	for range 100 {
		cmd := exec.CommandContext(t.Context(), "sleep", "infinity")
		cmd.Stdout = file
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		if Killed(pid) || !HoldsFile(pid, path) {
			t.Errorf("process %d lives: Killed %t, HoldsFile %t, want false, true",
				pid, Killed(pid), HoldsFile(pid, path))
		}
		cmd.Process.Kill()
		if HoldsFile(pid, path) {
			open++
		}
		if !Killed(pid) {
			t.Errorf("process %d was sent SIGKILL: Killed = false, want true", pid)
		}
		cmd.Wait()
	}
	t.Logf("%d of 100 held the file after SIGKILL was sent", open)
}

// TestHoldsFileAmongMany: after the recovery of thousands of descriptors, a supervisor's lock has a
// high number.
func TestHoldsFileAmongMany(t *testing.T) {
	for range maxDescriptors + 100 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	path := filepath.Join(t.TempDir(), "last")
	last, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close()
	if !HoldsFile(os.Getpid(), path) {
		t.Error("HoldsFile of an open file = false, want true")
	}
	if HoldsFile(os.Getpid(), path+"x") {
		t.Error("HoldsFile of a missing file = true, want false")
	}
}

func BenchmarkReadStat(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadStat(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}
