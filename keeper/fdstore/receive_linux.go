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

// maxPacket is the length of the longest packet received whole, in bytes.
const maxPacket = 16 << 10

// maxRights is how many descriptors a packet may carry. systemd accepts 768; each name has one.
const maxRights = 16

// Send sends lines over a connected socket if there is room, and reports whether it did. An error
// means that there is no receiver.
func Send(socket int, lines string) (sent bool, err error) {
	err = sendPacket(socket, lines, -1, unix.MSG_DONTWAIT)
	switch {
	case err == nil:
		return true, nil
	case isShortage(err):
		return false, nil
	}
	return false, fmt.Errorf("send message: %w", err)
}

// A Receiver receives packets from a socket, without blocking.
type Receiver struct {
	socket int
	buf    []byte
	oob    []byte
	lines  []string // lines and files of the last message
	files  []int
	// header and vector are fields since arguments of a system call must not move
	header unix.Msghdr
	vector unix.Iovec
}

// NewReceiver returns a receiver of packets from a connected socket (SOCK_SEQPACKET), which the
// caller still owns.
func NewReceiver(socket int) *Receiver {
	return &Receiver{socket: socket, buf: make([]byte, maxPacket), oob: make([]byte, unix.CmsgSpace(maxRights*4))}
}

// Next returns the next packet, and whether there is one. The slices of the message are valid until
// the next call. The error is io.EOF when the other side has ended.
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
	clear(r.lines) // frees the text
	r.lines, r.files = r.lines[:0], r.files[:0]
	for line := range strings.SplitSeq(strings.TrimSuffix(string(r.buf[:n]), "\n"), "\n") {
		r.lines = append(r.lines, line)
	}
	r.takeFiles(r.oob[:oobn])
	return Message{Lines: r.lines, Files: r.files}, true, nil
}

// takeFiles extracts the descriptors from the control data of a packet.
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

// receive is unix.Recvmsg without the sender's address, which costs an allocation.
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

// A Store holds descriptors for the next process, by name, and owns them. The zero Store is empty.
type Store struct{ files table[int32] }

// Put adds a descriptor to the store.
func (s *Store) Put(name string, fd int) { s.files.set(name, int32(fd)) }

// Take removes a descriptor from the store and returns it; -1 if there is none with that name.
func (s *Store) Take(name string) (fd int) {
	stored, ok := s.files.get(name)
	if !ok {
		return -1
	}
	s.files.remove(name)
	return int(stored)
}

// Files returns all descriptors, by name. The store still owns them.
func (s *Store) Files() map[string]int {
	files := make(map[string]int, s.files.len())
	for name, fd := range s.files.all() {
		files[name] = int(fd)
	}
	return files
}

// Apply applies what a message says about descriptors, and closes those that are not stored.
func (s *Store) Apply(m Message) {
	name, _ := m.Value(nameKey)
	if m.Has(removeLine) && isName(name) {
		s.remove(name)
	}
	for _, fd := range m.Files {
		if !m.Has(storeLine) || !isName(name) {
			unix.Close(fd)
			continue
		}
		s.remove(name)
		s.Put(name, fd)
	}
}

// Close closes all descriptors, ranges of consecutive numbers with one call.
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
		// Since Linux 5.9; filters may refuse it.
		if unix.CloseRange(uint(fds[0]), uint(fds[n-1]), 0) != nil {
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
