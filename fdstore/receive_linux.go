package fdstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxPacket is the longest packet that is received whole, in bytes.
const maxPacket = 16 << 10

// maxRights is how many descriptors one packet may carry here. systemd takes 768; one goes with each name.
const maxRights = 16

// Send sends lines over a connected socket if there is room, and reports whether there was. An error means that nobody receives.
func Send(socket int, lines string) (sent bool, err error) {
	err = sendPacket(socket, lines, -1, unix.MSG_DONTWAIT)
	switch {
	case err == nil:
		return true, nil
	case shortOf(err):
		return false, nil
	}
	return false, fmt.Errorf("send message: %w", err)
}

// A Receiver receives packets from a socket, without blocking.
type Receiver struct {
	socket int
	buf    []byte
	oob    []byte
	lines  []string // of the last message, as are
	files  []int
	header unix.Msghdr // it and its vector are here since what a system call is given may lie nowhere else for long
	vector unix.Iovec
}

// NewReceiver returns a receiver of what comes over a connected socket of packets (SOCK_SEQPACKET), which stays the caller's.
func NewReceiver(socket int) *Receiver {
	return &Receiver{socket: socket, buf: make([]byte, maxPacket), oob: make([]byte, unix.CmsgSpace(maxRights*4))}
}

// Next returns the next packet, and whether there is one. The slices of the message are its own until the next call. The error is io.EOF when the other side
// has gone.
func (r *Receiver) Next() (Message, bool, error) {
	n, oobn, err := r.receive()
	switch {
	case errors.Is(err, unix.EAGAIN):
		return Message{}, false, nil
	case errors.Is(err, unix.ECONNRESET), err == nil && n == 0:
		return Message{}, false, io.EOF
	case err != nil:
		return Message{}, false, fmt.Errorf("receive message: %w", err)
	}
	clear(r.lines) // lets go of the text
	r.lines, r.files = r.lines[:0], r.files[:0]
	for line := range strings.SplitSeq(strings.TrimSuffix(string(r.buf[:n]), "\n"), "\n") {
		r.lines = append(r.lines, line)
	}
	r.takeFiles(r.oob[:oobn])
	return Message{Lines: r.lines, Files: r.files}, true, nil
}

// takeFiles takes the descriptors out of what came beside a packet.
func (r *Receiver) takeFiles(oob []byte) {
	for len(oob) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return
		}
		for header.Level == unix.SOL_SOCKET && header.Type == unix.SCM_RIGHTS && len(data) >= 4 {
			r.files = append(r.files, int(int32(binary.NativeEndian.Uint32(data))))
			data = data[4:]
		}
		oob = rest
	}
}

// receive is unix.Recvmsg without the address of the sender, for which that allocates.
func (r *Receiver) receive() (n, oobn int, err error) {
	for {
		r.vector = unix.Iovec{Base: &r.buf[0]}
		r.vector.SetLen(len(r.buf))
		r.header = unix.Msghdr{Iov: &r.vector, Control: &r.oob[0]}
		r.header.SetIovlen(1)
		r.header.SetControllen(len(r.oob))
		n, _, errno := unix.Syscall(unix.SYS_RECVMSG, uintptr(r.socket), uintptr(unsafe.Pointer(&r.header)), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		switch errno {
		case 0:
			return int(n), int(r.header.Controllen), nil
		case unix.EINTR:
		default:
			return 0, 0, errno
		}
	}
}

// A Store holds descriptors for the next process, by name. It owns them. The zero store is empty.
type Store struct{ files table[int32] }

// Put takes a descriptor into the store.
func (s *Store) Put(name string, fd int) { s.files.set(name, int32(fd)) }

// Take takes a descriptor out of the store; -1: it has none of that name.
func (s *Store) Take(name string) (fd int) {
	kept, ok := s.files.get(name)
	if !ok {
		return -1
	}
	s.files.remove(name)
	return int(kept)
}

// Files returns all descriptors, by name. They stay the store's.
func (s *Store) Files() map[string]int {
	files := make(map[string]int, s.files.len())
	for name, fd := range s.files.all() {
		files[name] = int(fd)
	}
	return files
}

// Apply does what a message says of descriptors, and closes those that nobody wants.
func (s *Store) Apply(m Message) {
	name, _ := m.Value(nameKey)
	if m.Has(letGo) && isName(name) {
		s.remove(name)
	}
	for _, fd := range m.Files {
		if !m.Has(keep) || !isName(name) {
			unix.Close(fd)
			continue
		}
		s.remove(name)
		s.Put(name, fd)
	}
}

// Close closes all of them, those whose numbers follow each other in one go.
func (s *Store) Close() {
	fds := make([]int32, 0, s.files.len())
	for fd := range s.files.values() {
		fds = append(fds, fd)
	}
	*s = Store{}
	slices.Sort(fds)
	for len(fds) > 0 {
		n := 1
		for n < len(fds) && fds[n] == fds[0]+int32(n) {
			n++
		}
		if unix.CloseRange(uint(fds[0]), uint(fds[n-1]), 0) != nil { // of Linux 5.9; a filter may not let it through
			for _, fd := range fds[:n] {
				unix.Close(int(fd))
			}
		}
		fds = fds[n:]
	}
}

func (s *Store) remove(name string) {
	if fd := s.Take(name); fd >= 0 {
		unix.Close(fd)
	}
}
