package config

import (
	"errors"
	"strings"

	"superd/config/codec"
	"superd/config/environ"
	"superd/config/executable"
	"superd/config/receiver"
	"superd/internal/passwd"
	"superd/internal/words"
)

// checkMachine warns of what a program needs and this machine lacks. These are not mistakes of the
// file: it may be checked on a machine other than the one it is for, and users may change.
func (l *loader) checkMachine() {
	if l.machine == nil {
		return
	}
	l.checkAccess()
	for _, d := range l.sockets {
		if d.socket.User != "" {
			_, err := l.machine.accounts.User(d.socket.User)
			warnAccount(d.mistakeAt("user"), err)
		}
		if d.socket.Group != "" {
			_, err := l.machine.accounts.Group(d.socket.Group)
			warnAccount(d.mistakeAt("group"), err)
		}
	}
	for _, d := range l.programs {
		if d.User != "" {
			_, err := l.machine.accounts.User(d.User)
			warnAccount(d.mistakeAt("user"), err)
		}
		if d.HooksUser != "" {
			_, err := l.machine.accounts.User(d.HooksUser)
			warnAccount(d.mistakeAt("hooks_user"), err)
		}
		if d.Log.Owner != "" {
			_, err := l.machine.accounts.User(d.Log.Owner)
			warnAccount(d.mistakeAt("log.owner"), err)
		}
		if d.Log.Group != "" {
			_, err := l.machine.accounts.Group(d.Log.Group)
			warnAccount(d.mistakeAt("log.group"), err)
		}
		items, _ := d.mistakeAt("supplementary_groups").Items()
		for _, item := range items {
			if name, ok := item.Raw.(string); ok {
				_, err := l.machine.accounts.Group(name)
				warnAccount(item, err)
			}
		}
		l.checkPaths(d)
		l.checkRlimits(d)
		if key, err := d.Attributes.Check(l.machine.rights); err != nil {
			d.mistakeAt(key).Warn("%w", err)
		}
	}
}

// checkPaths warns of a missing directory or executable.
func (l *loader) checkPaths(d *builder) {
	if l.stat == nil {
		return
	}
	need := executable.Need{
		Command: d.Command, Directory: d.Directory, Search: d.Environment["PATH"], At: func(key string) codec.Value { return d.mistakeAt(key) }, Stat: l.stat,
	}
	if d.Sandbox != nil {
		need.Root = d.Sandbox.RootDirectory
	}
	if _, own := d.Environment["PATH"]; !own && d.InheritEnvironment {
		need.Search, _ = environ.Inherited(l.environ).Get("PATH")
	}
	if len(d.EnvFiles) > 0 {
		need.Search = "" // not known before the start
	}
	need.Check()
}

// receiverContext returns what the tables of receivers are checked against.
func (l *loader) receiverContext() receiver.Context {
	c := receiver.Context{CheckName: checkName, Stat: l.stat}
	if l.machine != nil {
		c.CheckUser = func(v codec.Value, name string) {
			_, err := l.machine.accounts.User(name)
			warnAccount(v, err)
		}
	}
	for _, d := range l.programs {
		c.Names = append(append(c.Names, d.Name), d.Groups...)
	}
	return c
}

// warnAccount warns of a user or group that does not exist. err may be nil.
func warnAccount(v codec.Value, err error) {
	if unknown, ok := errors.AsType[*passwd.UnknownError](err); ok {
		v.Warn("%w on this machine%s", err, words.DidYouMean(unknown.Name, unknown.Candidates, ": add it, or write another one"))
	} else if err != nil {
		v.Warn("%w", err)
	}
}

// checkAccess warns of users and groups of [control] that do not exist.
func (l *loader) checkAccess() {
	for _, key := range []string{"operators", "viewers"} {
		list, ok := l.root.set[key]
		if !ok {
			continue
		}
		items, _ := list.Items()
		for _, item := range items {
			name, _ := item.Raw.(string)
			var err error
			if group, isGroup := strings.CutPrefix(name, "@"); isGroup {
				_, err = l.machine.accounts.Group(group)
			} else {
				_, err = l.machine.accounts.User(name)
			}
			warnAccount(item, err)
		}
	}
}
