// Package fdstore speaks the protocol by which a process tells its manager how it is, and has descriptors kept beyond its own end:
// sd_notify(3) and the descriptor store of systemd.
//
// A [Manager] is the supervised side: it sends states and descriptors to systemd by way of NOTIFY_SOCKET, or to superd's own keeper over
// a socketpair. [Take] gets back what was kept. [Receiver] and [Store] are the manager's side, for the keeper; [Exec] hands
// descriptors to the program that takes this one's place.
//
// A packet is lines of the shape KEY=VALUE, with descriptors beside them (SCM_RIGHTS). What is kept has a name, and comes back in no
// particular order.
//
// Source: sd_notify(3), sd_pid_notify_with_fds(3), sd_listen_fds_with_names(3).
package fdstore

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// FirstFD is the number of the first descriptor that is handed over; the others follow.
const FirstFD = 3

// MaxNameBytes is the longest name of a kept descriptor.
const MaxNameBytes = 255

// A Message is one packet, as long as its receiver doesn't receive the next one.
type Message struct {
	Lines []string
	Files []int // close-on-exec; the receiver owns them
}

// Value returns what a key has in the message, and whether it is there.
func (m *Message) Value(key string) (string, bool) {
	for _, line := range m.Lines {
		if k, v, ok := strings.Cut(line, "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

// Has reports whether one of the lines is this.
func (m *Message) Has(line string) bool { return slices.Contains(m.Lines, line) }

// The lines by which descriptors are kept and let go of. Without FDPOLL=0 systemd lets go of a pipe without writers and of the pidfd of a
// process that has ended: just those whose content one wants.
const (
	keep    = "FDSTORE=1"
	letGo   = "FDSTOREREMOVE=1"
	nameKey = "FDNAME"
	noPoll  = "FDPOLL=0"
)

// isName reports whether a descriptor may be kept under name.
func isName(name string) bool {
	return name != "" && len(name) <= MaxNameBytes && !strings.ContainsFunc(name, func(r rune) bool { return r == ':' || r < ' ' || r > '~' })
}

// environment returns env with what tells the next program of the names, in the order of their descriptors, without what it had of
// this before.
func environment(env, names []string, pid string) []string {
	env = slices.DeleteFunc(slices.Clone(env), isOurs)
	if len(names) == 0 {
		return env
	}
	env = append(env, "LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	if pid != "" {
		env = append(env, "LISTEN_PID="+pid)
	}
	return env
}

func isOurs(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return name == "LISTEN_PID" || name == "LISTEN_FDS" || name == "LISTEN_FDNAMES" || name == gapsVariable
}

// Handover returns what a child has to be started with so that its [Take] finds these descriptors, each a number of its own: those that
// become its 3, 4, …, and its environment, made of env. It lacks LISTEN_PID, which can't be known before the fork: see [Take].
func Handover(files map[string]int, env []string) (fds []int, childEnv []string) {
	fds, names := inOrder(files)
	return fds, environment(env, names, "")
}

// gapsVariable is the environment variable that tells where the descriptors lie, in ascending order, if not at 3, 4, …: for each of them
// how many numbers above the one before it, the first above 2. In numbers as such ten thousand might exceed the 128 KiB of a variable.
const gapsVariable = "SUPERD_FD_GAPS"

// gapsOf returns the value of [gapsVariable] for fds, which ascend.
func gapsOf(fds []int) string {
	var b strings.Builder
	before := FirstFD - 1
	for _, fd := range fds {
		fmt.Fprintf(&b, "%d,", fd-before)
		before = fd
	}
	return b.String()
}

// placesOf returns what number the i-th descriptor has. It is asked for i = 0, 1, ….
func placesOf(gaps string) func(i int) int {
	before := FirstFD - 1
	return func(i int) int {
		text, rest, told := strings.Cut(gaps, ",")
		gaps = rest
		gap, err := strconv.Atoi(text)
		if !told || err != nil || gap < 1 || gap > math.MaxInt32-before {
			gap = 1
		}
		before += gap
		return before
	}
}

// inOrder returns descriptors and their names by number: so each has a number that is not below its place, and they can be moved
// there one after the other without a descriptor to spare.
func inOrder(files map[string]int) (fds []int, names []string) {
	names = slices.SortedFunc(maps.Keys(files), func(a, b string) int { return files[a] - files[b] })
	for _, name := range names {
		fds = append(fds, files[name])
	}
	return fds, names
}
