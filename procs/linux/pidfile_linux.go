package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"

	"superd/internal/passwd"
	"superd/internal/safepath"
)

// pidFileSlots is how many pid files are read at a time: more would only wait for a file system
// that hangs.
const pidFileSlots = 64

// maxPIDFileBytes bounds the size of a pid file.
const maxPIDFileBytes = 4096

// errPIDFileBusy is the error of a read whose path is being read.
var errPIDFileBusy = errors.New("an earlier read has not ended: its file system may hang")

// ReadPIDFile implements [host.Host]. Reads that hang must not use up all slots, so there is one of
// a path at a time.
func (k *Host) ReadPIDFile(path, user string, done func(pid int, err error)) (cancel func()) {
	canceled := new(atomic.Bool)
	finish := func(pid int, err error) {
		k.loop.Post(func() {
			if !canceled.Load() {
				done(pid, err)
			}
		})
	}
	if _, busy := k.pidPaths.LoadOrStore(path, true); busy {
		finish(0, errPIDFileBusy)
		return func() { canceled.Store(true) }
	}
	k.pidReading.Begin(&k.pidFiles, func() {
		defer k.pidPaths.Delete(path)
		if !canceled.Load() {
			finish(readPIDFile(path, user))
		}
	})
	return func() { canceled.Store(true) }
}

// readPIDFile returns the pid in a file. The file may belong to root, to superd's user or to user.
// See package safepath for what else other users can't do.
func readPIDFile(path, user string) (int, error) {
	var owners []uint32
	if user != "" {
		account, err := passwd.System().User(user)
		if err != nil {
			return 0, err
		}
		owners = append(owners, uint32(account.UID))
	}
	text, err := safepath.ReadFile(path, maxPIDFileBytes, owners...)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fs.ErrNotExist
	}
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" {
		return 0, errors.New("it is empty")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("it has no pid, but %.40q", line)
	}
	return pid, nil
}
