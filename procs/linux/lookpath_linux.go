package linux

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"superd/config/executable"
	"superd/internal/syscalls"
	"superd/procs/host"
)

// An execSearch finds the executable and opens it and its interpreters before the fork does.
type execSearch struct {
	dir     string  // program's directory, the base of relative paths
	user    *rights // the program's; nil if it has superd's rights
	attempt *attempt
	unseen  bool // superd was denied access somewhere; the program's user may have it
}

// findCommand is find for a command. If a missing one contains spaces, the error shows how to write
// its arguments apart.
func (s *execSearch) findCommand(argv, env []string) (string, error) {
	path, err := s.find(argv[0], env)
	e, ok := errors.AsType[*host.SpawnError](err)
	_, missing := errors.AsType[notInPathError](err)
	if !ok || !missing && !errors.Is(err, unix.ENOENT) {
		return path, err
	}
	if remedy := executable.SplitRemedy(argv, ""); remedy != "" {
		split := *e
		split.Err = fmt.Errorf("%w: %s", e.Err, remedy)
		err = &split
	}
	return path, err
}

// A notInPathError reports an executable that is in no directory of PATH.
type notInPathError struct{ search string }

func (e notInPathError) Error() string { return "not in PATH " + e.search }

// find returns the path to execute for name: name itself if it has a slash, relative to the
// directory, otherwise the first match in the PATH of env. Source: man 3 exec.
func (s *execSearch) find(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.dir, path)
		}
		return path, s.check(path, 0)
	}
	search := "/usr/local/bin:/usr/bin:/bin"
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, "PATH="); ok {
			search = value
		}
	}
	var denied error
	for _, part := range filepath.SplitList(search) {
		if !filepath.IsAbs(part) {
			part = filepath.Join(s.dir, part)
		}
		path := filepath.Join(part, name)
		s.attempt.enter("open executable", path)
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil || stat.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		err := s.check(path, 0)
		if err == nil || !errors.Is(err, errNotExecutable) && !errors.Is(err, unix.EACCES) {
			return path, err
		}
		denied = err
	}
	if denied != nil {
		return "", denied
	}
	return "", &host.SpawnError{Stage: "find executable", Path: name, Err: notInPathError{search}}
}

var errNotExecutable = errors.New("not executable; try chmod +x")

// maxInterpreters is how many `#!` interpreters the kernel follows. Source: man 2 execve.
const maxInterpreters = 4

// check opens path and the interpreter in its first line.
func (s *execSearch) check(path string, depth int) error {
	fail := func(err error) error {
		return &host.SpawnError{Stage: "open executable", Path: path, Err: err, Fault: host.FaultOf(err)}
	}
	s.attempt.enter("open executable", path)
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		if err = refusedAccess(path, s.user, err); err != nil {
			return fail(err)
		}
		s.unseen = true
		return nil
	}
	switch {
	case stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fail(errors.New("is a directory"))
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return fail(errors.New("is not a regular file"))
	case stat.Mode&0o111 == 0:
		return fail(errNotExecutable)
	}
	if err := refusedAccess(path, s.user, nil); err != nil {
		return fail(err)
	}
	file, err := openPlain(path)
	if errors.Is(err, os.ErrPermission) {
		s.unseen = s.user != nil
		return nil // it may be executable without being readable
	}
	if err != nil {
		return fail(err)
	}
	defer unix.Close(int(file))
	head := make([]byte, 256) // as much as the kernel reads: BINPRM_BUF_SIZE
	n, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return fail(err)
	}
	s.openLoader(file, head[:n])
	return s.checkScript(path, string(head[:n]), depth)
}

// openLoader opens the loader of a binary, as the exec does, since that may hang. It leaves errors
// to the kernel.
func (s *execSearch) openLoader(file io.ReaderAt, head []byte) {
	loader := loaderOf(file, head)
	if loader == "" {
		return
	}
	if !filepath.IsAbs(loader) {
		loader = filepath.Join(s.dir, loader)
	}
	s.attempt.enter("open loader", loader)
	if opened, err := openPlain(loader); err == nil {
		unix.Close(int(opened))
	}
}

// checkScript checks the interpreter of a script that begins with head. It accepts a file that is
// no script.
func (s *execSearch) checkScript(path, head string, depth int) error {
	fail := func(text string) error {
		return &host.SpawnError{Stage: "open executable", Path: path, Err: errors.New(text)}
	}
	line, isScript := strings.CutPrefix(head, "#!")
	if !isScript {
		return nil
	}
	line, _, _ = strings.Cut(line, "\n")
	interpreter, _, _ := strings.Cut(strings.Trim(line, " \t"), " ")
	interpreter, _, _ = strings.Cut(interpreter, "\t")
	hint := ""
	if strings.HasSuffix(interpreter, "\r") {
		hint = "; the script has DOS line ends"
	}
	switch {
	case interpreter == "":
		return fail("its first line #! names no interpreter")
	case depth == maxInterpreters:
		return fail("too many interpreters of interpreters")
	case !filepath.IsAbs(interpreter):
		interpreter = filepath.Join(s.dir, interpreter)
	}
	if err := s.check(interpreter, depth+1); err != nil {
		cause, _ := errors.AsType[*host.SpawnError](err)
		return &host.SpawnError{Stage: "run script", Path: path, Err: fmt.Errorf("interpreter %q: %w%s", interpreter, cause.Err, hint), Fault: cause.Fault}
	}
	return nil
}

// A plainFile is a descriptor that is read by plain system calls.
type plainFile int

// openPlain opens a file for reading. An os.File would be offered to the runtime's poller first,
// which does not watch regular files.
func openPlain(path string) (plainFile, error) {
	fd, err := syscalls.RetryInt(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	return plainFile(fd), err
}

// ReadAt implements [io.ReaderAt].
func (f plainFile) ReadAt(p []byte, offset int64) (n int, err error) {
	for n < len(p) {
		more, err := syscalls.RetryInt(func() (int, error) { return unix.Pread(int(f), p[n:], offset+int64(n)) })
		if err != nil {
			return n, err
		}
		if more == 0 {
			return n, io.EOF
		}
		n += more
	}
	return n, nil
}
