package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/control"
	"superd/internal/passwd"
)

var errNotUnix = errors.New("not a Unix socket")

// A role says what a user may do. Each may do what those before it may.
type role uint8

const (
	roleNone     role = iota
	roleViewer        // may see
	roleOperator      // may control programs
	roleOwner         // root, and the user of superd: may do all, also execute what they choose
)

// roleOf returns the role of a user with these groups. Names are looked up each time, so that a
// change of the accounts needs no reload.
func roleOf(p peer, superd int, access config.Control, accounts passwd.Files) role {
	switch {
	case p.uid == 0 || p.uid == superd:
		return roleOwner
	case inList(access.Operators, p, accounts):
		return roleOperator
	case inList(access.Viewers, p, accounts):
		return roleViewer
	}
	return roleNone
}

// inList reports whether list has the user or one of its groups. What can't be looked up is not it.
func inList(list []string, p peer, accounts passwd.Files) bool {
	return slices.ContainsFunc(list, func(name string) bool {
		if group, isGroup := strings.CutPrefix(name, "@"); isGroup {
			gid, err := accounts.Group(group)
			return err == nil && slices.Contains(p.groups, gid)
		}
		user, err := accounts.User(name)
		return err == nil && int(user.UID) == p.uid
	})
}

// A peer is the process that connected, at the time of the connect.
type peer struct {
	uid    int
	groups []uint32 // all, the first one too
}

// peerOfConn returns the peer of a Unix socket (SO_PEERCRED, SO_PEERGROUPS, unix(7)).
func peerOfConn(conn net.Conn) (p peer, err error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return peer{}, errNotUnix
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("read peer credentials: %w", err)
	}
	controlErr := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil {
			return
		}
		p = peer{int(cred.Uid), append(peerGroups(fd), cred.Gid)}
	})
	if controlErr != nil {
		err = controlErr
	}
	if err != nil {
		return peer{}, fmt.Errorf("read peer credentials: %w", err)
	}
	return p, nil
}

// peerGroups returns the supplementary groups of the peer; none if the kernel does not tell.
func peerGroups(fd uintptr) []uint32 {
	groups := make([]uint32, 64)
	for range 2 {
		size := uint32(len(groups) * 4)
		_, _, errno := syscall.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&size)), 0)
		switch errno {
		case 0:
			return groups[:size/4]
		case unix.ERANGE: // size is what is needed
			groups = make([]uint32, size/4)
		default:
			return nil
		}
	}
	return nil
}

// errForbidden returns the error for what a user may not do.
func errForbidden(uid int, needed role, superd int) *control.Error {
	e := &control.Error{Status: http.StatusForbidden, Remedy: fmt.Sprintf("become root or user %d", superd)}
	switch needed {
	case roleOwner:
		e.Message = fmt.Sprintf("user %d may not do this", uid)
	case roleOperator:
		e.Message = fmt.Sprintf("user %d may only view programs", uid)
		e.Remedy += ", or let root add the user to operators in [control]"
	default:
		e.Message = fmt.Sprintf("user %d may not control this superd", uid)
	}
	return e
}

// needs returns the role that a route needs: for what reads or waits that of a viewer.
func (r *route) needs() role {
	switch {
	case slices.Contains(ownersOnly, r.path):
		return roleOwner
	case r.method == http.MethodGet, r.path == "/v1/logs", strings.HasSuffix(r.path, "/await"):
		return roleViewer
	}
	return roleOperator
}

// ownersOnly are the paths of requests that let superd execute what the client chooses, as the user
// of superd or of a program. Who types at a program's terminal may do what that may.
var ownersOnly = []string{"/v1/upgrade", "/v1/programs/{name}/execute", "/v1/programs/{name}/attach"}
