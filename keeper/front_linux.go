package keeper

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/keeper/fdstore"
	"superd/loop"
	"superd/pidfd"
	"superd/signals"
)

// frontFile is the name of the keeper's end of the socketpair to the front process.
const frontFile = "front"

// FrontOptions are the arguments of RunFront.
type FrontOptions struct {
	Log       *slog.Logger
	Args      []string // command line of the keeper, beginning with the program's name
	Env       []string
	Signals   *signals.Caught
	Terminal  *Terminal
	OpenFiles *unix.Rlimit // limit on open files for the keeper; nil: unchanged
	// A hangup of the terminal ends superd even if no SIGHUP comes: that goes to the job in the
	// foreground and to the shell, which may have been killed
	EndWithTerminal bool
}

// RunFront runs the front process: the process that leads the job of the terminal's shell. It
// starts the keeper in a session of its own, forwards signals to it, and exits with superd's status
// when superd has ended. So keeper and supervisor may be killed while the shell's job continues,
// and Ctrl-C still reaches superd.
//
// Front process and keeper are joined by a socketpair. The keeper and each supervisor, which may
// become the keeper, have its other end open: when that is closed everywhere, superd has ended.
// When the front process ends first, or the terminal hangs up, the keeper shuts superd down.
func RunFront(o FrontOptions) (status int, err error) {
	SetTitle(frontTitle, "")
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("start keeper: make socketpair: %w", err)
	}
	fds, env := fdstore.Handover(map[string]int{frontFile: pair[1]}, o.Env)
	path, err := signals.Executable()
	if err != nil {
		return 0, fmt.Errorf("start keeper: %w", err)
	}
	keeper, err := pidfd.Spawn(&pidfd.Attr{
		Path: path, Args: o.Args, Env: env, Files: append([]int{0, 1, 2}, fds...), CgroupFD: -1,
		OpenFiles: o.OpenFiles,
	})
	unix.Close(pair[1])
	if err != nil {
		return 0, fmt.Errorf("start keeper: %w", err)
	}
	l, err := loop.New()
	if err != nil {
		return 0, fmt.Errorf("start front process: %w", err)
	}
	f := &front{options: o, loop: l, socket: pair[0], receiver: fdstore.NewReceiver(pair[0]), status: -1}
	if _, err := l.Root().OnReadable(f.socket, f.onMessage); err != nil {
		return 0, fmt.Errorf("start front process: %w", err)
	}
	if err := o.Signals.Watch(l.Root(), f.onSignal); err != nil {
		return 0, fmt.Errorf("start front process: %w", err)
	}
	if o.EndWithTerminal {
		if err := o.Terminal.OnHangup(l.Root(), f.onHangup); err != nil {
			return 0, fmt.Errorf("start front process: %w", err)
		}
	}
	if err := l.Run(); err != nil {
		return 0, err
	}
	if f.status < 0 { // the keeper did not send it
		f.status = endOf(keeper)
	}
	return f.status, nil
}

// endOf returns the exit status of a keeper that did not send superd's. It waits until the keeper
// has ended.
func endOf(keeper *pidfd.Process) int {
	poll := []unix.PollFd{{Fd: int32(keeper.FD()), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(poll, -1); err != unix.EINTR {
			break
		}
	}
	exit, _, err := keeper.Wait()
	switch {
	case err != nil || !exit.Known:
		return 1
	case exit.Signal != 0:
		return 128 + int(exit.Signal)
	}
	return exit.Code
}

// A front is the state of the front process. It lives on its loop's goroutine.
type front struct {
	options  FrontOptions
	loop     *loop.Loop
	socket   int
	receiver *fdstore.Receiver
	status   int // superd's status as sent by the keeper; -1: not yet
}

func (f *front) onSignal(sig syscall.Signal) {
	line := signalLine(sig)
	switch {
	case !isForwarded(sig):
		return // the socket shows the end of the keeper
	case sig == unix.SIGHUP && f.options.Terminal.HungUp():
		line = keyHangup + "=1"
	}
	if sent, err := fdstore.Send(f.socket, line); err != nil || !sent {
		f.options.Log.Error("signal not passed on to superd's keeper", "signal", unix.SignalName(sig), "error", err)
	}
}

// onHangup tells the keeper that the terminal has hung up.
func (f *front) onHangup() {
	_, _ = fdstore.Send(f.socket, keyHangup+"=1") // an error means that it has ended
}

// onMessage handles messages of the keeper.
func (f *front) onMessage() {
	for {
		m, ok, err := f.receiver.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				f.options.Log.Error("messages of superd's keeper not received", "error", err)
			}
			f.loop.Stop()
			return
		}
		if !ok {
			return
		}
		for _, line := range m.Lines {
			switch key, value := cut(line); key {
			case keyExit:
				f.status = number(value)
			case keyRuntimeDir:
				SetTitle(frontTitle, value)
			}
		}
	}
}

