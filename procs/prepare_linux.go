package procs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"superd/account"
	"superd/config"
	"superd/execstep"
	"superd/logs"
	"superd/privilege"
	"superd/procs/notify"
)

// A prepared start has met every file that the exec will meet, so that the exec itself does not hang.
type prepared struct {
	program     *config.Program
	runAs       *runAs
	path        string
	argv, env   []string
	dir         string
	envSum      uint64
	outputs     []int  // the program's ends of its FIFOs, as far as they are open: one for standard error, too, or each its own
	input       int    // its standard input; -1: /dev/null
	notify      int    // its notify socket; -1: none
	readyNumber int    // where the program has the writing end of
	ready       [2]int // the pipe on which it tells that it is ready; -1: none
	unseen      bool   // superd could not meet all that the exec will meet, as the user may
	pending     *pendingSpawn
}

func (p *prepared) close() {
	for _, fd := range append([]int{p.input, p.notify, p.ready[0], p.ready[1]}, p.outputs...) {
		closeInherited(fd)
	}
}

// makeTold makes what the program is to tell superd by.
func (p *prepared) makeTold(spec *SpawnSpec) (err error) {
	if spec.NotifySocket != "" {
		uid, gid := p.runAs.owner()
		if p.notify, err = notify.Open(spec.NotifySocket, uid, gid); err != nil {
			p.notify = -1
			return err
		}
	}
	if spec.ReadyFD > 0 {
		if err := unix.Pipe2(p.ready[:], unix.O_CLOEXEC); err != nil {
			p.ready = [2]int{-1, -1}
			return fmt.Errorf("make pipe: %w", err)
		}
		p.readyNumber = spec.ReadyFD
	}
	return nil
}

// prepare opens what the exec will open, by ordinary blocking calls: a hang costs this goroutine and nothing else.
// The read ends of FIFOs that it had to make are left in made, which has a place for each output, and the FIFO for its input in madeInput.
func prepare(spec *SpawnSpec, pending *pendingSpawn, made []int, madeInput *int) (*prepared, error) {
	program := spec.Program
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
	argv, env, dir, err := program.Resolve(spec.Environment, spec.Own, id.variables, envFile)
	if err != nil {
		return nil, &SpawnError{Stage: "expand configuration", Err: err}
	}
	p := &prepared{program: program, runAs: id, argv: argv, env: env, dir: dir, input: -1, notify: -1, ready: [2]int{-1, -1}, pending: pending, envSum: envSum}

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
	if spec.NotifySocket != "" || spec.ReadyFD > 0 {
		pending.enter("make notify socket", spec.NotifySocket)
		if err := pending.unlessCalledOff(func() error { return p.makeTold(spec) }); err != nil {
			return p, &SpawnError{Stage: "make notify socket", Err: err, Fault: faultOf(err)}
		}
	}
	for i, output := range spec.Outputs {
		fd, err := openOutput(output, id, pending, &made[i])
		if err != nil {
			return p, err
		}
		p.outputs = append(p.outputs, fd)
	}
	if spec.Input != nil {
		if p.input, err = openFIFO(*spec.Input, logs.OpenReader, id, pending, madeInput); err != nil {
			return p, err
		}
	}
	return p, nil
}

// openOutput returns the program's end of an output. The read end of a FIFO that it had to make is left in made.
func openOutput(output Outlet, id *runAs, pending *pendingSpawn, made *int) (fd int, err error) {
	if output.Direct != nil {
		pending.enter("open log file", "")
		uid, _ := id.owner()
		if fd, err = output.Direct(uint32(uid)); err != nil {
			return -1, &SpawnError{Stage: "open log file", Err: err, Fault: faultOf(err)}
		}
		return fd, nil
	}
	return openFIFO(output, logs.OpenWriter, id, pending, made)
}

// openFIFO returns the program's end of a FIFO. superd's, if it had to make that, is left in made.
func openFIFO(outlet Outlet, open func(superds int) (int, error), id *runAs, pending *pendingSpawn, made *int) (fd int, err error) {
	pending.enter("open FIFO", outlet.FIFO)
	read := outlet.ReadFD
	uid, gid := id.owner()
	err = pending.unlessCalledOff(func() (err error) {
		if read < 0 {
			read, err = logs.MakeFIFO(outlet.FIFO, uid, gid)
			*made = read
		} else {
			err = logs.GiveFIFO(read, uid, gid)
		}
		if err == nil {
			fd, err = open(read)
		}
		return err
	})
	if err != nil {
		return -1, &SpawnError{Stage: "make FIFO", Err: err, Fault: faultOf(err)}
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
