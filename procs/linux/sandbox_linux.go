package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/internal/execshim"
	"superd/internal/privilege"
	"superd/pidfd"
	"superd/procs/host"
	"superd/sandbox"
	"superd/sandbox/shim"
)

// planSandbox returns the plan for the sandbox of a program of owner that has these directories,
// nil without one. It makes the directories of private_tmp.
func planSandbox(spec *host.SpawnSpec, owner *runAs, directories []string, filters *sandbox.Programs) (*sandbox.Plan, error) {
	settings := spec.Program.Sandbox
	if !settings.Enabled() {
		return nil, nil
	}
	run := sandbox.Run{NotifySocket: spec.NotifySocket, Directories: directories, Tmp: spec.PrivateTmp}
	if uid, _ := owner.owner(); uid != os.Geteuid() {
		run.User = &uid
	}
	if !privilege.Administer() && os.Geteuid() != 0 {
		run.UserNamespace = &sandbox.IDs{UID: os.Geteuid(), GID: os.Getegid()}
	}
	if settings.PrivateTmp {
		if err := makeTmp(spec.PrivateTmp); err != nil {
			return nil, &host.SpawnError{Stage: "make private_tmp", Path: spec.PrivateTmp, Err: err, Fault: host.FaultOf(err)}
		}
	}
	return sandbox.New(settings, run, filters), nil
}

// lookUpPaths looks up the paths that the exec shim will open, so that one on a file system that
// hangs is named when the start is given up. The shim reports what fails.
func lookUpPaths(a *attempt, plan *sandbox.Plan) {
	host, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(host)
	root := host
	if plan.Root != "" {
		a.enter("apply sandbox.root_directory", plan.Root)
		if root, err = openInRoot(host, plan.Root); err != nil {
			return
		}
		defer unix.Close(root)
	}
	lookUp := func(key, path string) {
		a.enter("apply sandbox."+key, filepath.Join(plan.Root, path))
		lookUpIn(root, path)
	}
	for _, p := range plan.Paths {
		lookUp(p.Key, p.Path)
		if p.Source != "" && (p.Source != p.Path || root != host) {
			a.enter("apply sandbox."+p.Key, p.Source)
			lookUpIn(host, p.Source)
		}
	}
	if plan.Landlock == nil {
		return
	}
	for key, list := range plan.Landlock.Files() {
		for _, beneath := range list {
			lookUp(key, beneath.Path)
		}
	}
}

// lookUpIn asks the file system of a path below a root for its attributes.
func lookUpIn(root int, path string) {
	fd, err := openInRoot(root, path)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	_ = unix.Fstat(fd, &stat)
}

// openInRoot opens a path below a root, out of which symbolic links don't lead.
func openInRoot(root int, path string) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	return unix.Openat2(root, path, how)
}

// makeTmp makes the directories of private_tmp, unless an earlier process of the run has them. Only
// superd can enter the one that holds them, which may be in a directory where others make files.
func makeTmp(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, unix.EEXIST) {
		var stat unix.Stat_t
		if err := unix.Lstat(path, &stat); err != nil {
			return err
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR || stat.Mode&0o077 != 0 || int(stat.Uid) != os.Geteuid() {
			return errors.New("another user has made it: remove it")
		}
	} else if err != nil {
		return err
	}
	for name := range sandbox.TmpDirs {
		dir := filepath.Join(path, name)
		if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
			return err
		}
	}
	return nil
}

// RemoveTmp implements [host.Host]. It may take long, and its path is never used again: no start
// waits for it.
func (k *Host) RemoveTmp(path string) {
	k.removing.Begin(&k.removals, func() {
		if err := removeTree(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			k.log.Warn("private_tmp not removed", "path", path, "error", err)
		}
	})
}

// addSandbox lets the exec shim with the sandbox carry out the plan of the program, beside step.
func (k *Host) addSandbox(p *prepared, step *execshim.Step, attr *pidfd.Attr) (binary int, err error) {
	if binary, err = k.shim.Descriptor(); err != nil {
		fault := host.FaultOf(err)
		if errors.Is(err, shim.ErrNotBuilt) {
			fault = host.FaultFinal
		}
		return -1, &host.SpawnError{Stage: "apply sandbox", Err: err, Fault: fault}
	}
	step.Sandbox = p.plan.Fields()
	attr.UserNamespace = p.plan.UserNamespace != nil
	return binary, nil
}

// explainSandbox explains a start that failed in the exec shim with the sandbox, as far as the
// sandbox may be the cause. It returns nil if not.
func explainSandbox(p *prepared, err error) error {
	failed, ok := errors.AsType[*execshim.Error](err)
	switch {
	case p.plan == nil:
		return nil
	case !ok && p.plan.UserNamespace != nil && refusesNamespace(err):
		errno, _ := errors.AsType[syscall.Errno](err)
		return failedSandbox(&sandbox.Failure{Key: p.plan.NamespaceKey(), Errno: errno})
	case !ok:
		return nil
	case failed.Sandbox != nil:
		return failedSandbox(failed.Sandbox)
	case failed.Stage == execshim.StageRead:
		text := errors.New("superd has the exec shim of another build: build it by make build")
		return &host.SpawnError{Stage: "apply sandbox", Err: text, Fault: host.FaultFinal}
	}
	hint := ""
	switch {
	case failed.Errno == unix.ENOENT && p.plan.Mounts:
		hint = "it is not there in the sandbox"
	case failed.Errno == unix.EACCES && p.plan.Landlock != nil:
		hint = "sandbox.landlock may forbid it"
	default:
		return nil
	}
	se := &host.SpawnError{Stage: failed.Stage.String(), Err: fmt.Errorf("%w: %s", failed.Errno, hint)}
	switch failed.Stage {
	case execshim.StageDir:
		se.Path = p.dir
	case execshim.StageExecute:
		se.Path = p.path
	default:
		return nil
	}
	return se
}

// failedSandbox returns the error of a start whose sandbox could not be enforced.
func failedSandbox(f *sandbox.Failure) error {
	fault := host.FaultOf(f)
	if f.Errno == unix.ENOSPC { // the limit on namespaces
		fault = host.FaultProgram
	}
	return &host.SpawnError{Stage: execshim.StageSandbox.String(), Path: f.Place(), Err: f.Cause(), Fault: fault}
}

// refusesNamespace reports whether err is what the kernel says when it makes no user namespace, or
// one without rights.
func refusesNamespace(err error) bool {
	if failed, ok := errors.AsType[*execshim.Error](err); ok {
		return failed.Sandbox != nil && failed.Sandbox.Rights == sandbox.RightsOfNamespace
	}
	for _, errno := range []syscall.Errno{unix.EPERM, unix.EINVAL, unix.ENOSYS, unix.ENOSPC, unix.EUSERS} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
