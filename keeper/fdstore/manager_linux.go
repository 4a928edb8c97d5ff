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
	// statusPause is the least time between two status texts: many crashes must not flood the
	// manager.
	statusPause = 200 * time.Millisecond

	// sendPause is the pause before a send is retried after a shortage in the kernel.
	sendPause = 10 * time.Millisecond
)

// A Manager receives reports about this process and stores descriptors for the next one: systemd,
// superd's keeper, or none. Its methods don't block: a goroutine sends, in order, what the socket
// has no room for. They may be called from any goroutine.
type Manager struct {
	socket  int // -1: no manager
	wake    chan struct{}
	closing chan struct{}
	ended   chan struct{}

	mu           sync.Mutex
	queue        []packet
	busy         bool   // the goroutine is sending; new packets must queue behind
	status       string // last text requested
	statusPaused bool   // a newer text waits until statusPause is over
	stored       table[storedFile]
}

// A packet is a packet that waits to be sent.
type packet struct {
	text string
	fd   int // a duplicate; -1: none
}

// A storedFile is a descriptor of this process of which the manager has a duplicate.
type storedFile struct {
	fd  int32
	dev uint32 // 32 bits, as in the kernel
	ino uint64
}

func asStored(fd int, st *unix.Stat_t) storedFile {
	return storedFile{int32(fd), uint32(st.Dev), st.Ino}
}

// Noop returns a manager that drops all reports.
func Noop() *Manager { return newManager(-1) }

// Connect returns the manager that listens on a datagram socket: the value of NOTIFY_SOCKET, a
// path, or @ and an abstract name.
func Connect(path string) (*Manager, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("connect to manager: %w", err)
	}
	// Connect one socket now: later descriptors may have run out, and a missed watchdog ping would
	// kill superd.
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("connect to manager on %s: %w", path, err)
	}
	return newManager(fd), nil
}

// Over returns the manager at the other end of a connected socket, which the caller still owns.
func Over(socket int) *Manager { return newManager(socket) }

func newManager(socket int) *Manager {
	m := &Manager{socket: socket, wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
	go m.run()
	return m
}

// Store stores a duplicate of fd in the manager under name, ASCII without a colon. It replaces what
// was stored under that name. fd must stay open until [Manager.Discard] or the next Store with that
// name, since [Manager.Stored] returns it.
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
	if _, again := m.stored.get(name); again {
		m.release(name)
	}
	if err := m.send(storeLine+"\n"+nameKey+"="+name+"\n"+noPoll, fd); err != nil {
		return fmt.Errorf("store descriptor %d: %w", fd, err)
	}
	m.stored.set(name, asStored(fd, &st))
	return nil
}

// Inherited records a descriptor, returned by [Take], that the manager has already stored.
func (m *Manager) Inherited(name string, fd int) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored.set(name, asStored(fd, &st))
}

// Discard removes what the manager has stored under name.
func (m *Manager) Discard(name string) {
	if !isName(name) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.release(name)
}

// Forget removes name from the result of [Manager.Stored], for a descriptor that is closed here.
// The manager's duplicate stays stored.
func (m *Manager) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stored.remove(name)
}

func (m *Manager) release(name string) {
	m.stored.remove(name)
	m.send(removeLine+"\n"+nameKey+"="+name, -1)
}

// Stored returns the descriptors of this process that the manager has stored, without those that
// were closed and reused since. Before Linux 6.9 two pidfds can't be distinguished: a number stored
// under two names is returned under the later one.
func (m *Manager) Stored() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	files := make(map[string]int, m.stored.len())
	names := make(map[int32]string, m.stored.len())
	for name, k := range m.stored.all() {
		var st unix.Stat_t
		if err := unix.Fstat(int(k.fd), &st); err == nil && asStored(int(k.fd), &st) == k {
			delete(files, names[k.fd])
			files[name], names[k.fd] = int(k.fd), name
		}
	}
	return files
}

// Ready reports that the process is ready, or ready again after [Manager.Reloading].
func (m *Manager) Ready(status string) {
	m.Status(status)
	m.Send(daemon.SdNotifyReady)
}

// Status sets the text that systemctl status shows. Of several texts in a short time only the last
// is sent.
func (m *Manager) Status(status string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status = status; !m.statusPaused {
		m.signal()
	}
}

// Reloading reports that a reload has begun.
func (m *Manager) Reloading() {
	m.Send(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
}

// Stopping reports that the process is ending.
func (m *Manager) Stopping() { m.Send(daemon.SdNotifyStopping) }

// Watchdog sends a watchdog ping.
func (m *Manager) Watchdog() { m.Send(daemon.SdNotifyWatchdog) }

// Send sends lines.
func (m *Manager) Send(lines string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.send(lines, -1)
}

// Idle reports whether all is sent, except perhaps the status.
func (m *Manager) Idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue) == 0 && !m.busy
}

// Close sends what is queued, for at most patience, and reports whether all was sent.
func (m *Manager) Close(patience time.Duration) bool {
	close(m.closing)
	select {
	case <-m.ended:
		return true
	case <-time.After(patience):
		return false
	}
}

// send sends at once if possible; otherwise it queues the packet with a duplicate of fd. m.mu is
// held.
func (m *Manager) send(text string, fd int) error {
	if m.socket < 0 {
		return nil
	}
	if len(m.queue) == 0 && !m.busy && !isShortage(sendPacket(m.socket, text, fd, unix.MSG_DONTWAIT)) {
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
	default: // a wakeup is pending
	}
}

// run sends queued packets and the status.
func (m *Manager) run() {
	defer close(m.ended)
	shown := ""
	var rest <-chan time.Time // set while status texts are held back
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
		m.statusPaused = rest != nil
		for len(m.queue) > 0 {
			queue := m.queue
			m.queue, m.busy = nil, true
			m.mu.Unlock()
			for _, p := range queue {
				for isShortage(sendPacket(m.socket, p.text, p.fd, 0)) {
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
	var rights struct { // like unix.UnixRights, which allocates on the heap
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

// isShortage reports whether a packet was not sent for lack of room or another temporary shortage.
// Any other error means that there is no receiver.
func isShortage(err error) bool {
	return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.ETOOMANYREFS)
}
