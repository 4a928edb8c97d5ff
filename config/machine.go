package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"superd/account"
)

// checkMachine warns of what this machine lacks for a program. It is no mistake of the file: the machine where it is
// checked need not be the one where it runs, nor its users stay as they are.
func (l *loader) checkMachine() {
	for _, d := range l.programs {
		if d.User != "" {
			_, err := l.accounts.User(d.User)
			d.blame("user").warnAccount(err)
		}
		if d.Log.Owner != "" {
			_, err := l.accounts.User(d.Log.Owner)
			d.blame("log.owner").warnAccount(err)
		}
		if d.Log.Group != "" {
			_, err := l.accounts.Group(d.Log.Group)
			d.blame("log.group").warnAccount(err)
		}
		items, _ := d.blame("supplementary_groups").items()
		for _, item := range items {
			if name, ok := item.raw.(string); ok {
				_, err := l.accounts.Group(name)
				item.warnAccount(err)
			}
		}
		l.checkPaths(d)
		l.checkLimit(d, "limits.nofile", syscall.RLIMIT_NOFILE, d.Limits.NoFile)
		l.checkLimit(d, "limits.core", syscall.RLIMIT_CORE, d.Limits.Core)
	}
}

// checkPaths warns of a directory or an executable that is not there. What holds ${X} is not known before the start.
func (l *loader) checkPaths(d *draft) {
	if l.stat == nil || len(d.Command) == 0 || strings.Contains(d.Directory, "$") {
		return
	}
	switch info, err := l.stat(d.Directory); {
	case errors.Is(err, fs.ErrNotExist):
		d.blame("directory").warn("no directory %s on this machine: make it, or write another one", d.Directory)
	case err == nil && !info.IsDir():
		d.blame("directory").warn("%s is not a directory: write another one", d.Directory)
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
			d.blame("command").warn("no executable %s on this machine: install it, or correct the path", path)
		case err == nil && info.IsDir():
			d.blame("command").warn("%s is a directory: name the executable in it", path)
		case err == nil && info.Mode()&0o111 == 0:
			d.blame("command").warn("%s is not executable: try chmod +x", path)
		}
	default:
		l.checkSearch(d, name)
	}
}

// checkSearch warns of an executable that is not in the program's PATH.
func (l *loader) checkSearch(d *draft, name string) {
	search, own := d.Environment["PATH"]
	if !own && d.InheritEnvironment {
		search, _ = Inherited(l.environ).Get("PATH")
	}
	if search == "" || strings.Contains(search, "$") || d.EnvFile != "" {
		return // not known before the start
	}
	for _, directory := range filepath.SplitList(search) {
		if info, err := l.stat(filepath.Join(directory, name)); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return
		}
	}
	d.blame("command").warn("no executable %q in PATH %s on this machine: install it, or write its path", name, search)
}

// warnAccount warns of a user or group that is not there. err may be nil.
func (v value) warnAccount(err error) {
	if unknown, ok := errors.AsType[*account.UnknownError](err); ok {
		v.warn("%w on this machine%s", err, didYouMean(unknown.Name, unknown.Known, ": add it, or write another one"))
	} else if err != nil {
		v.warn("%w", err)
	}
}

// checkLimit warns of a limit that could not be set if superd ran as whoever checks.
func (l *loader) checkLimit(d *draft, key string, resource int, value *int64) {
	if value == nil {
		return
	}
	if err := l.setLimit(resource, *value); err != nil {
		d.blame(key).warn("%w", err)
	}
}
