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

	"superd/fdstore"
	"superd/loop"
	"superd/pidfd"
	"superd/signals"
)

// A Link is the supervisor's side: what it tells who outlives it, superd's keeper or systemd, and hears of him.
type Link struct {
	*fdstore.Manager
	caught   *signals.Caught
	files    map[string]int // that were handed over
	socket   int            // -1: no keeper
	receiver *fdstore.Receiver
	keeper   *pidfd.Process // nil: no keeper
	timer    int            // the watchdog's; -1: none
	exits    []Exit
	signals  []syscall.Signal
	resumes  bool

	openFiles *unix.Rlimit // of whoever is executed in this process's place; nil: as it is
}

// A Listener is told what the keeper sends, on the loop.
type Listener struct {
	Signal func(syscall.Signal) // the keeper got one
	Exit   func(Exit)           // a process that the keeper has reaped
	Gone   func()               // the keeper has ended
}

// Join returns the link of this process to whom it has been started by: superd's keeper, else systemd where NOTIFY_SOCKET is set, else nobody.
// What was handed over comes with it; a keeper that has ended meanwhile has left it to this process. Join comes before
// signals.MarkInheritedCloexec. caught are on hold while another program takes this one's place, which gets openFiles as its limit of open files.
func Join(caught *signals.Caught, openFiles *unix.Rlimit) (*Link, error) {
	pid, _ := strconv.Atoi(os.Getenv(keeperVariable))
	os.Unsetenv(keeperVariable)
	l := &Link{caught: caught, openFiles: openFiles, socket: -1, timer: -1}
	l.files = fdstore.Take(func(files map[string]int) bool {
		fd, ok := files[linkFile]
		return ok && madeBy(fd, pid)
	})
	socket, timer := l.Take(linkFile), l.Take(watchdogFile)
	if pid > 0 && socket >= 0 {
		if keeper, err := pidfd.Open(pid); err == nil && os.Getppid() == pid { // so it is the one, and lives
			l.keeper, l.socket, l.timer = keeper, socket, timer
		}
	}
	if l.keeper == nil {
		unix.Close(socket) // of a keeper that has ended, if any
		unix.Close(timer)
	}
	switch path := os.Getenv("NOTIFY_SOCKET"); {
	case l.keeper != nil:
		l.Manager, l.receiver = fdstore.Over(socket), fdstore.NewReceiver(socket)
		l.listen()
	case path != "":
		manager, err := fdstore.Connect(path)
		if err != nil {
			return nil, err
		}
		l.Manager = manager
	default:
		l.Manager = fdstore.Nobody()
	}
	for _, name := range fdstore.InTurn(l.files) {
		l.Inherited(name, l.files[name])
		l.resumes = true
	}
	return l, nil
}

// Take takes a descriptor out of those that were stored, -1 if it is not among them. The caller owns it.
func (l *Link) Take(name string) int {
	fd, ok := l.files[name]
	if !ok {
		return -1
	}
	delete(l.files, name)
	return fd
}

// madeBy reports whether a descriptor is an end of a socketpair that the process has made.
func madeBy(fd, pid int) bool {
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	return err == nil && int(peer.Pid) == pid
}

// Pid returns the keeper's pid, 0 where there is none.
func (l *Link) Pid() int {
	if l.keeper == nil {
		return 0
	}
	return l.keeper.Pid()
}

// Files returns the descriptors that were stored by an earlier supervisor. The caller owns them.
func (l *Link) Files() map[string]int { return l.files }

// Resumes reports whether this supervisor takes the place of one that did not come to an orderly end: the keeper says so, or there is
// what that one has stored.
func (l *Link) Resumes() bool { return l.resumes }

// Exits returns the ends of processes that the keeper has reaped before this supervisor came.
func (l *Link) Exits() []Exit {
	exits := l.exits
	l.exits = nil
	return exits
}

