package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"superd/config/codec"
	"superd/config/document"
	"superd/config/environ"
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

// checkPaths warns of a missing directory or executable. Paths with ${X} are unknown before the
// start, and are skipped.
func (l *loader) checkPaths(d *builder) {
	if l.stat == nil || len(d.Command) == 0 || strings.Contains(d.Directory, "$") {
		return
	}
	if d.Sandbox != nil && d.Sandbox.RootDirectory != "" {
		if _, err := l.stat(d.Sandbox.RootDirectory); errors.Is(err, fs.ErrNotExist) {
			d.mistakeAt("sandbox.root_directory").Warn("no directory %s on this machine: make it, or write another one", d.Sandbox.RootDirectory)
		}
		return // the other paths are below it
	}
	switch info, err := l.stat(d.Directory); {
	case errors.Is(err, fs.ErrNotExist):
		d.mistakeAt("directory").Warn("no directory %s on this machine: make it, or write another one", d.Directory)
	case err == nil && !info.IsDir():
		d.mistakeAt("directory").Warn("%s is not a directory: write another one", d.Directory)
	}
	name := d.Command[0]
	switch {
	case strings.Contains(name, "$"):
	case strings.Contains(name, "/"):
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(d.Directory, path)
		}
		switch info, err := l.stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			d.mistakeAt("command").Warn("no executable %s on this machine: %s", path, SplitRemedy(d.Command, "install it, or correct the path"))
		case err == nil && info.IsDir():
			d.mistakeAt("command").Warn("%s is a directory: name the executable in it", path)
		case err == nil && info.Mode()&0o111 == 0:
			d.mistakeAt("command").Warn("%s is not executable: try chmod +x", path)
		}
	default:
		l.checkSearch(d, name)
	}
}

// SplitRemedy returns a remedy for a command whose executable does not exist. It proposes to split
// the arguments if all of them are in the first string of an array, else it returns otherwise.
func SplitRemedy(command []string, otherwise string) string {
	if len(command) != 1 {
		return otherwise
	}
	args, unquoted, err := document.SplitCommand(command[0])
	if err != nil || unquoted != "" || len(args) < 2 {
		return otherwise
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = strconv.Quote(arg)
	}
	return fmt.Sprintf("split it, write [%s], or %s without the brackets", strings.Join(quoted, ", "), strconv.Quote(command[0]))
}

// checkSearch warns of an executable that is missing from the program's PATH.
func (l *loader) checkSearch(d *builder, name string) {
	search, own := d.Environment["PATH"]
	if !own && d.InheritEnvironment {
		search, _ = environ.Inherited(l.environ).Get("PATH")
	}
	if search == "" || strings.Contains(search, "$") || len(d.EnvFiles) > 0 {
		return // not known before the start
	}
	for _, directory := range filepath.SplitList(search) {
		if info, err := l.stat(filepath.Join(directory, name)); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return
		}
	}
	remedy := SplitRemedy(d.Command, "install it, or write its path")
	d.mistakeAt("command").Warn("no executable %q in PATH %s on this machine: %s", name, search, remedy)
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
