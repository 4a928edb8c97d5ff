package linux

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"superd/internal/execshim"
	"superd/pidfd"
	"superd/procs/host"
	"superd/sandbox"
)

// execute forks and executes the program, directly or through the exec shim if it needs that. attr
// lacks the fields that depend on that.
func (k *Host) execute(a *attempt, p *prepared, attr *pidfd.Attr) (*pidfd.Process, error) {
	attr.Path, attr.Args, attr.Env, attr.Dir = p.path, p.argv, p.env, p.dir
	attr.Credential = p.runAs.credential
	if p.tellsPid {
		attr.PidVariable = execshim.PidVariable
	}
	if step := k.stepFor(p); step != nil {
		child, err := k.executeStep(a, p, step, attr)
		if err != nil {
			return nil, explainStep(a, p, err)
		}
		return child, nil
	}
	child, err := k.spawn(a, attr)
	if err != nil {
		return nil, explainExec(a, p, err)
	}
	return child, nil
}

// executeStep executes the program through an exec shim. If its sandbox may do without a user
// namespace, it does when the kernel makes none.
func (k *Host) executeStep(a *attempt, p *prepared, step *execshim.Step, attr *pidfd.Attr) (*pidfd.Process, error) {
	binary := -1
	if p.plan != nil {
		var err error
		if binary, err = k.addSandbox(p, step, attr); err != nil {
			return nil, err
		}
	}
	files := attr.Files
	child, warnings, err := k.spawnStep(a, p, step, attr, binary)
	if attr.UserNamespace && p.plan.BestEffort && refusesNamespace(err) {
		p.plan.UserNamespace = nil
		attr.Files = files
		return k.executeStep(a, p, step, attr)
	}
	p.warnings = warnings
	return child, err
}

// stepFor returns what the exec shim has to do for the program; nil if it is not needed. With the
// portable fork each program needs the shim, a process of its own: an exec that hangs would halt
// superd.
func (k *Host) stepFor(p *prepared) *execshim.Step {
	attributes := k.attributesOf(p.program)
	otherUser := k.ambient && p.runAs.credential != nil
	if attributes.IsZero() && p.program.Umask == nil && !otherUser && !p.unseen && !p.terminal && !pidfd.Portable && p.plan == nil {
		return nil
	}
	return &execshim.Step{
		ReadyFD:    p.readyNumber,
		Terminal:   p.terminal,
		Sockets:    len(p.socketsFrom(firstPassed)),
		Attributes: attributes,
		Umask:      p.program.Umask,
		Credential: p.runAs.credential,
		Dir:        p.dir,
		Path:       p.path,
		Args:       p.argv,
		Env:        p.env,
	}
}

// spawnStep starts the exec shim and returns when that has executed the program, with what a
// sandbox could not enforce. After an error no process is left. binary is a descriptor of the shim
// with the sandbox; -1: superd's own binary.
func (k *Host) spawnStep(a *attempt, p *prepared, step *execshim.Step, attr *pidfd.Attr, binary int) (*pidfd.Process, []sandbox.Failure, error) {
	var report [2]int
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("make pipe: %w", err)
	}
	defer unix.Close(report[0])
	attr.Path, attr.Dir, attr.Credential = execshim.Binary, "", nil
	attr.Args, attr.Env = step.Command()
	attr.Files = append(attr.Files[:execshim.ReportFD:execshim.ReportFD], report[1])
	ready := -1
	if step.ReadyFD != 0 {
		ready = p.ready[1]
	}
	if step.ReadyFD != 0 || step.Sockets != 0 || binary >= 0 {
		attr.Files = append(attr.Files, ready)
	}
	if binary >= 0 {
		attr.Path = execshim.SandboxBinary
	}
	if step.Sockets != 0 || binary >= 0 {
		attr.Files = append(attr.Files, binary)
	}
	for _, s := range p.socketsFrom(firstPassed) {
		attr.Files = append(attr.Files, s.FD())
	}
	child, err := k.spawn(a, attr)
	unix.Close(report[1])
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES): // /proc is not mounted
		return nil, nil, &host.SpawnError{Stage: "execute", Path: attr.Path, Err: err}
	case err != nil:
		return nil, nil, err
	}
	a.shimBegins(child)
	said, err := readAll(report[0])
	killed := a.shimEnds()
	var warnings []sandbox.Failure
	if err == nil {
		warnings, err = execshim.Result(said)
	}
	if err == nil && !killed { // a shim killed during its exec would leave the report of success
		return child, warnings, nil
	}
	defer child.Close()
	killErr := child.Signal(unix.SIGKILL) // it is about to end by itself
	exit, waitErr := child.Await()
	k.announced(child.Pid())
	switch {
	case killed:
		err = pidfd.ErrKilled
	case errors.Is(err, execshim.ErrDied):
		err = fmt.Errorf("%w: %s", err, exit)
	}
	return nil, nil, errors.Join(err, killErr, waitErr)
}

