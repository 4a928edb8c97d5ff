package listener

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/config/listen"
	"superd/internal/procfs"
)

// Values of sock_diag that package unix lacks. Source: linux/sock_diag.h, linux/inet_diag.h,
// linux/unix_diag.h.
const (
	sockDiagByFamily = 20

	inetRequestBytes = 56
	inetMessageBytes = 72
	unixRequestBytes = 24
	unixMessageBytes = 16

	showName, showVFS, showQueue = 1, 2, 0x10 // of Unix sockets
	attrName, attrVFS, attrQueue = 0, 1, 4

	// states of a socket
	established, synReceived, closed, closeWait, tcpListen, newSynReceived = 1, 3, 7, 8, 10, 12

	listening = 1 << tcpListen
	connected = 1<<established | 1<<synReceived | 1<<closeWait | 1<<newSynReceived
	anyState  = 1<<32 - 1

	noCookie = 1<<32 - 1
)

// A found socket is one of the kernel's sockets.
type found struct {
	inode     uint32
	state     byte
	at        netip.AddrPort // of TCP and UDP
	name      string         // path or abstract name of a Unix socket
	pathInode uint32         // inode of its path; 0: none
	waiting   uint32         // connections in its backlog; bytes of UDP and datagrams
	most      uint32         // how many connections may wait
}

// exchange sends a request of sock_diag and calls each for its answers.
func exchange(request []byte, dump bool, each func(message []byte)) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	flags := uint16(unix.NLM_F_REQUEST)
	if dump {
		flags |= unix.NLM_F_DUMP
	}
	header := unix.NlMsghdr{
		Len: uint32(unix.SizeofNlMsghdr + len(request)), Type: sockDiagByFamily, Flags: flags,
	}
	packet := append((*[unix.SizeofNlMsghdr]byte)(unsafe.Pointer(&header))[:], request...)
	if err := unix.Sendto(fd, packet, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := unix.Recvfrom(fd, buffer, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return os.NewSyscallError("recvfrom", err)
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofNlMsghdr; {
			h := *(*unix.NlMsghdr)(unsafe.Pointer(&rest[0]))
			if int(h.Len) < unix.SizeofNlMsghdr || int(h.Len) > len(rest) {
				return errors.New("read sock_diag: a message is cut")
			}
			body := rest[unix.SizeofNlMsghdr:h.Len]
			switch {
			case h.Type == unix.NLMSG_DONE:
				return nil
			case h.Type == unix.NLMSG_ERROR && len(body) >= 4:
				return fmt.Errorf("read sock_diag: %w", unix.Errno(-int32(binary.NativeEndian.Uint32(body))))
			case h.Type == sockDiagByFamily:
				each(body)
			}
			rest = rest[min(len(rest), (int(h.Len)+3)&^3):]
		}
		if !dump {
			return nil
		}
	}
}

// ipSockets returns the sockets of a family, either those of TCP in one of the states, or those of
// UDP.
func ipSockets(family byte, udp bool, states uint32) (all []found, err error) {
	request := make([]byte, inetRequestBytes)
	request[0], request[1] = family, unix.IPPROTO_TCP
	if udp {
		request[1], states = unix.IPPROTO_UDP, anyState
	}
	binary.NativeEndian.PutUint32(request[4:], states)
	err = exchange(request, true, func(m []byte) {
		if len(m) < inetMessageBytes {
			return
		}
		addr := netip.AddrFrom4([4]byte(m[8:12]))
		if m[0] == unix.AF_INET6 {
			addr = netip.AddrFrom16([16]byte(m[8:24]))
		}
		all = append(all, found{
			state:   m[1],
			at:      netip.AddrPortFrom(addr, binary.BigEndian.Uint16(m[4:])),
			waiting: binary.NativeEndian.Uint32(m[56:]), most: binary.NativeEndian.Uint32(m[60:]),
			inode: binary.NativeEndian.Uint32(m[68:]),
		})
	})
	return all, err
}

