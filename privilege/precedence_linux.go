package privilege

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// precedence is the nice value of superd's session: it gets nine times the processor time of a program that wants as much as it can get.
const precedence = -10

// TakePrecedence has the kernel serve this process's session before others. Each program is a session of its own, and where the scheduler
// gives each session as much as the next one (autogroups, as is the default), superd would get one share of a thousand while a thousand programs start. A
// session that belongs to somebody else, as that of a shell, is left alone, and so is one that has got a nice value of its own already. It
// does nothing where there are no autogroups or where superd may not.
//
// Source: sched(7), the autogroup feature.
func TakePrecedence() error {
	if leader, err := unix.Getsid(0); err != nil || leader != os.Getpid() {
		return err
	}
	const path = "/proc/self/autogroup"
	text, err := os.ReadFile(path)
	var group, nice int
	switch n, _ := fmt.Sscanf(string(text), "/autogroup-%d nice %d", &group, &nice); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case n < 2 || nice != 0:
		return nil
	}
	err = os.WriteFile(path, []byte(strconv.Itoa(precedence)), 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return nil
	}
	return err
}
