package keeper

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/keeper/fdstore"
	"superd/loop"
	"superd/signals"
)

// A Link is the supervisor's side of the connection to the process that outlives it: superd's
// keeper or systemd.
type Link struct {
	*fdstore.Manager
	caught   *signals.Caught
	files    map[string]int // descriptors that were passed to this process
	socket   int            // -1: no keeper
	receiver *fdstore.Receiver
	keeper   int // pid of the keeper; 0: no keeper
	timer    int // timer of the watchdog; -1: none
	exits    []Exit
	signals  []syscall.Signal
	stop     syscall.Signal // signal of a stop request from before this supervisor; 0: none
	resumes  bool
	children bool // this process had children before it ran superd

	// Limit on open files for a program executed in this process; nil: unchanged
	openFiles *unix.Rlimit
}

// A Listener has callbacks, run on the loop, for messages of the keeper.
type Listener struct {
	Signal func(syscall.Signal) // the keeper received a signal
	// The keeper received a signal earlier, and superd must end if it does not already
	Stop func(syscall.Signal)
	Exit func(Exit) // the keeper reaped a process
	Gone func()     // the keeper has ended
}

// Join returns the link of this process to its parent: superd's keeper, else systemd if
// NOTIFY_SOCKET is set, else none. The link has the descriptors that were passed; those of a keeper
// that has ended since belong to this process. Call it before signals.MarkInheritedCloexec. caught
// is held while another program is executed in this process; that program gets openFiles as its
// limit on open files.
//
// Two facts, which no system call filter can hide, show a keeper: the environment names it, and it
// is this process's parent until it ends. So a process below a live
// keeper gets a link or an error, and never becomes a keeper itself.
func Join(caught *signals.Caught, openFiles *unix.Rlimit) (*Link, error) {
	pid, _ := strconv.Atoi(os.Getenv(keeperVariable))
	os.Unsetenv(keeperVariable)
	l := &Link{caught: caught, openFiles: openFiles, socket: -1, timer: -1}
	l.files = fdstore.Take(func(files map[string]int) bool {
		if fd, ok := files[linkFile]; ok {
			return createdBy(fd, pid)
		}
		fd, ok := files[frontFile]
		return ok && createdBy(fd, os.Getppid()) // the front process starts nothing else
	}, isOwn)
	socket, timer := l.Take(linkFile), l.Take(watchdogFile)
	if pid > 0 && os.Getppid() == pid {
		if socket < 0 {
			return nil, fmt.Errorf("join keeper: %s says that the parent, process %d, is superd's keeper, "+
				"but it has passed no socket: start superd without that variable", keeperVariable, pid)
		}
		l.keeper, l.socket, l.timer = pid, socket, timer
	} else {
		unix.Close(socket) // closes those of a keeper that has ended, if any
		unix.Close(timer)
	}
	switch path := os.Getenv("NOTIFY_SOCKET"); {
	case l.keeper > 0:
		l.Manager, l.receiver = fdstore.Over(socket), fdstore.NewReceiver(socket)
		l.listen()
	case path != "":
		manager, err := fdstore.Connect(path)
		if err != nil {
			return nil, err
		}
		l.Manager = manager
	default:
		l.Manager = fdstore.Noop()
	}
	if fd, ok := l.files[frontFile]; ok && l.keeper > 0 {
		delete(l.files, frontFile)
		l.Inherited(frontFile, fd) // for a program executed in this process
	}
	l.children = l.keeper == 0 && hadChildren(countOwn(l.files) == 0)
	for _, name := range fdstore.SortedNames(l.files) {
		if name == frontFile {
			continue // the keeper takes it
		}
		l.Inherited(name, l.files[name])
		if _, given := fdstore.Given(name); !given {
			l.resumes = true
		}
	}
	return l, nil
}

// ControlFile is the name of the stored control socket.
const ControlFile = "control"

// isOwn reports whether superd itself stores descriptors under that name. Others are those of a
// socket unit of systemd.
func isOwn(name string) bool {
	_, err := strconv.ParseUint(name, 10, 31)
	return err == nil ||
		slices.Contains([]string{linkFile, watchdogFile, frontFile, runtimeFile, ControlFile}, name)
}

// countOwn returns how many of the descriptors do not come from a socket unit.
func countOwn(files map[string]int) (count int) {
	for name := range files {
		if _, given := fdstore.Given(name); !given {
			count++
		}
	}
	return count
}

// Take removes a stored descriptor and returns it, -1 if there is none with that name. The caller
// owns it.
func (l *Link) Take(name string) int {
	fd, ok := l.files[name]
	if !ok {
		return -1
	}
	delete(l.files, name)
	return fd
}

// createdBy reports whether a descriptor is an end of a socketpair created by that process.
func createdBy(fd, pid int) bool {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && int(peer.Pid) == pid
}

// Pid returns the keeper's pid, 0 if there is none.
func (l *Link) Pid() int { return l.keeper }

// Files returns the descriptors stored by a predecessor. The caller owns them.
func (l *Link) Files() map[string]int { return l.files }

// HadChildren reports whether this process had children before it ran superd.
func (l *Link) HadChildren() bool { return l.children }

// Resumes reports whether this supervisor replaces one that did not end in order: the keeper says
// so, or there are stored descriptors.
func (l *Link) Resumes() bool { return l.resumes }

