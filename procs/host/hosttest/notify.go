package hosttest

import (
	"superd/loop"
	"superd/procs/host"
	"superd/procs/notify"
)

// A Socket is how a run notifies superd: its notify socket and its readiness pipe.
type Socket struct {
	Messages []notify.Message // unread messages
	// Messages were lost with superd, as the socket was not stored
	Lost bool
	// Largest number of messages that superd had to read before a decision about the run
	MaxAwaited int

	run          string
	readMessages func() // lets superd read the messages; nil without a listener
	newline      bool   // whether the pipe has a newline
	readPipe     func() // lets superd read the pipe; nil without a reader
}

// A listener listens on a socket.
type listener struct {
	k           *Kernel
	socket      *Socket
	scope       *loop.Scope
	h           notify.Handler
	savePending bool // the effects of the first message are not in the journal yet
	waits       []wait
}

// A wait waits for the messages that were in the socket when it began.
type wait struct {
	remaining int
	f         func()
}

// SocketOf returns the socket and pipe of a run.
func (k *Kernel) SocketOf(run string) *Socket {
	s := k.sockets[run]
	if s == nil {
		s = &Socket{run: run}
		k.sockets[run] = s
	}
	return s
}

// openNotifyFDs opens descriptors for the socket and the pipe of a run.
func (k *Kernel) openNotifyFDs(run string, notify, ready bool) (notifyFD, readyFD int) {
	notifyFD, readyFD = -1, -1
	if notify {
		notifyFD = k.v.NewFD()
		k.notifyFDs[notifyFD] = k.SocketOf(run)
	}
	if ready {
		readyFD = k.v.NewFD()
		k.notifyFDs[readyFD] = k.SocketOf(run)
	}
	return notifyFD, readyFD
}

// Listen implements [host.Host].
func (k *Kernel) Listen(scope *loop.Scope, fd int, h notify.Handler) (host.Listener, error) {
	l := &listener{k: k, socket: k.notifyFDs[fd], scope: scope, h: h}
	scope.Defer(func() {
		l.socket.readMessages = nil
		k.CloseFD(fd)
	})
	l.socket.readMessages = func() { scope.Post(l.read) }
	l.socket.readMessages()
	return l, nil
}

// WhenTaken implements [host.Listener].
func (l *listener) WhenTaken(f func()) {
	there := len(l.socket.Messages)
	l.socket.MaxAwaited = max(l.socket.MaxAwaited, there)
	l.waits = append(l.waits, wait{there, f})
	l.read()
}

func (l *listener) read() {
	for len(l.socket.Messages) > 0 && !l.savePending && !l.scope.Closed() {
		m := l.socket.Messages[0]
		if m.MainPID != 0 {
			l.k.mainAnnounced(l.socket.run, m.MainPID)
			if l.k.Defects.IgnoresMainPID {
				m.MainPID = 0
			}
		}
		if !l.h.Message(notify.Sender{}, m) || l.k.Defects.DropsUnsaved {
			l.drop()
			continue
		}
		l.savePending = true
		l.h.WhenRecorded(func() {
			if !l.scope.Closed() {
				l.savePending = false
				l.drop()
				l.read()
			}
		})
	}
	l.callWaits()
}

// drop removes the first message from the socket.
func (l *listener) drop() {
	l.socket.Messages = l.socket.Messages[1:]
	for i := range l.waits {
		l.waits[i].remaining--
	}
	l.callWaits()
}

// callWaits calls the waits whose messages are read.
func (l *listener) callWaits() {
	for len(l.waits) > 0 && l.waits[0].remaining <= 0 && !l.scope.Closed() {
		first := l.waits[0]
		l.waits = l.waits[1:]
		first.f()
	}
}

// AwaitNewline implements [host.Host].
func (k *Kernel) AwaitNewline(scope *loop.Scope, fd int, done func(error)) error {
	socket, own := k.notifyFDs[fd], scope.Child()
	own.Defer(func() {
		socket.readPipe = nil
		k.CloseFD(fd)
	})
	look := func() {
		if socket.newline {
			own.Close()
			done(nil)
		}
	}
	socket.readPipe = func() { own.Post(look) }
	socket.readPipe()
	return nil
}

// WriteNewline writes a newline to the readiness pipe.
func (s *Socket) WriteNewline() {
	if s.newline = true; s.readPipe != nil {
		s.readPipe()
	}
}
