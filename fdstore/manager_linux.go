package fdstore

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

const (
	// statusPause is how long the status text rests after it was sent, so that a storm of crashes is no storm for the manager.
	statusPause = 200 * time.Millisecond

	// sendPause is how long a sender waits where the kernel is short of something.
	sendPause = 10 * time.Millisecond
)

// A Manager is who is told of this process, and keeps descriptors for the next: systemd, superd's keeper, or nobody. Its methods don't
// block: what the socket has no room for is sent by a goroutine, in order. They may be called from any goroutine.
type Manager struct {
	socket  int // -1: nobody
	wake    chan struct{}
	closing chan struct{}
	ended   chan struct{}

	mu     sync.Mutex
	queue  []packet
	busy   bool   // the goroutine sends: what comes now goes after it
	status string // the last text that was asked for
	rests  bool   // a text was sent just now: a newer one is looked at when that is over
	kept   table[keptFile]
}

// A packet waits to be sent.
type packet struct {
	text string
	fd   int // a duplicate; -1: none
}

// A keptFile is a descriptor of this process that the manager has a duplicate of.
type keptFile struct {
	fd  int32
	dev uint32 // the kernel's own has 32 bits
	ino uint64
}

func keptAs(fd int, st *unix.Stat_t) keptFile { return keptFile{int32(fd), uint32(st.Dev), st.Ino} }

// Nobody returns a manager that what is told to goes nowhere.
func Nobody() *Manager { return newManager(-1) }

// Connect returns the manager that listens on a socket of datagrams: NOTIFY_SOCKET, a path, or @ and an abstract name.
func Connect(path string) (*Manager, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("connect to manager: %w", err)
	}
	// One socket, connected now: later there may be no descriptor left, and a silent watchdog kills.
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to manager on %s: %w", path, err)
	}
	return newManager(fd), nil
}

// Over returns the manager at the other end of a connected socket, which stays the caller's.
func Over(socket int) *Manager { return newManager(socket) }

func newManager(socket int) *Manager {
	m := &Manager{socket: socket, wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
	go m.run()
	return m
}

// Store has the manager keep a duplicate of fd under name, which is ASCII without a colon. What it kept under that name it lets go of.
// fd stays open until [Manager.Discard] or the next Store of that name: [Manager.Kept] gives it out.
func (m *Manager) Store(name string, fd int) error {
	var st unix.Stat_t
	if !isName(name) {
		return fmt.Errorf("store descriptor %d: not a name: %q", fd, name)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("store descriptor %d: %w", fd, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.kept.get(name); again {
		m.letGo(name)
	}
	if err := m.send(keep+"\n"+nameKey+"="+name+"\n"+noPoll, fd); err != nil {
		return fmt.Errorf("store descriptor %d: %w", fd, err)
	}
	m.kept.set(name, keptAs(fd, &st))
	return nil
}

// Inherited tells that the manager keeps a descriptor already, which [Take] has returned.
func (m *Manager) Inherited(name string, fd int) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept.set(name, keptAs(fd, &st))
}

// Discard has the manager let go of what it keeps under name.
func (m *Manager) Discard(name string) {
	if !isName(name) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.letGo(name)
}

// Forget has [Manager.Kept] not give out what the manager keeps under name: it is closed here. The manager goes on keeping it.
func (m *Manager) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept.remove(name)
}

func (m *Manager) letGo(name string) {
	m.kept.remove(name)
	m.send(letGo+"\n"+nameKey+"="+name, -1)
}

// Kept returns the descriptors of this process that the manager has duplicates of, less those that were closed meanwhile and
// are something else now. Before Linux 6.9 one pidfd can't be told from another: where a number is kept under two names, the later one has it.
func (m *Manager) Kept() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := make(map[string]int, m.kept.len())
	names := make(map[int32]string, m.kept.len())
	for name, k := range m.kept.all() {
		var st unix.Stat_t
		if err := unix.Fstat(int(k.fd), &st); err == nil && keptAs(int(k.fd), &st) == k {
			delete(files, names[k.fd])
			files[name], names[k.fd] = int(k.fd), name
		}
	}
	return files
}

