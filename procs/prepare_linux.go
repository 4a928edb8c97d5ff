package procs

import (
	"errors"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"superd/account"
	"superd/config"
	"superd/execstep"
	"superd/logs"
	"superd/privilege"
)

// A prepared start has met every file that the exec will meet, so that the exec itself does not hang.
type prepared struct {
	program   *config.Program
	runAs     *runAs
	path      string
	argv, env []string
	dir       string
	envSum    uint64
	outputs   []int // the program's ends of its FIFOs, as far as they are open: one for standard error, too, or each its own
	unseen    bool  // superd could not meet all that the exec will meet, as the user may
	pending   *pendingSpawn
}

func (p *prepared) close() {
	for _, fd := range p.outputs {
		unix.Close(fd)
	}
}

// prepare opens what the exec will open, by ordinary blocking calls: a hang costs this goroutine and nothing else.
// The read ends of FIFOs that it had to make are left in made, which has a place for each output.
func prepare(spec *SpawnSpec, pending *pendingSpawn, made []int) (*prepared, error) {
	program := spec.Program
	if err := checkHeadroom(); err != nil {
		return nil, &SpawnError{Stage: "keep descriptors free for superd itself", Err: err, Fault: faultOf(err)}
	}
	pending.enter("look up user", program.User)
	id, err := lookUpRunAs(program, account.System())
	if err != nil {
		return nil, err
	}
	if err := checkLimits(program.Limits); err != nil {
		return nil, err
	}
	var envFile map[string]string
	var envSum uint64
	if program.EnvFile != "" {
		pending.enter("read env_file", program.EnvFile)
		if envFile, err = config.ReadEnvFile(program.EnvFile); err != nil {
			return nil, &SpawnError{Stage: "read env_file", Err: err, Fault: faultOf(err)}
		}
		envSum = config.EnvSum(envFile)
	}
	below := maps.Clone(spec.Own)
	maps.Copy(below, id.variables)
	argv, env, dir, err := program.Resolve(spec.Environment, below, envFile)
	if err != nil {
		return nil, &SpawnError{Stage: "expand configuration", Err: err}
	}
	p := &prepared{program: program, runAs: id, argv: argv, env: append(env, variables(spec.Own)...), dir: dir, pending: pending, envSum: envSum}

	pending.enter("enter directory", dir)
	unseenDir, err := checkDirectory(dir, id.rights())
	if err != nil {
		return p, &SpawnError{Stage: "enter directory", Path: dir, Err: err, Fault: faultOf(err)}
	}
	pending.enter("open executable", argv[0])
	search := &execSearch{dir: dir, user: id.rights(), pending: pending}
	if p.path, err = search.find(argv[0], env); err != nil {
		return p, err
	}
	p.unseen = search.unseen || unseenDir
	for i, output := range spec.Outputs {
		fd, err := openOutput(output, id, pending, &made[i])
		if err != nil {
			return p, err
		}
		p.outputs = append(p.outputs, fd)
	}
	return p, nil
}

// openOutput returns the program's end of an output. The read end of a FIFO that it had to make is left in made.
func openOutput(output Outlet, id *runAs, pending *pendingSpawn, made *int) (fd int, err error) {
	if output.Direct != nil {
		pending.enter("open log file", "")
		if fd, err = output.Direct(); err != nil {
			return -1, &SpawnError{Stage: "open log file", Err: err, Fault: faultOf(err)}
		}
		return fd, nil
	}
	pending.enter("open output", output.FIFO)
	read := output.ReadFD
	uid, gid := id.owner()
	err = pending.unlessCalledOff(func() (err error) {
		if read < 0 {
			read, err = logs.MakeFIFO(output.FIFO, uid, gid)
			*made = read
		} else {
			err = logs.GiveFIFO(read, uid, gid)
		}
		if err == nil {
			fd, err = logs.OpenWriter(read)
		}
		return err
	})
	if err != nil {
		return -1, &SpawnError{Stage: "make output", Err: err, Fault: faultOf(err)}
	}
	return fd, nil
}

// stdoutAndStderr returns what becomes the program's descriptors 1 and 2.
func (p *prepared) stdoutAndStderr() (int, int) { return p.outputs[0], p.outputs[len(p.outputs)-1] }

// checkLimits refuses limits that superd may not set.
func checkLimits(limits config.Limits) error {
	for _, limit := range []struct {
		stage    string
		resource int
		value    *int64
	}{
		{execstep.StageNoFile, unix.RLIMIT_NOFILE, limits.NoFile},
		{execstep.StageCore, unix.RLIMIT_CORE, limits.Core},
	} {
		if limit.value == nil {
			continue
		}
		if err := privilege.SetLimit(limit.resource, *limit.value); err != nil {
			return &SpawnError{Stage: limit.stage, Err: err}
		}
	}
	return nil
}

// variables returns m as KEY=value, sorted.
func variables(m map[string]string) []string {
	list := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key+"="+m[key])
	}
	return list
}

// checkDirectory finds out whether the program can enter its directory. user is nil where it may do what superd may. unseen tells
// that superd itself was turned away, and the user perhaps isn't.
func checkDirectory(dir string, user *rights) (unseen bool, err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return user != nil && errors.Is(err, unix.EACCES), refusedAccess(dir, user, err)
}

// refusedAccess returns why path can't be entered or executed. err is what examining it by superd's own rights gave.
func refusedAccess(path string, user *rights, err error) error {
	switch {
	case user == nil && err == nil:
		err = unix.Access(path, unix.X_OK)
		fallthrough
	case user == nil:
		if errors.Is(err, unix.EACCES) {
			if refusal := superdRights().refuses(path); refusal != nil {
				return refusal
			}
		}
		return err
	case errors.Is(err, unix.EACCES):
		return nil // superd may not look there; the user perhaps may, as on a network's file system that distrusts root
	case err != nil:
		return err
	}
	return user.refuses(path)
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
