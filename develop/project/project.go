// Package project knows the projects that a user develops: a file such as a Procfile in the
// directory of a project, and the superd that `superd up` runs for it.
//
// Each project has a directory of its own, with a record of the project, its configuration and its
// runtime directory. Only the user may write there, so what is found there may be trusted.
package project

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Home has the projects of one user.
type Home struct {
	Dir    string // of projects that run, lost when the machine is started again
	Logs   string // of their logs
	others bool   // programs of other users must reach what is in Dir: root may start such
}

// HomeOf returns the home of a user's projects: below $XDG_RUNTIME_DIR, if that belongs to the
// user, else below /run for root and /tmp for others. Logs are below $XDG_STATE_HOME or $HOME, if
// that belongs to the user, else there, too.
func HomeOf(getenv func(string) string, uid int) Home {
	h := Home{others: uid == 0}
	switch dir := getenv("XDG_RUNTIME_DIR"); {
	case filepath.IsAbs(dir) && belongsTo(dir, uid):
		h.Dir = filepath.Join(dir, "superd-projects")
	case uid == 0:
		h.Dir = "/run/superd-projects"
	default:
		h.Dir = "/tmp/superd-projects-" + strconv.Itoa(uid)
	}
	state, home := getenv("XDG_STATE_HOME"), getenv("HOME")
	switch {
	case filepath.IsAbs(state) && belongsTo(state, uid):
		h.Logs = filepath.Join(state, "superd/projects")
	case filepath.IsAbs(home) && belongsTo(home, uid): // with sudo it may be another's
		h.Logs = filepath.Join(home, ".local/state/superd/projects")
	default:
		h.Logs = filepath.Join(h.Dir, "logs")
	}
	return h
}

// Own returns the home of the projects of this process's user.
func Own() Home { return HomeOf(os.Getenv, os.Geteuid()) }

func belongsTo(dir string, uid int) bool {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}

// check returns an error if another user may write the home.
func (h Home) check() error {
	info, err := os.Lstat(h.Dir)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("open %s: it is not a directory: remove it", h.Dir)
	case !ok || int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("open %s: it belongs to user %d: set XDG_RUNTIME_DIR to a directory of your own", h.Dir, stat.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("open %s: others may write it: run chmod go-w", h.Dir)
	}
	return nil
}

// mode returns the mode of directories in the home.
func (h Home) mode() fs.FileMode {
	if h.others {
		return 0o711
	}
	return 0o700
}

// A Project is one file with programs, in the directory of a project.
type Project struct {
	Name       string `json:"name"`      // of the directory
	Directory  string `json:"directory"` // without symbolic links
	File       string `json:"file"`      // absolute; its directory has no symbolic links
	Background bool   `json:"background"`

	dir, logs string
	home      Home
}

// At returns the project of a file, which need not run.
func (h Home) At(file string) (*Project, error) {
	absolute, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("find project: %w", err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(absolute))
	if err != nil {
		return nil, fmt.Errorf("find project: %w", err)
	}
	p := &Project{Name: filepath.Base(dir), Directory: dir, File: filepath.Join(dir, filepath.Base(absolute))}
	h.place(p)
	return p, nil
}

// maxName is how much of a project's name is in the name of its directory: the path of a socket in
// it must be short.
const maxName = 20

func (h Home) place(p *Project) {
	sum := sha256.Sum256([]byte(p.File))
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, p.Name)
	id := name[:min(len(name), maxName)] + "-" + hex.EncodeToString(sum[:4])
	p.home, p.dir, p.logs = h, filepath.Join(h.Dir, id), filepath.Join(h.Logs, id)
}

// Dir returns the directory of the project in its user's home.
func (p *Project) Dir() string { return p.dir }

// RuntimeDir returns the runtime directory of the project's superd.
func (p *Project) RuntimeDir() string { return filepath.Join(p.dir, "run") }

// Socket returns the control socket of the project's superd.
func (p *Project) Socket() string { return filepath.Join(p.RuntimeDir(), "superd.sock") }

// ConfigFile returns the configuration of the project's superd, which extends another one.
func (p *Project) ConfigFile() string { return filepath.Join(p.dir, "superd.toml") }

// ImportFile returns the configuration that the project's file was imported to.
func (p *Project) ImportFile() string { return filepath.Join(p.dir, "import.toml") }

