package harness

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/child"
)

// Refusing is an option of Start: the kernel refuses system calls (see [child.Refusable]),
// separated by commas, with this errno, to superd and to all that it starts. It comes before other
// options that change the command.
func Refusing(calls, errno string) func(*exec.Cmd) {
	return func(cmd *exec.Cmd) {
		cmd.Args = append([]string{child.Name, "refuse", calls, errno, cmd.Path}, cmd.Args[1:]...)
		cmd.Path, cmd.Err = exec.LookPath(child.Name)
	}
}

// Confined returns an option of Start: superd and its programs have at most this many processes and
// threads. Call it before NewSite, so that its clean-up comes after the site's.
//
// Without a pids cgroup of v1, an excess process is killed as soon as it is seen.
func Confined(t testing.TB, most int) func(*exec.Cmd) {
	t.Helper()
	const parent = "/sys/fs/cgroup/pids"
	dir, err := os.MkdirTemp(parent, "superd-")
	if err != nil {
		return counted(t, most)
	}
	t.Cleanup(func() {
		Until(t, "the pids cgroup is empty", func() bool {
			err := os.Remove(dir)
			return err == nil || errors.Is(err, fs.ErrNotExist)
		})
	})
	if err := os.WriteFile(filepath.Join(dir, "pids.max"), []byte(strconv.Itoa(most)), 0); err != nil {
		t.Fatal(err)
	}
	return Under("echo $$ >" + dir + "/cgroup.procs || exit")
}

// counted is Confined without a cgroup. It counts processes, not threads.
func counted(t testing.TB, most int) func(*exec.Cmd) {
	variable := "TEST_CONFINED=" + t.Name()
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	go func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				killBeyond(variable, most)
			}
		}
	}()
	return func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, variable) }
}

// killBeyond kills all processes with a variable in their environment if they are more than most.
func killBeyond(variable string, most int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var found []int
	for _, dir := range dirs {
		env, err := os.ReadFile(dir + "/environ")
		if err != nil || !strings.Contains("\x00"+string(env), "\x00"+variable+"\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			found = append(found, pid)
		}
	}
	if len(found) <= most {
		return
	}
	for _, pid := range found {
		_ = syscall.Kill(pid, syscall.SIGKILL) // all before the first has ended: they multiply
	}
}
