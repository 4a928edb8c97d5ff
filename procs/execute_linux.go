package procs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"superd/execstep"
	"superd/pidfd"
)

// execute forks and executes the program: directly, or through a step where it needs one. attr lacks what depends on
// that.
func (k *Kernel) execute(p *prepared, attr *pidfd.Attr) (*pidfd.Process, error) {
	attr.Path, attr.Args, attr.Env, attr.Dir = p.path, p.argv, p.env, p.dir
	attr.Credential = p.runAs.credential
	if step := k.stepFor(p); step != nil {
		child, err := k.spawnStep(step, attr, p.ready[1], p.pending)
		if err != nil {
			return nil, explainStep(p, err)
		}
		return child, nil
	}
	child, err := k.spawn(attr)
	if err != nil {
		return nil, explainExec(p, err)
	}
	return child, nil
}

// stepFor returns what a fork can't do for the program; nil when there is nothing: who needs no step doesn't pay for it.
func (k *Kernel) stepFor(p *prepared) *execstep.Step {
	limits := p.program.Limits
	otherUser := k.ambient && p.runAs.credential != nil
	if limits.NoFile == nil && limits.Core == nil && p.program.Umask == nil && k.oomScoreAdj == nil && !otherUser && !p.unseen {
		return nil
	}
	return &execstep.Step{
		ReadyFD:     p.readyNumber,
		OOMScoreAdj: k.oomScoreAdj,
		NoFile:      limits.NoFile,
		Core:        limits.Core,
		Umask:       p.program.Umask,
		Credential:  p.runAs.credential,
		Dir:         p.dir,
		Path:        p.path,
		Args:        p.argv,
		Env:         p.env,
	}
}

// spawnStep starts the step and returns once it has executed the program, or with the error that kept it from doing so;
// then nothing is left of it.
func (k *Kernel) spawnStep(step *execstep.Step, attr *pidfd.Attr, ready int, pending *pendingSpawn) (*pidfd.Process, error) {
	var report [2]int
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer unix.Close(report[0])
	attr.Path, attr.Dir, attr.Credential = execstep.Binary, "", nil
	attr.Args, attr.Env = step.Command()
	attr.Files = append(attr.Files[:execstep.ReportFD:execstep.ReportFD], report[1])
	if step.ReadyFD != 0 {
		attr.Files = append(attr.Files, ready)
	}
	child, err := k.spawn(attr)
	unix.Close(report[1])
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES): // without /proc
		return nil, &SpawnError{Stage: "execute", Path: execstep.Binary, Err: err}
	case err != nil:
		return nil, err
	}
	pending.stepBegins(child)
	said, err := readAll(report[0])
	killed := pending.stepEnds()
	if err == nil {
		err = execstep.Result(said)
	}
	if err == nil && !killed { // in its exec, it would leave the report of success
		return child, nil
	}
	defer child.Close()
	killErr := child.Signal(unix.SIGKILL) // it is about to end by itself
	exit, waitErr := awaitExit(child)
	k.known(child.Pid())
	switch {
	case killed:
		err = errStepHung
	case errors.Is(err, execstep.ErrDied):
		err = fmt.Errorf("%w: %s", err, exit)
	}
	return nil, errors.Join(err, killErr, waitErr)
}

// readAll reads to the end of a report, which is short.
func readAll(fd int) ([]byte, error) {
	buf, n := make([]byte, 256), 0
	for n < len(buf) {
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
	return buf, nil
}

// awaitExit reaps a process that is about to end.
func awaitExit(process *pidfd.Process) (pidfd.Exit, error) {
	for {
		exit, ended, err := process.Wait()
		if ended || err != nil {
			return exit, err
		}
		polled := []unix.PollFd{{Fd: int32(process.FD()), Events: unix.POLLIN}}
		if _, err := unix.Poll(polled, -1); err != nil && err != unix.EINTR {
			return pidfd.Exit{}, fmt.Errorf("poll process %d: %w", process.Pid(), err)
		}
	}
}

// errStepHung is a step that was killed, since it took too long.
var errStepHung = errors.New("no answer in time; " + hangHint)

// explainStep says which stage of a step failed.
func explainStep(p *prepared, err error) error {
	if se, ok := errors.AsType[*SpawnError](err); ok {
		return se
	}
	if errors.Is(err, execstep.ErrDied) { // it is a Go program, which ends when it gets no thread
		return &SpawnError{Stage: "execute", Path: p.path, Err: fmt.Errorf("%w; perhaps a limit on processes is reached (pids cgroup or RLIMIT_NPROC)", err), Fault: faultResource}
	}
	if errors.Is(err, errStepHung) {
		return &SpawnError{Stage: "execute", Path: p.path, Err: errStepHung}
	}
	failed, ok := errors.AsType[*execstep.Error](err)
	if !ok {
		return explainExec(p, err)
	}
	se := &SpawnError{Stage: failed.Stage, Err: failed.Errno, Fault: faultOf(failed)}
	switch failed.Stage {
	case execstep.StageExecute:
		return explainExec(p, failed.Errno)
	case execstep.StageDir:
		se.Path = p.dir
	case execstep.StageGroups, execstep.StageGID, execstep.StageUID:
		se.Path, se.Err = p.program.User, explainRunAs(p, failed.Errno)
	case execstep.StageNoFile:
		se.Err = fmt.Errorf("to %d: %w; only root outside of a user namespace may raise a hard limit", *p.program.Limits.NoFile, failed.Errno)
	case execstep.StageCore:
		se.Err = fmt.Errorf("to %d: %w; only root outside of a user namespace may raise a hard limit", *p.program.Limits.Core, failed.Errno)
	}
	return se
}

// explainRunAs says why superd, which seems to be allowed to, may not change to the program's user.
func explainRunAs(p *prepared, err error) error {
	c := p.runAs.credential
	switch {
	case errors.Is(err, unix.EINVAL):
		return fmt.Errorf("the numbers %d and %d, or one of the groups, don't exist in this user namespace", c.Uid, c.Gid)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("superd may not change to %d and %d: a container or a user namespace forbids it", c.Uid, c.Gid)
	}
	return err
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
	case errors.Is(err, unix.EACCES):
		text = errors.New("permission denied: by a noexec mount, an access control list or a security module")
	case errors.Is(err, unix.EAGAIN):
		text = errors.New("no further process: a limit on processes is reached (pids cgroup or RLIMIT_NPROC)")
	case p.runAs.credential != nil && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL)):
		text = explainRunAs(p, err)
	}
	return &SpawnError{Stage: "execute", Path: p.path, Err: text, Fault: faultOf(err)}
}

// ownOOMScore returns what the programs' oom_score_adj is to be set to: 0 where superd's own protects it from the OOM
// killer, which is meant for superd alone; nil where they can have it as it is.
func ownOOMScore() (*int, error) {
	data, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return nil, err
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || score >= 0 {
		return nil, err
	}
	return new(int), nil
}
