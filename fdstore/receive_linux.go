package fdstore

import (
	"errors"
	"fmt"
	"io"
	"strings"

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
}

// NewReceiver returns a receiver of what comes over a connected socket of packets (SOCK_SEQPACKET), which stays the caller's.
func NewReceiver(socket int) *Receiver {
	return &Receiver{socket, make([]byte, maxPacket), make([]byte, unix.CmsgSpace(maxRights*4))}
}

// Next returns the next packet, and whether there is one. The error is io.EOF when the other side has gone.
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
	m := Message{Lines: strings.Split(strings.TrimSuffix(string(r.buf[:n]), "\n"), "\n")}
	control, err := unix.ParseSocketControlMessage(r.oob[:oobn])
	if err != nil {
		return m, true, nil
	}
	for i := range control {
		if fds, err := unix.ParseUnixRights(&control[i]); err == nil {
			m.Files = append(m.Files, fds...)
		}
	}
	return m, true, nil
}

func (r *Receiver) receive() (n, oobn int, err error) {
	for {
		n, oobn, _, _, err := unix.Recvmsg(r.socket, r.buf, r.oob, unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return n, oobn, err
		}
	}
}

// A Store holds descriptors for the next process, by name. It owns them.
type Store struct{ Files map[string]int }

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
		s.Files[name] = fd
	}
}

// Close closes all of them.
func (s *Store) Close() {
	for _, fd := range s.Files {
		unix.Close(fd)
	}
	clear(s.Files)
}

func (s *Store) remove(name string) {
	if fd, ok := s.Files[name]; ok {
		unix.Close(fd)
		delete(s.Files, name)
	}
}
