// Package account reads Unix users and groups from /etc/passwd and /etc/group.
//
// superd is one static binary, so the C library's name services (LDAP, systemd's dynamic users) are out of reach: an
// account exists where it stands in these two files. They are read anew at each call and may change at any time; each
// call may block on its file system.
//
// Source: man 5 passwd, man 5 group; man 3 getgrouplist.
package account

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Files says where accounts are read from.
type Files struct {
	UserFile, GroupFile string                            // paths
	Read                func(path string) ([]byte, error) // as os.ReadFile
}

// System returns the files of this machine.
func System() Files {
	return Files{UserFile: "/etc/passwd", GroupFile: "/etc/group", Read: os.ReadFile}
}

// A User is one line of the file of users.
type User struct {
	Name     string
	UID, GID uint32
	Home     string // "/" where the file names none
	Shell    string // "/bin/sh" where the file names none
}

// An UnknownError is a user or group that does not stand in its file.
type UnknownError struct {
	Kind  string // "user" or "group"
	Name  string
	File  string
	Known []string // the names that do stand there
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no %s %q in %s", e.Kind, e.Name, e.File)
}

// User returns the user of this name, else the one with this number.
//
// The error is an [UnknownError], or that of reading the file.
func (f Files) User(name string) (User, error) {
	var names []string
	var numbered *User
	id, isNumber := number(name)
	lines, err := f.lines(f.UserFile)
	if err != nil {
		return User{}, err
	}
	for line := range lines {
		user, ok := parseUser(line)
		switch {
		case !ok:
			continue
		case user.Name == name:
			return user, nil
		case isNumber && user.UID == id && numbered == nil:
			numbered = &user
		}
		names = append(names, user.Name)
	}
	if numbered != nil {
		return *numbered, nil
	}
	return User{}, &UnknownError{Kind: "user", Name: name, File: f.UserFile, Known: names}
}

// Group returns the number of the group of this name; what is the name of none, and is a number, is that number, whether
// it stands in the file or not.
//
// The error is an [UnknownError], or that of reading the file.
func (f Files) Group(name string) (uint32, error) {
	var names []string
	lines, err := f.lines(f.GroupFile)
	if err != nil {
		return 0, err
	}
	for line := range lines {
		group, ok := parseGroup(line)
		switch {
		case !ok:
			continue
		case group.name == name:
			return group.gid, nil
		}
		names = append(names, group.name)
	}
	if id, ok := number(name); ok {
		return id, nil
	}
	return 0, &UnknownError{Kind: "group", Name: name, File: f.GroupFile, Known: names}
}

// Groups returns the groups of a user: its own first, then each that names it as a member, in the order of the file and
// each once.
func (f Files) Groups(user User) ([]uint32, error) {
	lines, err := f.lines(f.GroupFile)
	if err != nil {
		return nil, err
	}
	gids := []uint32{user.GID}
	for line := range lines {
		group, ok := parseGroup(line)
		if ok && slices.Contains(group.members, user.Name) && !slices.Contains(gids, group.gid) {
			gids = append(gids, group.gid)
		}
	}
	return gids, nil
}

// lines yields the lines of a file that may hold an entry.
func (f Files) lines(path string) (func(yield func(string) bool), error) {
	data, err := f.Read(path)
	if err != nil {
		return nil, fmt.Errorf("read accounts: %w", err)
	}
	return func(yield func(string) bool) {
		for line := range bytes.Lines(data) {
			text := strings.TrimSpace(string(line))
			// + and - are of NIS.
			if text == "" || strings.ContainsRune("#+-", rune(text[0])) {
				continue
			}
			if !yield(text) {
				return
			}
		}
	}, nil
}

// parseUser reads name:password:uid:gid:comment:home:shell. A line that is anything else is skipped, as the C library
// does.
func parseUser(line string) (User, bool) {
	fields := strings.Split(line, ":")
	if len(fields) < 7 || fields[0] == "" {
		return User{}, false
	}
	uid, uidOK := number(fields[2])
	gid, gidOK := number(fields[3])
	user := User{Name: fields[0], UID: uid, GID: gid, Home: fields[5], Shell: fields[6]}
	if user.Home == "" {
		user.Home = "/"
	}
	if user.Shell == "" {
		user.Shell = "/bin/sh"
	}
	return user, uidOK && gidOK
}

type group struct {
	name    string
	gid     uint32
	members []string
}

// parseGroup reads name:password:gid:member,member.
func parseGroup(line string) (group, bool) {
	fields := strings.Split(line, ":")
	if len(fields) < 4 || fields[0] == "" {
		return group{}, false
	}
	gid, ok := number(fields[2])
	return group{name: fields[0], gid: gid, members: strings.Split(fields[3], ",")}, ok
}

// number reads the number of a user or group. The highest one means "leave as it is" to the kernel and is none.
func number(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n != math.MaxUint32
}
