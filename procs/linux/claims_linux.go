package linux

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"superd/internal/passwd"
	"superd/internal/procfs"
	"superd/procs/linux/proctree"
)

// A claimCheck decides whether processes belong to an instance. Their environment tags say so, but
// any user may give such an environment to a process. A believed process quarantines its instance,
// or is adopted as its main process.
//
// A process is believed if one of these holds.
//   - Its real user is root, superd's, or the program's: none of these needs a trick to control
//     the program. The effective user does not count: any user may start a program that changes
//     it, such as su(1), with any environment. Some of these set the real user, too: a process
//     whose exec gave it privileges does not count as root's or superd's.
//   - It descends from the keeper: then superd started it, directly or indirectly.
//   - It has one of the instance's FIFOs open, which no other user may open. This covers a program
//     that starts as root, changes its user, and has outlived the keeper.
//
// A process with an invocation id from a lookup request is believed without that: the id is secret.
type claimCheck struct {
	fifoDir string
	keeper  int                            // its pid; 0: none
	users   func(instance string) []string // users that the instance's program runs as
	uids    map[string][]uint32            // cache of resolved users, by instance
}

// believes reports whether the tags of a process are true; false if it has ended.
func (c *claimCheck) believes(t *proctree.TaggedProcess) bool {
	uid, err := realUser(t.Stat.Pid)
	if err != nil {
		return false
	}
	if now, err := procfs.ReadStat(t.Stat.Pid); err != nil || now.Start != t.Stat.Start {
		return false // the pid is another process's by now
	}
	if slices.Contains(c.usersOf(t.Instance), uid) {
		return true
	}
	if (uid == 0 || uid == uint32(os.Geteuid())) && !gainedPrivileges(t.Stat.Pid) {
		return true
	}
	if c.keeper != 0 {
		if keeper, err := procfs.ReadStat(c.keeper); err == nil && t.Stat.DescendsFrom(&keeper) {
			return true
		}
	}
	return c.hasFIFO(t)
}

func (c *claimCheck) usersOf(instance string) []uint32 {
	uids, known := c.uids[instance]
	if known || c.users == nil {
		return uids
	}
	for _, name := range c.users(instance) {
		if user, err := passwd.System().User(name); err == nil {
			uids = append(uids, user.UID)
		}
	}
	if c.uids == nil {
		c.uids = map[string][]uint32{}
	}
	c.uids[instance] = uids
	return uids
}

// hasFIFO reports whether the process has a FIFO of the instance open. The path in /proc is not
// enough: in a mount namespace of the process it may name another file.
func (c *claimCheck) hasFIFO(t *proctree.TaggedProcess) bool {
	if t.Instance == "" || t.Instance != filepath.Base(t.Instance) {
		return false
	}
	path := filepath.Join(c.fifoDir, t.Instance)
	var all []unix.Stat_t
	var names []string
	for _, suffix := range []string{"", ":stderr", ":stdin"} {
		names = append(names, t.Instance+suffix)
		var st unix.Stat_t
		if unix.Lstat(path+suffix, &st) == nil {
			all = append(all, st)
		}
	}
	for name, target := range procfs.Descriptors(t.Stat.Pid) {
		// Stat only what may be a FIFO of the instance: a file of another file system may hang.
		if !slices.Contains(names, filepath.Base(strings.TrimSuffix(target, " (deleted)"))) {
			continue
		}
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d/fd/%s", t.Stat.Pid, name), &st) != nil {
			continue
		}
		same := func(own unix.Stat_t) bool { return own.Dev == st.Dev && own.Ino == st.Ino }
		if slices.ContainsFunc(all, same) {
			return true
		}
	}
	return false
}

// realUser returns the real user of a process. Source: proc_pid_status(5).
func realUser(pid int) (uint32, error) {
	var buf [4096]byte
	n, err := procfs.ReadSmall("/proc/"+strconv.Itoa(pid)+"/status", buf[:])
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(buf[:n]) {
		if ids, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			if fields := bytes.Fields(ids); len(fields) > 0 {
				uid, err := strconv.ParseUint(string(fields[0]), 10, 32)
				return uint32(uid), err
			}
		}
	}
	return 0, fmt.Errorf("read user of process %d: not in the form of proc_pid_status(5)", pid)
}

// gainedPrivileges reports whether the process got privileges by its last exec, from a set-user-ID
// bit for example, or that it can't be found out. Source: AT_SECURE in getauxval(3).
func gainedPrivileges(pid int) bool {
	var buf [4096]byte
	n, err := procfs.ReadSmall("/proc/"+strconv.Itoa(pid)+"/auxv", buf[:])
	if err != nil {
		return true
	}
	secure, ok := atSecure(buf[:n], 8)
	if !ok {
		secure, ok = atSecure(buf[:n], 4)
	}
	return secure || !ok
}

// atSecure returns AT_SECURE of an auxiliary vector whose words have that many bytes; ok is false
// if they have not.
func atSecure(vector []byte, word int) (secure, ok bool) {
	const end, at, mostTypes = 0, 23, 256 // AT_NULL, AT_SECURE: linux/auxvec.h
	value := func(i int) uint64 {
		if word == 4 {
			return uint64(binary.NativeEndian.Uint32(vector[i:]))
		}
		return binary.NativeEndian.Uint64(vector[i:])
	}
	for i := 0; i+2*word <= len(vector); i += 2 * word {
		switch kind := value(i); {
		case kind == at:
			secure, ok = value(i+word) != 0, true
		case kind == end:
			return secure, ok
		case kind >= mostTypes:
			return false, false
		}
	}
	return false, false
}
