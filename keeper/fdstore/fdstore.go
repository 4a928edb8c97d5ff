// Package fdstore speaks the protocol by which a process reports its state to its manager and
// stores descriptors beyond its own end: sd_notify(3) and the descriptor store of systemd.
//
// A [Manager] is the supervised side: it sends states and descriptors to systemd through
// NOTIFY_SOCKET, or to superd's own keeper over a socketpair. [Take] returns the stored
// descriptors. [Receiver] and [Store] are the manager's side, for the keeper; [Exec] passes
// descriptors to a program that replaces this one.
//
// A packet consists of lines KEY=VALUE, with descriptors (SCM_RIGHTS). Stored descriptors have
// names, and come back in no particular order.
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

// FirstFD is the number of the first descriptor passed to a program; the others follow.
const FirstFD = 3

// MaxNameBytes is the length of the longest name of a stored descriptor.
const MaxNameBytes = 255

// A Message is one packet, valid until its receiver receives the next one.
type Message struct {
	Lines []string
	Files []int // close-on-exec; owned by the receiver
}

// Value returns the value of a key in the message, and whether it is present.
func (m *Message) Value(key string) (string, bool) {
	for _, line := range m.Lines {
		if k, v, ok := strings.Cut(line, "="); ok && k == key {
			return v, true
		}
	}
	return "", false
}

// Has reports whether the message has that line.
func (m *Message) Has(line string) bool { return slices.Contains(m.Lines, line) }

// Lines that store and remove descriptors. Without FDPOLL=0 systemd removes a pipe without writers
// and the pidfd of a process that has ended, which are just those that superd needs.
const (
	storeLine  = "FDSTORE=1"
	removeLine = "FDSTOREREMOVE=1"
	nameKey    = "FDNAME"
	noPoll     = "FDPOLL=0"
)

// isName reports whether name is valid for a stored descriptor.
func isName(name string) bool {
	return name != "" && len(name) <= MaxNameBytes && !strings.ContainsFunc(name, func(r rune) bool { return r == ':' || r < ' ' || r > '~' })
}

// givenPrefix begins the names of descriptors from a socket unit: given/NUMBER/NAME.
const givenPrefix = "given/"

// Given returns the name that a socket unit of systemd has given to a descriptor; ok is false if it
// comes from elsewhere.
func Given(stored string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(stored, givenPrefix)
	_, name, found := strings.Cut(rest, "/")
	return name, ok && found
}

// environment returns env with the variables that pass names, in the order of their descriptors, to
// the next program. It removes earlier variables of this kind.
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

// Handover returns what a child must be started with so that its [Take] finds these descriptors,
// each with a different number: those that become its 3, 4, …, and its environment, made from env.
// LISTEN_PID is missing since it is unknown before the fork: see [Take].
func Handover(files map[string]int, env []string) (fds []int, childEnv []string) {
	fds, names := inOrder(files)
	return fds, environment(env, names, "")
}

// gapsVariable is the environment variable with the numbers of the descriptors, ascending, if they
// are not 3, 4, …. It holds the difference of each to the previous one, for the first to 2. As
// plain numbers ten thousand might exceed the 128 KiB limit of a variable.
const gapsVariable = "SUPERD_FD_GAPS"

// gapsOf returns the value of [gapsVariable] for fds, which must be sorted.
func gapsOf(fds []int) string {
	var b strings.Builder
	before := FirstFD - 1
	for _, fd := range fds {
		fmt.Fprintf(&b, "%d,", fd-before)
		before = fd
	}
	return b.String()
}

// numbersOf returns a function for the number of the i-th descriptor. It must be called for i = 0,
// 1, ….
func numbersOf(gaps string) func(i int) int {
	before := FirstFD - 1
	return func(i int) int {
		text, rest, more := strings.Cut(gaps, ",")
		gaps = rest
		gap, err := strconv.Atoi(text)
		if !more || err != nil || gap < 1 || gap > math.MaxInt32-before {
			gap = 1
		}
		before += gap
		return before
	}
}

// inOrder returns descriptors and their names, sorted by number. So no number is below its index,
// and they can be moved there one after the other without a spare descriptor.
func inOrder(files map[string]int) (fds []int, names []string) {
	names = slices.SortedFunc(maps.Keys(files), func(a, b string) int { return files[a] - files[b] })
	for _, name := range names {
		fds = append(fds, files[name])
	}
	return fds, names
}