// unixSocket returns the Unix socket with that inode.
func unixSocket(inode uint32) (s found, err error) {
	all, err := unixSockets(inode)
	if err == nil && len(all) == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		return s, fmt.Errorf("find socket: %w", err)
	}
	return all[0], nil
}

// unixSockets returns the Unix socket with that inode; 0: all.
func unixSockets(inode uint32) (all []found, err error) {
	request := make([]byte, unixRequestBytes)
	request[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(request[4:], 1<<32-1)
	binary.NativeEndian.PutUint32(request[8:], inode)
	binary.NativeEndian.PutUint32(request[12:], showName|showVFS|showQueue)
	binary.NativeEndian.PutUint32(request[16:], noCookie)
	binary.NativeEndian.PutUint32(request[20:], noCookie)
	err = exchange(request, inode == 0, func(m []byte) {
		if len(m) < unixMessageBytes {
			return
		}
		s := found{state: m[2], inode: binary.NativeEndian.Uint32(m[4:])}
		for rest := m[unixMessageBytes:]; len(rest) >= unix.SizeofNlAttr; {
			size := int(binary.NativeEndian.Uint16(rest))
			if size < unix.SizeofNlAttr || size > len(rest) {
				break
			}
			value := rest[unix.SizeofNlAttr:size]
			switch kind := binary.NativeEndian.Uint16(rest[2:]); {
			case kind == attrName:
				s.name = string(value)
			case kind == attrVFS && len(value) >= 4:
				s.pathInode = binary.NativeEndian.Uint32(value)
			case kind == attrQueue && len(value) >= 8:
				s.waiting = binary.NativeEndian.Uint32(value)
				s.most = binary.NativeEndian.Uint32(value[4:])
			}
			rest = rest[min(len(rest), (size+3)&^3):]
		}
		all = append(all, s)
	})
	return all, err
}

// A Process is a process that has a socket.
type Process struct {
	Pid     int
	Command string // its name, as in ps(1)
}

func (p Process) String() string { return fmt.Sprintf("process %d (%s)", p.Pid, p.Command) }

// holders returns the processes that have a socket which excludes a, as far as they can be seen.
func holders(a listen.Address) []Process {
	inodes := map[string]bool{}
	for _, s := range rivals(a) {
		inodes[socketLink(s.inode)] = true
	}
	return having(inodes)
}

// socketLink returns how /proc/PID/fd shows a socket. Source: man 5 proc_pid_fd.
func socketLink(inode uint32) string { return "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]" }

// rivals returns the sockets that may exclude a.
func rivals(a listen.Address) (all []found) {
	if !a.Network.IsIP() {
		var there unix.Stat_t
		byPath := a.Path() != "" && unix.Lstat(a.Path(), &there) == nil
		sockets, _ := unixSockets(0) // none can be seen
		for _, s := range sockets {
			abstract := a.Path() == "" && s.name == "\x00"+strings.TrimPrefix(a.Address, "@")
			if abstract || byPath && s.pathInode != 0 && s.pathInode == uint32(there.Ino) {
				all = append(all, s)
			}
		}
		return all
	}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		sockets, _ := ipSockets(family, a.Network.IsUDP(), listening)
		for _, s := range sockets {
			if a.Excludes(addressOf(s.at, a)) {
				all = append(all, s)
			}
		}
	}
	return all
}

// addressOf returns the address of another socket of the same protocol as a. Whether one of [::] is
// of both families is unknown; so it is.
func addressOf(at netip.AddrPort, a listen.Address) listen.Address {
	other := listen.Address{Network: a.Network, Address: at.String()}
	if at.Addr() == netip.IPv6Unspecified() {
		other.Address = ":" + strconv.Itoa(int(at.Port()))
	}
	return other
}

// having returns the processes that have one of these files open, by their links in /proc.
func having(links map[string]bool) (all []Process) {
	eachHolder(links, func(p Process, _ string) {
		if len(all) == 0 || all[len(all)-1] != p {
			all = append(all, p)
		}
	})
	return all
}

