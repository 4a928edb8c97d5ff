package notify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// A Sender is whom the kernel names as the sender of a message.
type Sender struct {
	Pid, UID, GID int
}

// A Handler takes what comes to a socket. Its functions are called on the loop.
type Handler struct {
	// Accept reports whether the sender may speak for the program.
	Accept func(Sender) bool
	// Message takes a message of an accepted sender. It may close the scope. hold tells that the message must not be lost until what
	// follows from it is settled: only then is it taken out of the socket. Who hears the socket next, if superd is killed before, gets it again.
	Message func(Sender, Message) (hold bool)
	// Settled calls done when that is so. It is needed where Message holds messages.
	Settled func(done func())
	// Refused tells why a message, or a part of it, was passed over: at most once in refusedPause, so that it may be logged.
	Refused func(Sender, error)
}

// What a program can have the loop do.
const (
	messagesPerTurn   = 16
	messagesPerWindow = 64 // what comes beyond waits in the socket, and then its sender does
	window            = 100 * time.Millisecond
	refusedPause      = time.Minute
	watchPause        = time.Second // before a watch that failed is tried again
	takePatience      = time.Second // how long a flood, or what can't be closed, may delay what waits for the messages before
)

// Open makes the socket of a run at path, which becomes NOTIFY_SOCKET: mode 0600, owned by the user with these ids. One that
// lies there already is replaced, in one instant, so that the program of a run that goes on finds the one or the other. It runs off the
// loop. The path may have 107 bytes, less 4 for its making.
func Open(path string, uid, gid int) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open notify socket: %w", err)
	}
	made := path + ".new"
	if err := makeSocket(fd, path, made, uid, gid); err != nil {
		unix.Close(fd)
		os.Remove(made)
		return -1, fmt.Errorf("make notify socket: %w", err)
	}
	return fd, nil
}

func makeSocket(fd int, path, made string, uid, gid int) error {
	if len(made) >= len(unix.RawSockaddrUnix{}.Path) {
		return &os.PathError{Op: "bind", Path: path, Err: fmt.Errorf("%w: choose a shorter runtime_dir", unix.ENAMETOOLONG)}
	}
	// Before there is a path: each message shall tell its sender.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	// The mode of the socket is that of its file.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return os.NewSyscallError("fchmod", err)
	}
	if err := os.Remove(made); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: made}); err != nil {
		return &os.PathError{Op: "bind", Path: made, Err: err}
	}
	if err := os.Lchown(made, uid, gid); err != nil {
		return err
	}
	return os.Rename(made, path)
}

// A Receiver hears one socket.
type Receiver struct {
	scope   *loop.Scope
	fd      int
	handler Handler
	watch   *loop.Watch
	buffer  [maxMessage]byte

	windowEnds time.Duration // both on the loop's clock
	held       bool          // the first message in the socket has been handled and is not settled
	closing    bool          // what came along with a message is being closed
	count      int           // messages in the window
	quietUntil time.Duration // for Refused

	waiting  []func()    // of WhenTaken
	patience *loop.Timer // with what delays them; nil before
}

// Receive has the handler called for what comes to the socket fd, until the scope is closed. It takes ownership of fd, also when it
// returns an error. What came before the call is not lost.
//
// Descriptors that come along are closed once the message has been handled, as BARRIER=1 wants it.
func Receive(scope *loop.Scope, fd int, h Handler) (*Receiver, error) {
	r := &Receiver{scope: scope, fd: fd, handler: h}
	scope.Defer(func() { unix.Close(fd) }) // older than the watch, so after it
	watch, err := scope.OnReadable(fd, r.take)
	if err != nil {
		return nil, fmt.Errorf("receive notifications: %w", err)
	}
	r.watch = watch
	return r, nil
}

// resume watches again after a pause.
func (r *Receiver) resume() {
	if r.held || r.closing {
		return // there is another one to come
	}
	r.watch.Stop()
	var err error
	if r.watch, err = r.scope.OnReadable(r.fd, r.take); err != nil { // memory or watches are short
		r.scope.After(watchPause, r.resume)
	}
	if len(r.waiting) > 0 { // there may be no message that would tell
		r.take()
	}
}

// WhenTaken has f called once, when all has been taken that is in the socket now: before it returns, where nothing is in the way. A message
// that is held may be in the way for as long as it takes, anything else for takePatience.
func (r *Receiver) WhenTaken(f func()) {
	r.waiting = append(r.waiting, f)
	r.take()
	r.bePatient()
}

