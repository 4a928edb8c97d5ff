package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// A Sender is the sender of a message according to the kernel.
type Sender struct {
	Pid, UID, GID int
}

// A Handler handles the messages of a socket. Its functions are called on the loop.
type Handler struct {
	// Accept reports whether the sender may speak for the program.
	Accept func(Sender) bool
	// Message handles a message of an accepted sender. It may close the scope. keep requests that
	// the message stays in the socket until its effects are recorded; if superd is killed before,
	// the successor receives it again.
	Message func(Sender, Message) (keep bool)
	// WhenRecorded calls done when the effects of a kept message are recorded. It is required if
	// Message may return true.
	WhenRecorded func(done func())
	// Refused receives the reason why a message, or a part of it, was skipped: at most once in
	// refusedPause, so that it may be logged.
	Refused func(Sender, error)
}

// Limits on the work that a program can cause on the loop.
const (
	messagesPerTurn   = 16
	messagesPerWindow = 64 // further messages wait in the socket, and finally block their sender
	window            = 100 * time.Millisecond
	refusedPause      = time.Minute
	watchPause        = time.Second // before a failed watch is tried again
	// How long a flood, or a descriptor whose close hangs, may delay callers of WhenTaken
	drainTimeout = time.Second

	// socketCapacity is the maximum number of messages in a socket: net.unix.max_dgram_qlen as set
	// by systemd. The kernel's default is 10. Waiting for more would mean waiting for later
	// messages.
	socketCapacity = 512
)

// Open creates the socket of a run at path, which becomes NOTIFY_SOCKET. It atomically replaces an
// existing one, so that a running program finds either. It must not run on the loop. The path may
// have 107 bytes.
//
// Any user may send to it, so that a program that has dropped its rights still can. The name is the
// secret: its directory must be searchable, but not readable, for others. The socket is bound to
// another name and then renamed, since the kernel shows the bound name to all users
// (/proc/net/unix).
func Open(path string) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open notify socket: %w", err)
	}
	bound := boundName(path)
	if err := makeSocket(fd, path, bound); err != nil {
		unix.Close(fd)
		os.Remove(bound)
		return -1, fmt.Errorf("make notify socket: %w", err)
	}
	return fd, nil
}

// boundName returns the name to which the socket of path is bound. It is constant, so that a
// leftover one is replaced, and no longer than path may be.
func boundName(path string) string {
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(filepath.Dir(path), "new-"+hex.EncodeToString(sum[:6]))
}

func makeSocket(fd int, path, bound string) error {
	if most := len(unix.RawSockaddrUnix{}.Path) - 1; max(len(path), len(bound)) > most {
		return &os.PathError{Op: "bind", Path: bound,
			Err: fmt.Errorf("%w: choose a shorter runtime_dir", unix.ENAMETOOLONG)}
	}
	// Before there is a path, so that each message has its sender.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	// The socket inherits the mode of its file; no other user may send to it by its first name.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return os.NewSyscallError("fchmod", err)
	}
	if err := os.Remove(bound); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: bound}); err != nil {
		return &os.PathError{Op: "bind", Path: bound, Err: err}
	}
	if err := os.Rename(bound, path); err != nil {
		return err
	}
	return os.Chmod(path, 0o666)
}

// A Receiver receives the messages of one socket.
type Receiver struct {
	scope   *loop.Scope
	fd      int
	handler Handler
	watch   *loop.Watch
	buffer  [maxMessage]byte

	windowEnds   time.Duration // on the loop's clock, like refusedUntil
	kept         bool          // the first message in the socket is not recorded yet
	closing      bool          // descriptors passed with a message are being closed
	count        int           // messages in the window
	refusedUntil time.Duration // no call of Refused before

	waiting    []wait      // callers of WhenTaken
	drainTimer *loop.Timer // bounds their delay; nil before the first
}

// A wait is a call of WhenTaken.
type wait struct {
	remaining int // messages to take first; fewer if the socket becomes empty
	f         func()
}

// Receive calls the handler for messages of the socket fd, which it owns, until the scope is
// closed. Messages from before the call are handled, too. An error says why the socket can't be
// watched yet: that is tried again.
//
// Descriptors in a message are closed once it has been handled, as BARRIER=1 requires.
func Receive(scope *loop.Scope, fd int, h Handler) (*Receiver, error) {
	r := &Receiver{scope: scope, fd: fd, handler: h}
	scope.Defer(func() { unix.Close(fd) }) // registered before the watch, so closed after it
	var err error
	if r.watch, err = scope.OnReadable(fd, r.take); err != nil {
		scope.After(watchPause, r.resume)
		return r, fmt.Errorf("receive notifications: %w", err)
	}
	return r, nil
}

// resume watches again after a pause.
func (r *Receiver) resume() {
	if r.kept || r.closing {
		return // another call will follow
	}
	r.watch.Stop()
	var err error
	// A shortage of memory or watches.
	if r.watch, err = r.scope.OnReadable(r.fd, r.take); err != nil {
		r.scope.After(watchPause, r.resume)
	}
	if len(r.waiting) > 0 { // there may be no further message to trigger it
		r.take()
	}
}

// WhenTaken calls f once, when all messages now in the socket were callWaiters: before it returns,
// if nothing delays it. A kept message may delay it without limit, anything else for drainTimeout.
// Later messages delay f by at most a full socket.
func (r *Receiver) WhenTaken(f func()) {
	r.waiting = append(r.waiting, wait{socketCapacity, f})
	r.take()
	r.armDrainTimer()
}