// eachHolder calls visit once for each process and each of these files that it has open.
func eachHolder(links map[string]bool, visit func(p Process, link string)) {
	if len(links) == 0 {
		return
	}
	pids, _ := procfs.Pids() // none can be seen
	for _, pid := range pids {
		seen := map[string]bool{}
		for _, link := range procfs.Descriptors(pid) {
			if !links[link] || seen[link] {
				continue
			}
			seen[link] = true
			if stat, err := procfs.ReadStat(pid); err == nil {
				visit(Process{pid, stat.Command}, link)
			}
		}
	}
}

// A Queue is what waits in a socket.
type Queue struct {
	Waiting, Most int // connections; bytes where there are none, with Most 0
	Holders       []Process
}

// Queues returns what waits in each of the open sockets, and which processes have it beside those
// in own. A socket that the kernel does not show is missing. FIFOs have a queue, too.
func Queues(fds []int, own func(pid int) bool) map[int]Queue {
	queues, byInode := map[int]Queue{}, map[uint32]found{}
	for _, s := range allSockets() {
		byInode[s.inode] = s
	}
	links, byLink := map[string]bool{}, map[string]int{}
	for _, fd := range fds {
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) != nil {
			continue
		}
		q, link := Queue{}, socketLink(uint32(stat.Ino))
		if s, ok := byInode[uint32(stat.Ino)]; ok {
			q.Waiting, q.Most = int(s.waiting), int(s.most)
		} else if stat.Mode&unix.S_IFMT == unix.S_IFIFO {
			q.Waiting, _ = unix.IoctlGetInt(fd, unix.TIOCINQ)
			link, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		}
		queues[fd] = q
		links[link], byLink[link] = true, fd
	}
	eachHolder(links, func(p Process, link string) {
		if fd := byLink[link]; !own(p.Pid) {
			q := queues[fd]
			q.Holders = append(q.Holders, p)
			queues[fd] = q
		}
	})
	return queues
}

// allSockets returns the kernel's sockets, as far as they can be seen.
func allSockets() (all []found) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		for _, udp := range []bool{false, true} {
			some, _ := ipSockets(family, udp, listening)
			all = append(all, some...)
		}
	}
	some, _ := unixSockets(0)
	return append(all, some...)
}

// Connections returns how many connections of these open sockets a program has accepted, or may
// accept, and not closed.
func Connections(fds []int) (count int, err error) {
	var all []found
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		some, err := ipSockets(family, false, connected)
		if err != nil {
			return 0, err
		}
		all = append(all, some...)
	}
	some, err := unixSockets(0)
	if err != nil {
		return 0, err
	}
	for _, s := range some {
		if s.state == established || s.state == tcpListen { // its backlog is not shown otherwise
			all = append(all, s)
		}
	}
	for _, fd := range fds {
		a, err := Address(fd)
		if err != nil || !a.Network.Connects() {
			continue
		}
		for _, s := range all {
			switch {
			case !s.isOf(a):
			case s.state == tcpListen:
				count += int(s.waiting)
			default:
				count++
			}
		}
	}
	return count, nil
}

// isOf reports whether a connection was made to the address.
func (s *found) isOf(a listen.Address) bool {
	switch {
	case a.Network == listen.Unix && a.Path() == "":
		return s.name == "\x00"+strings.TrimPrefix(a.Address, "@")
	case a.Network == listen.Unix:
		return strings.TrimRight(s.name, "\x00") == a.Address
	}
	port := ":" + strconv.Itoa(int(s.at.Port()))
	if a.Address == port {
		return true
	}
	at, err := netip.ParseAddrPort(a.Address)
	return err == nil && at.Port() == s.at.Port() &&
		(at.Addr().IsUnspecified() || at.Addr().WithZone("") == s.at.Addr().Unmap())
}