// bePatient bounds how long those wait who wait.
func (r *Receiver) bePatient() {
	if len(r.waiting) > 0 && !r.held && !r.patience.Active() && !r.scope.Closed() {
		r.patience = r.scope.After(takePatience, r.taken)
	}
}

// taken tells those who wait.
func (r *Receiver) taken() {
	waiting := r.waiting
	r.waiting = nil
	r.patience.Stop()
	for _, f := range waiting {
		if !r.scope.Closed() {
			f()
		}
	}
}

// take takes what is there, as far as a program may keep the loop busy.
func (r *Receiver) take() {
	for range messagesPerTurn {
		if r.held || r.closing || r.scope.Closed() {
			return
		}
		if !r.inBudget() {
			r.watch.Stop()
			r.scope.After(r.windowEnds-r.scope.Loop().Now(), r.resume)
			return
		}
		passed, hold, more := r.takeOne()
		switch {
		case hold:
			r.hold(passed)
		case len(passed) > 0:
			r.close(passed)
		}
		if !more {
			r.taken()
			return
		}
	}
}

// close closes the descriptors that came along with a message. That may hang, as on a dead network mount. Until it is done, nothing more is
// taken from this socket.
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

// hold leaves the message that was handled where it is until it is settled.
func (r *Receiver) hold(passed []int) {
	r.watch.Stop()
	r.patience.Stop()
	r.held = true
	r.handler.Settled(func() {
		if !r.scope.Closed() {
			r.drop()
		}
		r.held = false
		if len(passed) > 0 {
			r.close(passed)
		} else {
			r.resume()
		}
		r.bePatient()
	})
}

// drop takes a message that was handled out of the socket.
func (r *Receiver) drop() {
	var none [1]byte
	recvmsg(r.fd, none[:], nil, 0)
}

func (r *Receiver) inBudget() bool {
	if now := r.scope.Loop().Now(); now >= r.windowEnds {
		r.windowEnds, r.count = now+window, 0
	}
	r.count++
	return r.count <= messagesPerWindow
}

// takeOne handles one message. It returns the descriptors that came along, whether it is to be held, and false if there may be no further message.
func (r *Receiver) takeOne() (passed []int, hold, more bool) {
	var control [2048]byte // the kernel passes 253 descriptors at most (SCM_MAX_FD)
	n, controlBytes, flags, err := recvmsg(r.fd, r.buffer[:], control[:], unix.MSG_PEEK)
	if err != nil {
		return nil, false, false // nothing is there
	}
	sender, passed := parseControl(control[:controlBytes])
	switch {
	case sender.Pid <= 0:
		r.refuse(sender, errors.New("refuse message: its sender is not of this pid namespace"))
	case !r.handler.Accept(sender):
		why := fmt.Sprintf("process %d is none of the program's", sender.Pid)
		if errors.Is(unix.Kill(sender.Pid, 0), unix.ESRCH) {
			why = fmt.Sprintf("process %d has ended, and whose it was can't be told: who tells something and ends must wait until it is taken (BARRIER=1; systemd-notify without --no-block)", sender.Pid)
		}
		r.refuse(sender, errors.New("refuse message: "+why))
	case flags&unix.MSG_TRUNC != 0:
		r.refuse(sender, fmt.Errorf("refuse message: it has more than %d bytes", maxMessage))
	default:
		m, err := Parse(r.buffer[:n])
		if err != nil {
			r.refuse(sender, err)
		}
		hold = r.handler.Message(sender, m)
	}
	if !hold && !r.scope.Closed() {
		r.drop()
	}
	return passed, hold, true
}

func (r *Receiver) refuse(s Sender, err error) {
	if now := r.scope.Loop().Now(); now >= r.quietUntil {
		r.quietUntil = now + refusedPause
		r.handler.Refused(s, err)
	}
}

func recvmsg(fd int, p, control []byte, how int) (n, controlBytes, flags int, err error) {
	for {
		n, controlBytes, flags, _, err = unix.Recvmsg(fd, p, control, how|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return n, controlBytes, flags, err
		}
	}
}

// parseControl returns who has sent a message, with Pid 0 if the kernel didn't say, and the descriptors that came along.
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
