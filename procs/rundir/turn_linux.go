package rundir

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// turnFile is the name of the turn file. A superd locks it while it examines the lock file and may
// replace that. The turn file stays until the orderly end: a full disk must not prevent a successor
// from starting. superd does not lock the directory itself: if its mode is 0755, any user may open
// it, and so lock it.
const turnFile = "superd.turn"

const (
	// turnTimeout is how long to wait for another process that has locked the turn file. A superd
	// that waits for the lock file has it locked for lockTimeout at most.
	turnTimeout  = 3 * time.Second
	logAfter     = 500 * time.Millisecond // a longer wait is logged
	lockInterval = 10 * time.Millisecond  // between two attempts
)

// A HeldError says that another process has locked the turn file, so that the runtime directory
// can't be used.
type HeldError struct {
	File string
	By   string // such as "process 4711 (flock)"; "another process" if it can't be seen
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("lock runtime directory %s: %s has held %s for %v: end it, or choose another "+
		"directory with --runtime-dir", filepath.Dir(e.File), e.By, e.File, turnTimeout)
}

// lockTurn locks the turn file. It waits for another superd for turnTimeout at most, and returns a
// [HeldError] after that.
func lockTurn(dir string, log *slog.Logger) (*os.File, error) {
	path := filepath.Join(dir, turnFile)
	began, logged := time.Now(), false
	for {
		turn, locked, err := tryLock(path)
		if err != nil || locked {
			return turn, err
		}
		switch waited := time.Since(began); {
		case waited > turnTimeout:
			by := lockedBy(path, turn)
			turn.Close()
			return nil, &HeldError{path, by}
		case waited > logAfter && !logged:
			logged = true
			logLockWait(log, path, turn)
		}
		turn.Close()
		time.Sleep(lockInterval)
	}
}

// removeTurn removes the turn file, unless another superd has locked it: that one removes it later.
func removeTurn(dir string) error {
	path := filepath.Join(dir, turnFile)
	turn, locked, err := tryLock(path)
	if err != nil {
		return err
	}
	defer turn.Close()
	if !locked {
		return nil
	}
	return os.Remove(path)
}
