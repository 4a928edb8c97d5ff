package procs

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"superd/procs/eventlog"
)

func TestRuntimeDirHasOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "superd")
	first, err := OpenRuntimeDir(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = OpenRuntimeDir(path, 0)
	busy, ok := errors.AsType[*BusyError](err)
	if !ok || busy.Pid != os.Getpid() || busy.Between {
		t.Errorf("OpenRuntimeDir while it is held = %v, want a BusyError with pid %d", err, os.Getpid())
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat after Close = %v, want that the directory is gone", err)
	}
}

// A keeper whose supervisor has ended still has the directory.
func TestRuntimeDirBetweenSupervisors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "superd")
	keeper := exec.Command("sleep", "infinity")
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := OpenRuntimeDir(path, keeper.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	first.lock.Close() // as at the supervisor's end
	_, err = OpenRuntimeDir(path, 0)
	busy, ok := errors.AsType[*BusyError](err)
	if !ok || busy.Pid != keeper.Process.Pid || !busy.Between {
		t.Errorf("OpenRuntimeDir while a keeper has it = %v, want a BusyError with pid %d", err, keeper.Process.Pid)
	}
	keeper.Process.Kill()
	keeper.Wait()
	second, err := OpenRuntimeDir(path, 0)
	if err != nil {
		t.Fatalf("OpenRuntimeDir when the keeper has gone: %v", err)
	}
	second.Close()
}

// Who has the lock in another PID namespace, or on another machine, is told by the lock alone: its numbers are somebody else's here.
func TestRuntimeDirHeldElsewhere(t *testing.T) {
	boot, err := BootID()
	if err != nil {
		t.Fatal(err)
	}
	s, err := readStat(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"namespace": fmt.Sprintf("%d\n%s %d:%d pid:[1]\n", s.pid, boot, s.pid, s.start),
		"boot":      fmt.Sprintf("%d\nanother %d:%d\n", s.pid, s.pid, s.start),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "superd")
			first, err := OpenRuntimeDir(path, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(first.lock.Truncate(0), writeAt(first.lock, text)); err != nil {
				t.Fatal(err)
			}
			_, err = OpenRuntimeDir(path, 0)
			busy, ok := errors.AsType[*BusyError](err)
			if !ok || busy.Pid != s.pid || !busy.Elsewhere {
				t.Errorf("OpenRuntimeDir while it is held elsewhere = %v, want a BusyError that says so", err)
			}
			if !isStill(first.lock, first.lock.Name()) {
				t.Error("the lock was removed from who holds it")
			}
			first.lock.Close() // as when all processes there have ended
			second, err := OpenRuntimeDir(path, 0)
			if err != nil {
				t.Fatalf("OpenRuntimeDir when nobody holds the lock: %v", err)
			}
			if says := readLock(second.lock); says.elsewhere || says.pid() != os.Getpid() {
				t.Errorf("the lock file says %+v, want this process, in its own namespace", says)
			}
			second.Close()
		})
	}
}

// TestRuntimeDirUnderContention has many contenders take and leave the lock, which each of them removes: at no time may two
// hold it.
func TestRuntimeDirUnderContention(t *testing.T) {
	path := filepath.Join(t.TempDir(), "superd")
	var holders atomic.Int32
	var taken atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				dir, err := OpenRuntimeDir(path, 0)
				if err != nil {
					continue
				}
				if n := holders.Add(1); n > 1 {
					t.Errorf("%d hold the lock at a time", n)
				}
				taken.Add(1)
				holders.Add(-1)
				dir.Close()
			}
		})
	}
	all.Wait()
	if taken.Load() == 0 {
		t.Error("nobody ever got the lock")
	}
}

// A process that SIGKILL was sent to may hold what it has open for a moment. It is not to count any more.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	held := 0
	for range 100 {
		cmd := exec.CommandContext(t.Context(), "sleep", "infinity")
		cmd.Stdout = file
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		pid := cmd.Process.Pid
		if killed(pid) || !holdsFile(pid, path) {
			t.Errorf("process %d lives: killed %t, holds the file %t", pid, killed(pid), holdsFile(pid, path))
		}
		cmd.Process.Kill()
		if holdsFile(pid, path) {
			held++
		}
		if !killed(pid) {
			t.Errorf("process %d was sent SIGKILL and does not count as killed", pid)
		}
		cmd.Wait()
	}
	t.Logf("%d of 100 held the file after SIGKILL was sent", held)
}

// TestHeldAmongMany: a supervisor that has taken over thousands of descriptors has its lock above them.
func TestHeldAmongMany(t *testing.T) {
	for range 1100 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	dir, err := OpenRuntimeDir(filepath.Join(t.TempDir(), "superd"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if !holdsFile(os.Getpid(), dir.lock.Name()) {
		t.Error("this process does not hold the lock that it has")
	}
	if holdsFile(os.Getpid(), dir.lock.Name()+"x") {
		t.Error("this process holds a file that there is not")
	}
}

func TestRuntimeDirThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		_, err := OpenRuntimeDir(path, 0)
		if err == nil || !strings.Contains(err.Error(), "not a directory") || !strings.Contains(err.Error(), "--runtime-dir") {
			t.Errorf("OpenRuntimeDir(%s) = %v, want that it is not a directory, and the remedy", path, err)
		}
	}
}

func TestEventLogGoesWithItsDirectory(t *testing.T) {
	tests := []struct {
		name              string
		existed, hasOther bool
		stays             bool
	}{
		{"superd made the directory", false, false, false},
		{"it was there before", true, false, true},
		{"something else is in it", false, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "superd")
			if tt.existed {
				if err := os.Mkdir(path, 0o711); err != nil {
					t.Fatal(err)
				}
			}
			dir, err := OpenRuntimeDir(path, 0)
			if err != nil {
				t.Fatal(err)
			}
			events := eventlog.Open(path, eventlog.MaxSize, slog.New(slog.DiscardHandler))
			events.Append(eventlog.Event{At: time.Now(), Kind: eventlog.Superd})
			events.Close(time.Minute)
			if tt.hasOther {
				if err := os.Mkdir(filepath.Join(path, "log"), 0o750); err != nil {
					t.Fatal(err)
				}
			}
			if err := dir.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(path, "events.jsonl")); (err == nil) != tt.stays {
				t.Errorf("stat of the event log after Close: %v; want that it stays: %v", err, tt.stays)
			}
			if _, err := os.Stat(path); (err == nil) != tt.stays {
				t.Errorf("stat of the directory after Close: %v; want that it stays: %v", err, tt.stays)
			}
		})
	}
}
