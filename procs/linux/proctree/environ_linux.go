package proctree

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/procfs"
)

// Tags are the environment variables by which superd recognizes processes that it or a
// predecessor has started, directly or indirectly.
type Tags struct {
	Owner         string // the runtime directory
	Instance, Run string
	Probe         bool // it belongs to a check
}

// tagsTimeout bounds how long superd waits, in all, for processes whose tags can't be read at
// present. A process in the middle of an exec needs a processor to complete it.
const tagsTimeout = 500 * time.Millisecond

// maxEnviron is more bytes than an exec allows: arguments and environment together are at most 6
// MiB. A process may claim more, see PR_SET_MM_ENV_END in prctl(2).
//
// Source: execve(2).
const maxEnviron = 8 << 20

// readTags reads the environment tags of a process. readable is false if they can't be read at
// present: the process sleeps uninterruptibly, so that the read might hang, or is in the middle of
// an exec, without an environment. The error is a shortage. A process that is gone, or that superd
// may not read, has no tags.
func readTags(pid int) (tags Tags, readable bool, err error) {
	s, err := procfs.ReadStat(pid)
	if err != nil {
		return Tags{}, !isShortage(err), shortage(err)
	}
	return readTagsOf(&s)
}

// readTagsOf is [readTags] of the process that s was just read from.
func readTagsOf(s *procfs.Stat) (tags Tags, readable bool, err error) {
	switch {
	case s.Dead || s.Kernel, s.EnvironSize > maxEnviron:
		return Tags{}, true, nil
	case s.InExec || s.Sleeps():
		return Tags{}, false, nil
	}
	// on the stack: on the heap each process's environment would touch new memory
	var usual [8 << 10]byte
	text := usual[:]
	if s.EnvironSize >= len(text) {
		text = make([]byte, s.EnvironSize+1)
	}
	n, err := procfs.ReadSmall("/proc/"+strconv.Itoa(s.Pid)+"/environ", text)
	if err != nil {
		return Tags{}, !isShortage(err), shortage(err)
	}
	// it has executed another program since s was read; the text ends too early or is another one
	if n != s.EnvironSize {
		return Tags{}, false, nil
	}
	// not bytes.SplitSeq, with which the text would escape to the heap
	for rest := text[:n]; len(rest) > 0; {
		var variable []byte
		variable, rest, _ = bytes.Cut(rest, []byte{0})
		if !bytes.HasPrefix(variable, []byte("SUPERD_")) {
			continue
		}
		switch key, value, _ := strings.Cut(string(variable), "="); key {
		case "SUPERD_OWNER":
			tags.Owner = value
		case "SUPERD_INVOCATION_ID":
			tags.Run = value
		case "SUPERD_INSTANCE":
			tags.Instance = value
		case "SUPERD_PROBE":
			tags.Probe = true
		}
	}
	return tags, true, nil
}

// shortage returns err if it is a shortage of superd's, which says nothing about the process.
func shortage(err error) error {
	if isShortage(err) {
		return err
	}
	return nil
}

func isShortage(err error) bool {
	return slices.ContainsFunc([]error{unix.EMFILE, unix.ENFILE, unix.ENOMEM}, func(e error) bool { return errors.Is(err, e) })
}