// Acknowledge tells that the exit of a process is noted.
func (l *Link) Acknowledge(pid int, start uint64) {
	if l.socket >= 0 {
		l.Tell(acknowledgeLine(pid, start))
	}
}

// Announce tells the keeper that superd ends for good, with this status.
func (l *Link) Announce(status int) {
	if l.socket >= 0 {
		l.Tell(fmt.Sprintf("%s=%d", keyExit, status))
	}
}

// Watch has what the keeper sends told to the listener until scope is closed, and has it watch the loop, a turn of which may
// take limit.
func (l *Link) Watch(scope *loop.Scope, limit time.Duration, to Listener) error {
	if l.socket < 0 {
		return nil
	}
	deliver := func() {
		for _, e := range l.Exits() {
			to.Exit(e)
		}
		received := l.signals
		l.signals = nil
		for _, sig := range received {
			to.Signal(sig)
		}
	}
	var heard, gone *loop.Watch
	var err error
	heard, err = scope.OnReadable(l.socket, func() {
		if !l.listen() {
			heard.Stop() // the pidfd tells of the keeper's end
		}
		deliver()
	})
	if err != nil {
		return fmt.Errorf("listen to keeper: %w", err)
	}
	gone, err = scope.OnReadable(l.keeper.FD(), func() {
		gone.Stop()
		l.listen() // what it has said last
		deliver()
		to.Gone()
	})
	if err != nil {
		return fmt.Errorf("watch keeper: %w", err)
	}
	if l.timer >= 0 && limit > 0 {
		g := newGuard(l.timer, limit)
		scope.Loop().OnTurn(g.begin, g.end)
	}
	scope.Post(deliver)
	return nil
}

// ComesUp has the keeper watch the process until the first turn of its loop has ended, as if that took since now. limit is that of Watch.
func (l *Link) ComesUp(limit time.Duration) {
	if l.timer >= 0 && limit > 0 {
		newGuard(l.timer, limit).begin()
	}
}

// listen reads what there is. It returns false when no more will come.
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
			case keySignal:
				l.signals = append(l.signals, syscall.Signal(number(value)))
			}
		}
	}
}

// ErrSignalled is why another program was not executed: a signal has arrived, and would be lost. It is about to be delivered.
var ErrSignalled = errors.New("a signal has just arrived")

// Upgrade executes another binary in this process's place, which gets what is stored and the link. It returns only if that failed; then
// everything is as before. What waits to be sent would be lost: see Idle. With a keeper there is a way back: see trial.
func (l *Link) Upgrade(binary string, args, env []string) error {
	files := l.Kept()
	if l.keeper != nil {
		files[linkFile] = l.socket
		env = append(slices.Clip(env), fmt.Sprintf("%s=%d", keeperVariable, l.Pid()))
		if l.timer >= 0 {
			files[watchdogFile] = l.timer
			newGuard(l.timer, 0).end() // this turn ends nowhere
		}
		l.Tell(keyUpgrade + "=1")
	}
	err := errUnheard
	if l.Idle() {
		err = l.exec(binary, args, env, files)
	}
	if l.keeper != nil {
		l.Tell(keyUpgrade + "=0")
	}
	return err
}

// TakeRole makes this process the keeper, after the keeper has ended: it executes its program again with what it has stored. It returns only
// if that failed.
func (l *Link) TakeRole(args, env []string) error {
	path, err := signals.Executable()
	if err != nil {
		return err
	}
	return l.exec(path, args, env, l.Kept())
}

var errUnheard = errors.New("the keeper does not hear")

// exec executes a program in this process's place. Signals that arrive meanwhile don't kill it.
func (l *Link) exec(path string, args, env []string, files map[string]int) error {
	arrived, release := l.caught.Hold()
	defer release()
	if slices.ContainsFunc(arrived, handedOn) {
		return ErrSignalled
	}
	return fdstore.Exec(path, args, env, files, l.openFiles)
}