// LogDir returns the directory of the programs' logs.
func (p *Project) LogDir() string { return p.logs }

// OwnLog returns the file for the messages of a superd in the background.
func (p *Project) OwnLog() string { return filepath.Join(p.logs, "superd.log") }

func (p *Project) recordFile() string { return filepath.Join(p.dir, "project.json") }

// Prepare makes the directories of the project.
func (p *Project) Prepare() error {
	if err := os.MkdirAll(p.home.Dir, p.home.mode()); err != nil {
		return fmt.Errorf("make a place for the project: %w", err)
	}
	if err := p.home.check(); err != nil { // before anything is made in it
		return err
	}
	if err := os.MkdirAll(p.dir, p.home.mode()); err != nil {
		return fmt.Errorf("make a place for the project: %w", err)
	}
	for _, dir := range []string{p.home.Dir, p.dir} {
		// The umask may have removed permissions
		if err := os.Chmod(dir, p.home.mode()); err != nil {
			return fmt.Errorf("make a place for the project: %w", err)
		}
	}
	if err := os.MkdirAll(p.logs, 0o700); err != nil {
		return fmt.Errorf("make a place for the project's logs: %w", err)
	}
	return nil
}

// Save writes the record by which others find the project.
func (p *Project) Save() error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return p.Write(p.recordFile(), string(text)+"\n")
}

// Write replaces a file of the project's directory at once, so that no reader sees a part of it.
func (p *Project) Write(path, text string) error {
	temporary, err := os.CreateTemp(p.dir, ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write project: %w", err)
	}
	_, err = temporary.WriteString(text)
	err = errors.Join(err, temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name()) // the first error counts
		return fmt.Errorf("write project: %w", err)
	}
	return nil
}

// A State says whether a project runs.
type State string

// States of a project.
const (
	Running State = "running"
	Killed  State = "killed" // its superd was killed, and its programs may run
	Ended   State = "ended"
)

// dialTimeout bounds the wait for a connection, which the kernel makes at once.
const dialTimeout = time.Second

// State returns whether the project runs. Its superd listens even while another supervisor takes
// over.
func (p *Project) State() State {
	if conn, err := net.DialTimeout("unix", p.Socket(), dialTimeout); err == nil {
		_ = conn.Close()
		return Running
	}
	if _, err := os.Lstat(filepath.Join(p.RuntimeDir(), "superd.lock")); err == nil {
		return Killed
	}
	return Ended
}

// All returns the projects that have been started since the machine was, by directory.
func (h Home) All() ([]*Project, error) {
	err := h.check()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	records, err := filepath.Glob(filepath.Join(escapeGlob(h.Dir), "*", "project.json"))
	if err != nil {
		return nil, err
	}
	var all []*Project
	for _, path := range records {
		text, err := os.ReadFile(path)
		p := new(Project)
		if err != nil || json.Unmarshal(text, p) != nil || !filepath.IsAbs(p.File) {
			continue // it is being removed, or another version's
		}
		if h.place(p); p.recordFile() == path {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *Project) int { return strings.Compare(a.File, b.File) })
	return all, nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// In returns the projects of the directory that have not ended, or else those of the
// nearest directory above.
func (h Home) In(dir string) (found []*Project, err error) {
	all, err := h.All()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, fmt.Errorf("find project: %w", err)
	}
	for {
		for _, p := range all {
			if p.Directory == dir && p.State() != Ended {
				found = append(found, p)
			}
		}
		parent := filepath.Dir(dir)
		if len(found) > 0 || parent == dir {
			return found, nil
		}
		dir = parent
	}
}

// A SeveralError says that several projects run in a directory, so that one has to be named.
type SeveralError struct{ Projects []*Project }

func (e *SeveralError) Error() string {
	names := make([]string, len(e.Projects))
	for i, p := range e.Projects {
		names[i] = filepath.Base(p.File)
	}
	return fmt.Sprintf("%s has several projects that run: name the file of one: %s",
		e.Projects[0].Directory, strings.Join(names, ", "))
}

// Current returns the project of the working directory, nil if none runs.
func (h Home) Current() (*Project, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // a directory that is gone has no project
	}
	found, err := h.In(dir)
	switch {
	case err != nil:
		return nil, err
	case len(found) > 1:
		return nil, &SeveralError{found}
	case len(found) == 1:
		return found[0], nil
	}
	return nil, nil //nolint:nilnil // none is no error
}
