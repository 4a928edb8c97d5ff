package rundir

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

	"superd/internal/procfs"
	"superd/procs/eventlog"
)

var quietLog = slog.New(slog.DiscardHandler)

func TestDirHasOneOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "superd")
	first, err := Open(path, 0, false, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(path, 0, false, quietLog)
	busy, ok := errors.AsType[*BusyError](err)
	if !ok || busy.Pid != os.Getpid() || busy.KeeperOnly {
		t.Errorf("Open while it is locked = %v, want a BusyError with pid %d", err, os.Getpid())
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat after Close = %v, want that the directory is gone", err)
	}
}

// TestDirBetweenSupervisors: a keeper without a supervisor still owns the directory.
func TestDirBetweenSupervisors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "superd")
	keeper := exec.Command("sleep", "infinity")
	if err := keeper.Start(); err != nil {
		t.Fatal(err)
	}
	first, err := Open(path, keeper.Process.Pid, false, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	first.lock.Close() // as at the supervisor's end
	_, err = Open(path, 0, false, quietLog)
	busy, ok := errors.AsType[*BusyError](err)
	if !ok || busy.Pid != keeper.Process.Pid || !busy.KeeperOnly {
		t.Errorf("Open while a keeper has it = %v, want a BusyError with pid %d", err, keeper.Process.Pid)
	}
	keeper.Process.Kill()
	keeper.Wait()
	second, err := Open(path, 0, false, quietLog)
	if err != nil {
		t.Fatalf("Open after the keeper's end: %v", err)
	}
	second.Close()
}

// TestDirLockedInOtherNamespace: an owner in another PID namespace, or on another machine, is known
// by its lock alone, as its pid is that of another process here.
func TestDirLockedInOtherNamespace(t *testing.T) {
	boot, err := procfs.BootID()
	if err != nil {
		t.Fatal(err)
	}
	s, err := procfs.ReadStat(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"namespace": fmt.Sprintf("%d\n%s %d:%d pid:[1]\n", s.Pid, boot, s.Pid, s.Start),
		"boot":      fmt.Sprintf("%d\nanother %d:%d\n", s.Pid, s.Pid, s.Start),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "superd")
			first, err := Open(path, 0, false, quietLog)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(first.lock.Truncate(0), writeAt(first.lock, text)); err != nil {
				t.Fatal(err)
			}
			_, err = Open(path, 0, false, quietLog)
			busy, ok := errors.AsType[*BusyError](err)
			if !ok || busy.Pid != s.Pid || !busy.Foreign {
				t.Errorf("Open while it is locked in another namespace = %v, want a BusyError with Foreign", err)
			}
			if !isNamed(first.lock, first.lock.Name()) {
				t.Error("the lock file was removed while it is locked")
			}
			first.lock.Close() // as when all processes there have ended
			second, err := Open(path, 0, false, quietLog)
			if err != nil {
				t.Fatalf("Open when no process has the lock: %v", err)
			}
			if r := readLock(second.lock); r.foreign || r.supervisor != os.Getpid() {
				t.Errorf("the lock file has %+v, want this process, in its own namespace", r)
			}
			second.Close()
		})
	}
}

// TestDirUnderContention: of many contenders that take, remove and release the lock, no two have it
// at a time.
func TestDirUnderContention(t *testing.T) {
	path := filepath.Join(t.TempDir(), "superd")
	var owners atomic.Int32
	var taken atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				dir, err := Open(path, 0, false, quietLog)
				if err != nil {
					continue
				}
				if n := owners.Add(1); n > 1 {
					t.Errorf("%d have the lock at a time", n)
				}
				taken.Add(1)
				owners.Add(-1)
				dir.Close()
			}
		})
	}
	all.Wait()
	if taken.Load() == 0 {
		t.Error("no contender ever got the lock")
	}
}

func TestDirBelowAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		_, err := Open(path, 0, false, quietLog)
		if err == nil || !strings.Contains(err.Error(), "not a directory") || !strings.Contains(err.Error(), "--runtime-dir") {
			t.Errorf("Open(%s) = %v, want \"not a directory\" and the remedy", path, err)
		}
	}
}

// TestCloseRemovesEventLog: the event log is removed with a directory that superd created and that
// has no other files.
func TestCloseRemovesEventLog(t *testing.T) {
	tests := []struct {
		name              string
		existed, hasOther bool
		stays             bool
	}{
		{"superd created the directory", false, false, false},
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
			dir, err := Open(path, 0, false, quietLog)
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

// TestTurnHeldForLong: the error names a process that has the turn file locked for longer than any
// superd does.
func TestTurnHeldForLong(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "superd")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	turn, err := lockTurn(path, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	_, err = Open(path, 0, false, quietLog)
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.File != turn.Name() || !strings.HasPrefix(held.By, fmt.Sprintf("process %d (", os.Getpid())) {
		t.Errorf("Open while the turn file is locked = %v, want a HeldError that names %s and this process", err, turn.Name())
	}
}