// Ready tells that the process is ready, or ready again after [Manager.Reloading].
func (m *Manager) Ready(status string) {
	m.Status(status)
	m.Tell(daemon.SdNotifyReady)
}

// Status has status shown by systemctl status. Of those that come fast only the last is sent.
func (m *Manager) Status(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status = status; !m.rests {
		m.signal()
	}
}

// Reloading tells that a reload has begun.
func (m *Manager) Reloading() {
	m.Tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping tells that the process is on its way out.
func (m *Manager) Stopping() { m.Tell(daemon.SdNotifyStopping) }

// Watchdog tells that the process is well.
func (m *Manager) Watchdog() { m.Tell(daemon.SdNotifyWatchdog) }

// Tell sends lines.
func (m *Manager) Tell(lines string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.send(lines, -1)
}

// Idle reports whether all is sent but, perhaps, the status.
func (m *Manager) Idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue) == 0 && !m.busy
}

// Close sends what is left, for at most patience, and returns whether all of it was sent.
func (m *Manager) Close(patience time.Duration) bool {
	close(m.closing)
	select {
	case <-m.ended:
		return true
	case <-time.After(patience):
		return false
	}
}

// send sends at once, or has it sent: then fd is duplicated first. m.mu is held.
func (m *Manager) send(text string, fd int) error {
	if m.socket < 0 {
		return nil
	}
	if len(m.queue) == 0 && !m.busy && !shortOf(sendPacket(m.socket, text, fd, unix.MSG_DONTWAIT)) {
		return nil
	}
	if fd >= 0 {
		duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, FirstFD)
		if err != nil {
			return err
		}
		fd = duplicate
	}
	m.queue = append(m.queue, packet{text, fd})
	m.signal()
	return nil
}

func (m *Manager) signal() {
	select {
	case m.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

// run sends what waits.
func (m *Manager) run() {
	defer close(m.ended)
	shown := ""
	var rest <-chan time.Time // set while the status rests
	for closing := false; !closing; {
		select {
		case <-m.wake:
		case <-rest:
			rest = nil
		case <-m.closing:
			closing, rest = true, nil
		}
		m.mu.Lock()
		if m.status != shown && rest == nil {
			shown = m.status
			rest = time.After(statusPause)
			m.send("STATUS="+shown, -1)
		}
		m.rests = rest != nil
		for len(m.queue) > 0 {
			queue := m.queue
			m.queue, m.busy = nil, true
			m.mu.Unlock()
			for _, p := range queue {
				for shortOf(sendPacket(m.socket, p.text, p.fd, 0)) {
					time.Sleep(sendPause)
				}
				if p.fd >= 0 {
					unix.Close(p.fd)
				}
			}
			m.mu.Lock()
			m.busy = false
		}
		m.mu.Unlock()
	}
}

// sendPacket sends one packet. fd may be -1.
func sendPacket(socket int, text string, fd, flags int) error {
	var rights struct { // as unix.UnixRights makes it on the heap
		unix.Cmsghdr
		fd int32
		_  int32
	}
	var control []byte
	if fd >= 0 {
		rights.Level, rights.Type, rights.fd = unix.SOL_SOCKET, unix.SCM_RIGHTS, int32(fd)
		rights.SetLen(unix.CmsgLen(4))
		control = unsafe.Slice((*byte)(unsafe.Pointer(&rights)), unix.CmsgSpace(4))
	}
	for {
		_, err := unix.SendmsgN(socket, unsafe.Slice(unsafe.StringData(text), len(text)), control, nil, flags|unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// shortOf reports whether a packet was not sent for want of room, or of something else that comes back. Any other error means that
// nobody receives: there is nobody to tell.
func shortOf(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ETOOMANYREFS)
}