// openFront watches the socket of the front process, if there is one.
func (k *Keeper) openFront() error {
	if k.front < 0 {
		return nil
	}
	from := fdstore.NewReceiver(k.front)
	var incoming *loop.Watch
	onMessage := func() {
		for {
			m, ok, err := from.Next()
			if err != nil { // it has ended, by an uncatchable signal
				incoming.Stop()
				k.log.Warn("the front process has ended: superd ends, too")
				k.requestStop(unix.SIGHUP)
				return
			}
			if !ok {
				return
			}
			for _, line := range m.Lines {
				switch key, value := cut(line); key {
				case keySignal:
					k.onSignal(syscall.Signal(number(value)))
				case keyHangup:
					k.log.Warn("superd's terminal was closed: superd ends, too")
					k.requestStop(unix.SIGHUP)
				}
			}
		}
	}
	var err error
	incoming, err = k.loop.Root().OnReadable(k.front, onMessage)
	return err
}

// sendFront sends a message to the front process, if there is one.
func (k *Keeper) sendFront(key, value string) {
	if k.front >= 0 {
		_, _ = fdstore.Send(k.front, key+"="+value) // an error means that it has ended
	}
}

// A Terminal is the controlling terminal of this process.
type Terminal struct {
	Outlived bool // superd continues without it, as with nohup(1)
	fd       int
	hungUpAt time.Duration // as far as known; 0: not yet
}

// hangupTime is how long after a hangup the terminal, or its shell, may send SIGHUP.
const hangupTime = time.Second

// OpenTerminal opens the controlling terminal, and returns nil if there is none.
//
// Source: tty(4).
func OpenTerminal(outlived bool) *Terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &Terminal{Outlived: outlived, fd: fd}
}

// Watch records the time at which the terminal hangs up, until scope is closed.
func (t *Terminal) Watch(scope *loop.Scope) error {
	return t.OnHangup(scope, func() { t.noteHangup(scope.Loop().Now()) })
}

// OnHangup calls f when the terminal hangs up, until scope is closed.
func (t *Terminal) OnHangup(scope *loop.Scope, f func()) error {
	if t == nil {
		return nil
	}
	var hangup *loop.Watch
	hangup, err := scope.OnHangup(t.fd, func() {
		hangup.Stop() // it stays hung up
		f()
	})
	if err != nil {
		return fmt.Errorf("watch terminal: %w", err)
	}
	return nil
}

func (t *Terminal) noteHangup(now time.Duration) {
	if t.hungUpAt == 0 {
		t.hungUpAt = now
	}
}

// Hangup reports whether a SIGHUP received now is due to a hangup of the terminal. If superd
// outlives the terminal, a later SIGHUP is a request to reload.
func (t *Terminal) Hangup(now time.Duration) bool {
	if !t.HungUp() {
		return false
	}
	t.noteHangup(now)
	return !t.Outlived || now-t.hungUpAt < hangupTime
}

// HungUp reports whether the terminal has hung up: its window is closed, its line is cut, or its
// session has ended. The kernel marks the hangup before it sends SIGHUP. So this distinguishes the
// SIGHUP of a hangup, also one that a shell forwards, from a request to reload.
func (t *Terminal) HungUp() bool {
	if t == nil {
		return false
	}
	poll := []unix.PollFd{{Fd: int32(t.fd)}}
	for {
		n, err := unix.Poll(poll, 0)
		if err == unix.EINTR {
			continue
		}
		return err == nil && n > 0 && poll[0].Revents&unix.POLLHUP != 0
	}
}

// runtimeDir returns the runtime directory, "" while it is unknown.
func (k *Keeper) runtimeDir() string {
	fd, ok := k.store.Files()[runtimeFile]
	if !ok {
		return ""
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return ""
	}
	return path
}