// Exits returns the exits of processes that the keeper reaped before this supervisor started.
func (l *Link) Exits() []Exit {
	exits := l.exits
	l.exits = nil
	return exits
}

// Acknowledge confirms to the keeper that the exit of a process is recorded.
func (l *Link) Acknowledge(pid int, start uint64) {
	if l.socket >= 0 {
		l.Send(acknowledgeLine(pid, start))
	}
}

// Announce sends the keeper the status with which superd ends for good.
func (l *Link) Announce(status int) {
	if l.socket >= 0 {
		l.Send(fmt.Sprintf("%s=%d", keyExit, status))
	}
}

// Watch calls the listener for messages of the keeper until scope is closed. It also makes the
// keeper watch the loop, of which a turn may take limit.
func (l *Link) Watch(scope *loop.Scope, limit time.Duration, to Listener) error {
	if l.socket < 0 {
		return nil
	}
	deliver := func() {
		for _, e := range l.Exits() {
			to.Exit(e)
		}
		if sig := l.stop; sig != 0 {
			l.stop = 0
			to.Stop(sig)
		}
		received := l.signals
		l.signals = nil
		for _, sig := range received {
			// Before the call: a signal that crashes the supervisor must not be delivered
			// repeatedly.
			l.Send(fmt.Sprintf("%s=%d", keySignalled, int(sig)))
			to.Signal(sig)
		}
	}
	var incoming, gone *loop.Watch
	var err error
	incoming, err = scope.OnReadable(l.socket, func() {
		if !l.listen() {
			incoming.Stop() // the hangup reports the keeper's end
		}
		deliver()
	})
	if err != nil {
		return fmt.Errorf("listen to keeper: %w", err)
	}
	// Only the keeper has the other end open, so a hangup means its end. A pidfd would show the
	// same, but system call filters may refuse it.
	gone, err = scope.OnHangup(l.socket, func() {
		gone.Stop()
		l.listen() // its last messages
		deliver()
		to.Gone()
	})
	if err != nil {
		return fmt.Errorf("watch keeper: %w", err)
	}
	if l.timer >= 0 && limit > 0 {
		g := newTurnTimer(l.timer, limit)
		scope.Loop().OnTurn(g.begin, g.end)
	}
	scope.Post(deliver)
	return nil
}

// WatchStart makes the keeper watch this process until the first turn of its loop has ended, as one
// turn that begins now. limit is that of Watch.
func (l *Link) WatchStart(limit time.Duration) {
	if l.timer >= 0 && limit > 0 {
		newTurnTimer(l.timer, limit).begin()
	}
}

// listen reads all available messages. It returns false when no more can come.
func (l *Link) listen() bool {
	for {
		m, ok, err := l.receiver.Next()
		if err != nil {
			return false
		}
		if !ok {
			return true
		}
		for _, fd := range m.Files {
			unix.Close(fd)
		}
		for _, line := range m.Lines {
			switch key, value := cut(line); key {
			case keyExited:
				if e, ok := parseExit(value); ok {
					l.exits = append(l.exits, e)
				}
			case keyResume:
				l.resumes = true
			case keyStop:
				l.stop = syscall.Signal(number(value))
			case keySignal:
				l.signals = append(l.signals, syscall.Signal(number(value)))
			}
		}
	}
}

// ErrSignalled says that another program was not executed, since a signal has arrived that would be
// dropped. The signal will be delivered.
var ErrSignalled = errors.New("a signal has arrived")

// Upgrade executes another binary in this process, with the stored descriptors and the link. It
// returns only on failure; then nothing has changed. Queued messages would be dropped: see Idle.
// With a keeper a failed upgrade is reverted: see trial.
func (l *Link) Upgrade(binary string, args, env []string) error {
	files := l.Stored()
	if l.keeper > 0 {
		files[linkFile] = l.socket
		env = append(slices.Clip(env), fmt.Sprintf("%s=%d", keeperVariable, l.Pid()))
		if l.timer >= 0 {
			files[watchdogFile] = l.timer
			newTurnTimer(l.timer, 0).end() // this turn does not end
		}
		l.Send(keyUpgrade + "=1")
	} else {
		env = withChildrenVariable(env, l.children)
	}
	err := errNotReading
	if l.Idle() {
		err = l.exec(binary, args, env, files)
	}
	if l.keeper > 0 {
		l.Send(keyUpgrade + "=0")
	}
	return err
}

// BecomeKeeper makes this process the keeper after the keeper has ended: it executes its program
// again with the stored descriptors. It returns only on failure.
func (l *Link) BecomeKeeper(args, env []string) error {
	path, err := signals.Executable()
	if err != nil {
		return err
	}
	// Any children were started by superd.
	return l.exec(path, args, withChildrenVariable(env, false), l.Stored())
}

var errNotReading = errors.New("the keeper does not read")

// exec executes a program in this process. Signals that arrive meanwhile do not kill it.
func (l *Link) exec(path string, args, env []string, files map[string]int) error {
	arrived, resume := l.caught.Suspend()
	defer resume()
	if slices.ContainsFunc(arrived, isForwarded) {
		return ErrSignalled
	}
	return fdstore.Exec(path, args, l.caught.Environment(env), files, l.openFiles)
}