// armDrainTimer bounds the delay of waiting callers.
func (r *Receiver) armDrainTimer() {
	if len(r.waiting) > 0 && !r.kept && !r.drainTimer.Active() && !r.scope.Closed() {
		r.drainTimer = r.scope.After(drainTimeout, r.callWaiters)
	}
}

// callWaiters calls the waiting callers.
func (r *Receiver) callWaiters() {
	waiting := r.waiting
	r.waiting = nil
	r.drainTimer.Stop()
	for _, w := range waiting {
		if !r.scope.Closed() {
			w.f()
		}
	}
}

// take handles available messages, within the limits.
func (r *Receiver) take() {
	for range messagesPerTurn {
		if r.kept || r.closing || r.scope.Closed() {
			return
		}
		if !r.inBudget() {
			r.watch.Stop()
			r.scope.After(r.windowEnds-r.scope.Loop().Now(), r.resume)
			return
		}
		passed, keep, more := r.takeOne()
		switch {
		case keep:
			r.keepUntilRecorded(passed)
		case len(passed) > 0:
			r.close(passed)
		}
		if !more {
			r.callWaiters()
			return
		}
	}
}

// close closes descriptors passed with a message. That may block, as on a dead network mount. Until
// it is done, no message is callWaiters from this socket.
func (r *Receiver) close(passed []int) {
	r.watch.Stop()
	r.closing = true
	go func() {
		closeAll(passed)
		r.scope.Post(func() {
			r.closing = false
			r.resume()
		})
	}()
}

// keepUntilRecorded leaves a handled message in the socket until its effects are recorded.
func (r *Receiver) keepUntilRecorded(passed []int) {
	r.watch.Stop()
	r.drainTimer.Stop()
	r.kept = true
	r.handler.WhenRecorded(func() {
		r.kept = false
		if !r.scope.Closed() {
			r.drop()
		}
		if len(passed) > 0 {
			r.close(passed)
		} else {
			r.resume()
		}
		r.armDrainTimer()
	})
}

// drop removes a handled message from the socket, and calls those that have waited for the maximum
// number.
func (r *Receiver) drop() {
	var none [1]byte
	recvmsg(r.fd, none[:], nil, 0)
	for i := range r.waiting {
		r.waiting[i].remaining--
	}
	for len(r.waiting) > 0 && r.waiting[0].remaining <= 0 && !r.scope.Closed() {
		first := r.waiting[0]
		r.waiting = r.waiting[1:]
		first.f()
	}
}

func (r *Receiver) inBudget() bool {
	if now := r.scope.Loop().Now(); now >= r.windowEnds {
		r.windowEnds, r.count = now+window, 0
	}
	r.count++
	return r.count <= messagesPerWindow
}

// takeOne handles one message. It returns the descriptors passed with it, whether it must be kept,
// and whether there may be another.
func (r *Receiver) takeOne() (passed []int, keep, more bool) {
	var control [2048]byte // the kernel passes at most 253 descriptors (SCM_MAX_FD)
	n, controlBytes, flags, err := recvmsg(r.fd, r.buffer[:], control[:], unix.MSG_PEEK)
	if err != nil {
		return nil, false, false // no message
	}
	sender, passed := parseControl(control[:controlBytes])
	switch {
	case sender.Pid <= 0:
		r.refuse(sender, errors.New("refuse message: its sender is in another PID namespace"))
	case !r.handler.Accept(sender):
		r.refuse(sender, errForeignSender)
	case flags&unix.MSG_TRUNC != 0:
		r.refuse(sender, fmt.Errorf("refuse message: it has more than %d bytes", maxMessage))
	default:
		m, err := Parse(r.buffer[:n])
		if err != nil {
			r.refuse(sender, err)
		}
		keep = r.handler.Message(sender, m)
	}
	if !keep && !r.scope.Closed() {
		r.drop()
	}
	return passed, keep, true
}

var errForeignSender = errors.New("refuse message: its sender does not belong to the program")

func (r *Receiver) refuse(s Sender, err error) {
	now := r.scope.Loop().Now()
	if now < r.refusedUntil {
		return
	}
	r.refusedUntil = now + refusedPause
	if errors.Is(err, errForeignSender) {
		err = foreignSenderError(s.Pid)
	}
	r.handler.Refused(s, err)
}

// foreignSenderError returns the reason why a message of that process was refused.
func foreignSenderError(pid int) error {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return fmt.Errorf("refuse message: process %d has ended and can't be attributed: "+
			"a sender must not end before its message is received "+
			"(BARRIER=1; systemd-notify without --no-block)", pid)
	}
	return fmt.Errorf("refuse message: process %d does not belong to the program", pid)
}

func recvmsg(fd int, p, control []byte, how int) (n, controlBytes, flags int, err error) {
	for {
		n, controlBytes, flags, _, err = unix.Recvmsg(fd, p, control, how|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return n, controlBytes, flags, err
		}
	}
}

// parseControl returns the sender of a message, with Pid 0 if unknown, and the descriptors passed
// with it.
func parseControl(control []byte) (s Sender, passed []int) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return s, nil
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_SOCKET {
			continue
		}
		switch m.Header.Type {
		case unix.SCM_CREDENTIALS:
			if cred, err := unix.ParseUnixCredentials(&m); err == nil {
				s.Pid, s.UID, s.GID = int(cred.Pid), int(cred.Uid), int(cred.Gid)
			}
		case unix.SCM_RIGHTS:
			if fds, err := unix.ParseUnixRights(&m); err == nil {
				passed = append(passed, fds...)
			}
		}
	}
	return s, passed
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
