package procs

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/logs"
)

// A prepared start has met every file that the exec will meet, so that the exec itself does not hang.
type prepared struct {
	path      string
	argv, env []string
	dir       string
	output    int // the program's end of its FIFO; -1 before it is open
}

func (p *prepared) close() {
	if p.output >= 0 {
		unix.Close(p.output)
	}
}

// prepare opens what the exec will open, by ordinary blocking calls: a hang costs this goroutine and nothing else.
// The read end of a FIFO that it had to make is left in made.
func prepare(spec *SpawnSpec, pending *pendingSpawn, made *int) (*prepared, error) {
	program := spec.Program
	var envFile map[string]string
	if program.EnvFile != "" {
		pending.enter("read env_file", program.EnvFile)
		var err error
		if envFile, err = config.ReadEnvFile(program.EnvFile); err != nil {
			return nil, &SpawnError{Stage: "read env_file", Err: err, Fault: faultOf(err)}
		}
	}
	argv, env, dir, err := program.Resolve(spec.Environment, spec.Own, envFile)
	if err != nil {
		return nil, &SpawnError{Stage: "expand configuration", Err: err}
	}
	p := &prepared{argv: argv, env: append(env, variables(spec.Own)...), dir: dir, output: -1}

	pending.enter("enter directory", dir)
	if err := openDirectory(dir); err != nil {
		return p, &SpawnError{Stage: "enter directory", Path: dir, Err: err, Fault: faultOf(err)}
	}
	pending.enter("open executable", argv[0])
	if p.path, err = findExecutable(argv[0], dir, env, pending); err != nil {
		return p, err
	}
	pending.enter("open output", spec.FIFO)
	read := spec.ReadFD
	if read < 0 {
		if read, err = logs.MakeFIFO(spec.FIFO, os.Geteuid(), os.Getegid()); err != nil {
			return p, &SpawnError{Stage: "make output", Err: err, Fault: faultOf(err)}
		}
		*made = read
	}
	if p.output, err = logs.OpenWriter(read); err != nil {
		return p, &SpawnError{Stage: "open output", Err: err, Fault: faultOf(err)}
	}
	return p, nil
}

// variables returns m as KEY=value, sorted.
func variables(m map[string]string) []string {
	list := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key+"="+m[key])
	}
	return list
}

func openDirectory(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return unix.Access(dir, unix.X_OK)
}

// findExecutable returns the path that is to be executed for name: name itself when it has a slash, relative to dir,
// else the first match in the PATH of env. Source: man 3 exec.
func findExecutable(name, dir string, env []string, pending *pendingSpawn) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, checkExecutable(path, dir, pending, 0)
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
			part = filepath.Join(dir, part)
		}
		path := filepath.Join(part, name)
		pending.enter("open executable", path)
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil || stat.Mode&unix.S_IFMT == unix.S_IFDIR {
			continue
		}
		err := checkExecutable(path, dir, pending, 0)
		if err == nil || !errors.Is(err, errNotExecutable) {
			return path, err
		}
		denied = err
	}
	if denied != nil {
		return "", denied
	}
	return "", &SpawnError{Stage: "find executable", Path: name, Err: fmt.Errorf("not in PATH %s", search)}
}

var errNotExecutable = errors.New("not executable; try chmod +x")

// maxInterpreters is how many `#!` interpreters the kernel follows. Source: man 2 execve.
const maxInterpreters = 4

// checkExecutable opens path and the interpreter that its first line names.
func checkExecutable(path, dir string, pending *pendingSpawn, depth int) error {
	fail := func(err error) error {
		return &SpawnError{Stage: "open executable", Path: path, Err: err, Fault: faultOf(err)}
	}
	pending.enter("open executable", path)
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return fail(err)
	}
	switch {
	case stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		return fail(errors.New("is a directory"))
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return fail(errors.New("is not a regular file"))
	case stat.Mode&0o111 == 0 || unix.Access(path, unix.X_OK) != nil:
		return fail(errNotExecutable)
	}
	file, err := os.Open(path)
	if errors.Is(err, os.ErrPermission) {
		return nil // it may be executed without being read
	}
	if err != nil {
		return fail(errors.Unwrap(err))
	}
	defer file.Close()
	head := make([]byte, 256) // as much as the kernel reads: BINPRM_BUF_SIZE
	n, err := io.ReadFull(file, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return fail(err)
	}
	line, isScript := strings.CutPrefix(string(head[:n]), "#!")
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
		return fail(errors.New("its first line #! names no interpreter"))
	case depth == maxInterpreters:
		return fail(errors.New("too many interpreters of interpreters"))
	case !filepath.IsAbs(interpreter):
		interpreter = filepath.Join(dir, interpreter)
	}
	if err := checkExecutable(interpreter, dir, pending, depth+1); err != nil {
		cause, _ := errors.AsType[*SpawnError](err)
		return &SpawnError{Stage: "run script", Path: path, Err: fmt.Errorf("interpreter %q: %w%s", interpreter, cause.Err, hint), Fault: cause.Fault}
	}
	return nil
}

// explainExec names what the kernel's error number leaves open.
func explainExec(p *prepared, err error) error {
	text := err
	switch {
	case errors.Is(err, unix.ENOEXEC):
		text = errors.New("neither a script with a #! line nor a binary for this machine")
	case errors.Is(err, unix.ENOENT):
		text = errors.New("its loader (the ELF interpreter) is missing")
	case errors.Is(err, unix.E2BIG):
		text = errors.New("arguments and environment are too long")
	case errors.Is(err, unix.EAGAIN):
		text = errors.New("no further process: a limit on processes is reached (pids cgroup or RLIMIT_NPROC)")
	}
	return &SpawnError{Stage: "execute", Path: p.path, Err: text, Fault: faultOf(err)}
}

// faultOf tells a shortage of the machine from a mistake in the program.
func faultOf(err error) spawnFault {
	for _, shortage := range []error{unix.EAGAIN, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC} {
		if errors.Is(err, shortage) {
			return faultResource
		}
	}
	return faultProgram
}
