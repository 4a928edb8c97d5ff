// Package passwd reads Unix users and groups from /etc/passwd and /etc/group.
//
// superd is one static binary, so it can't use the C library's name services (LDAP, systemd's
// dynamic users): only accounts in these two files exist. Each call reads the files again, since
// they may change, and may block on their file system.
//
// Source: man 5 passwd, man 5 group; man 3 getgrouplist.
package passwd

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Files says where to read accounts.
type Files struct {
	UserFile, GroupFile string                            // paths
	Read                func(path string) ([]byte, error) // like os.ReadFile
}

// System returns the files of this machine.
func System() Files {
	return Files{UserFile: "/etc/passwd", GroupFile: "/etc/group", Read: os.ReadFile}
}

// A User is one entry of the user file.
type User struct {
	Name     string
	UID, GID uint32
	Home     string // "/" if the file has none
	Shell    string // "/bin/sh" if the file has none
}

// An UnknownError reports a user or group that is not in its file.
type UnknownError struct {
	Kind       string // "user" or "group"
	Name       string
	File       string
	Candidates []string // names in the file
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no %s %q in %s", e.Kind, e.Name, e.File)
}

// User returns the user with this name, else the one with this number.
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
	return User{}, &UnknownError{Kind: "user", Name: name, File: f.UserFile, Candidates: names}
}

// Group returns the number of the group with this name. If there is none and name is a number, it
// returns that number, whether it is in the file or not.
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
	return 0, &UnknownError{Kind: "group", Name: name, File: f.GroupFile, Candidates: names}
}

// Groups returns the groups of a user without duplicates: its own first, then those that have it as
// a member, in file order.
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
			// Lines with + and - belong to NIS.
			if text == "" || strings.ContainsRune("#+-", rune(text[0])) {
				continue
			}
			if !yield(text) {
				return
			}
		}
	}, nil
}

// parseUser parses name:password:uid:gid:comment:home:shell. ok is false for any other line, which
// is skipped as in the C library.
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

// parseGroup parses name:password:gid:member,member.
func parseGroup(line string) (group, bool) {
	fields := strings.Split(line, ":")
	if len(fields) < 4 || fields[0] == "" {
		return group{}, false
	}
	gid, ok := number(fields[2])
	return group{name: fields[0], gid: gid, members: strings.Split(fields[3], ",")}, ok
}

// number parses the number of a user or group. The highest number means "unchanged" to the kernel
// and is invalid.
func number(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil && n != math.MaxUint32
}
