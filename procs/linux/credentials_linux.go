package linux

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"superd/internal/passwd"
	"superd/internal/privilege"
	"superd/procs/host"
)

// A runAs is the user and the groups of a program.
type runAs struct {
	name       string              // for messages: "user www-data"
	credential *syscall.Credential // nil: superd's own user and groups
	// HOME, USER, LOGNAME and SHELL of the user; nil if none is configured
	variables map[string]string
}

// lookUpRunAs looks up a user, "" for superd's own, and its supplementary groups, nil for those of
// the user, in the present accounts.
func lookUpRunAs(user string, groups []string, accounts passwd.Files) (*runAs, error) {
	if user == "" && groups == nil {
		return &runAs{}, nil
	}
	id := &runAs{name: "superd's own user"}
	uid, gid := os.Geteuid(), os.Getegid()
	credential := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if user != "" {
		fail := func(err error) error {
			return &host.SpawnError{Stage: "look up user", Path: user, Err: err, Fault: host.FaultOf(err)}
		}
		account, err := accounts.User(user)
		if err != nil {
			return nil, fail(err)
		}
		id.name = "user " + account.Name
		id.variables = map[string]string{"HOME": account.Home, "USER": account.Name, "LOGNAME": account.Name, "SHELL": account.Shell}
		credential.Uid, credential.Gid = account.UID, account.GID
		if credential.Groups, err = accounts.Groups(account); err != nil {
			return nil, fail(err)
		}
	}
	if groups != nil {
		credential.Groups = nil
		for _, name := range groups {
			group, err := accounts.Group(name)
			if err != nil {
				return nil, &host.SpawnError{Stage: "look up group", Path: name, Err: err, Fault: host.FaultOf(err)}
			}
			credential.Groups = append(credential.Groups, group)
		}
	}
	if privilege.ChangeUser() {
		id.credential = credential
		return id, nil
	}
	// Without the right to change users, the configured user must be superd's own. Superd then
	// keeps its own groups, which may differ from the account files by now.
	if int(credential.Uid) != uid || int(credential.Gid) != gid {
		return nil, &host.SpawnError{Stage: "change user", Path: user, Err: fmt.Errorf("superd runs as user %d and group %d, and may not change to %d and %d: only root may",
			uid, gid, credential.Uid, credential.Gid)}
	}
	if groups != nil {
		own, err := os.Getgroups()
		if err == nil && !sameGroups(own, credential.Groups) {
			err = errors.New("superd may not change its supplementary groups: only root may")
		}
		if err != nil {
			return nil, &host.SpawnError{Stage: "change groups", Err: err}
		}
	}
	return id, nil
}

func sameGroups(own []int, wanted []uint32) bool {
	for _, gid := range own {
		if !slices.Contains(wanted, uint32(gid)) {
			return false
		}
	}
	for _, gid := range wanted {
		if !slices.Contains(own, int(gid)) {
			return false
		}
	}
	return true
}

// owner returns the owner of files made for the program.
func (id *runAs) owner() (uid, gid int) {
	if id.credential == nil {
		return os.Geteuid(), os.Getegid()
	}
	return int(id.credential.Uid), int(id.credential.Gid)
}

// rights returns the rights by which superd predicts what the kernel refuses the program. It
// returns nil if the program has superd's rights, so that superd can ask the kernel, and for root,
// which mode bits don't stop.
func (id *runAs) rights() *rights {
	c := id.credential
	if c == nil || c.Uid == 0 {
		return nil
	}
	return &rights{name: id.name, uid: c.Uid, gids: append([]uint32{c.Gid}, c.Groups...)}
}

func superdRights() *rights {
	r := &rights{name: "superd (user " + strconv.Itoa(os.Geteuid()) + ")", uid: uint32(os.Geteuid()), gids: []uint32{uint32(os.Getegid())}}
	groups, err := os.Getgroups()
	if err != nil {
		return r // groups matter for explanations only
	}
	for _, gid := range groups {
		r.gids = append(r.gids, uint32(gid))
	}
	return r
}