// readAll reads a report, which is short, to its end.
func readAll(fd int) ([]byte, error) {
	buf, n := make([]byte, 256), 0
	for n < maxReport {
		if n == len(buf) {
			buf = append(buf, make([]byte, len(buf))...)
		}
		m, err := unix.Read(fd, buf[n:])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, fmt.Errorf("read report: %w", err)
		case m == 0:
			return buf[:n], nil
		}
		n += m
	}
	return buf[:n], nil
}

// maxReport is larger than any report of an exec shim: a warning is a line with a key and a path.
const maxReport = 1 << 20

// explainStep names the stage at which the exec shim failed.
func explainStep(a *attempt, p *prepared, err error) error {
	if se, ok := errors.AsType[*host.SpawnError](err); ok {
		return se
	}
	if err := explainSandbox(p, err); err != nil {
		return err
	}
	// the shim is a Go program, which ends if it gets no thread
	if errors.Is(err, execshim.ErrDied) {
		return &host.SpawnError{Stage: "execute", Path: p.path, Err: fmt.Errorf("%w; perhaps a limit on processes is reached (pids cgroup or RLIMIT_NPROC)", err), Fault: host.FaultResource}
	}
	failed, ok := errors.AsType[*execshim.Error](err)
	if !ok {
		return explainExec(a, p, err)
	}
	se := &host.SpawnError{Stage: failed.Stage.String(), Err: failed.Errno, Fault: host.FaultOf(failed)}
	switch failed.Stage {
	case execshim.StageExecute:
		return explainExec(a, p, failed.Errno)
	case execshim.StageDir:
		se.Path = p.dir
	case execshim.StageGroups, execshim.StageGID, execshim.StageUID:
		se.Path, se.Err = p.program.User, explainRunAs(p, failed.Errno)
	case execshim.StageRead, execshim.StagePass, execshim.StageSandbox:
		// the stage says it all
	default:
		se.Err = explainAttribute(p.program, failed)
	}
	return se
}

// explainRunAs explains why superd can't change to the program's user although it seems privileged.
func explainRunAs(p *prepared, err error) error {
	c := p.runAs.credential
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("user %d, group %d or a supplementary group does not exist in this user namespace", c.Uid, c.Gid)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("superd may not change to user %d and group %d: a container or a user namespace forbids it", c.Uid, c.Gid)
	}
	return err
}

// explainExec adds what the kernel's error number leaves open.
func explainExec(a *attempt, p *prepared, err error) error {
	text := err
	switch {
	case errors.Is(err, pidfd.ErrKilled):
		text = a.errHung()
	case errors.Is(err, unix.ENOEXEC):
		text = errors.New("neither a script with a #! line nor a binary for this machine")
	case errors.Is(err, unix.ENOENT):
		text = errors.New("its loader (the ELF interpreter) is missing")
	case errors.Is(err, unix.E2BIG):
		text = errors.New("arguments and environment are too long")
	case errors.Is(err, unix.EACCES):
		text = errors.New("permission denied: by a noexec mount, an access control list or a security module")
	case errors.Is(err, unix.EAGAIN):
		text = errors.New("no further process: a limit on processes is reached (pids cgroup or RLIMIT_NPROC)")
	case p.runAs.credential != nil && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL)):
		text = explainRunAs(p, err)
	}
	return &host.SpawnError{Stage: "execute", Path: p.path, Err: text, Fault: host.FaultOf(err), Killed: errors.Is(err, pidfd.ErrKilled)}
}
