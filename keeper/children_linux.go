package keeper

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"superd/pidfd"
)

// A process may have children before it runs superd: a shell that starts a background job and then
// executes superd. These children and their descendants belong to no program. Not all of them can
// be distinguished from what superd has started, since orphans become superd's children. So if
// there were any, superd ends only processes that it certainly started.

// childrenVariable is set for a program that replaces superd by exec. It says whether the process
// had children before it ran superd: PID:true or PID:false.
const childrenVariable = "SUPERD_HAD_CHILDREN"

// withChildrenVariable returns env with childrenVariable, for a program that replaces this one by
// exec.
func withChildrenVariable(env []string, had bool) []string {
	return append(slices.Clip(env), fmt.Sprintf("%s=%d:%t", childrenVariable, os.Getpid(), had))
}

// hadChildren reports whether this process had children before it ran superd. first says that it
// has not run superd under another binary.
func hadChildren(first bool) bool {
	value := os.Getenv(childrenVariable)
	os.Unsetenv(childrenVariable)
	if pid, had, ok := strings.Cut(value, ":"); ok && number(pid) == os.Getpid() {
		return had == "true"
	}
	for first { // reap children that have ended: they don't count
		pid, ok, err := pidfd.Peek()
		if err == nil && ok {
			_, ok, err = pidfd.ReapUnknown(pid)
		}
		if err != nil || !ok {
			break
		}
	}
	return pidfd.HasChildren()
}

// isTagged reports whether the environment of a process says that the superd of the runtime
// directory started it.
func isTagged(pid int, runtimeDir string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(append([]byte{0}, text...), []byte("\x00SUPERD_OWNER="+runtimeDir+"\x00"))
}
