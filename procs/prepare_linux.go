package procs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/document"
	"superd/internal/execshim"
	"superd/internal/passwd"
	"superd/internal/privilege"
	"superd/logs"
	"superd/procs/notify"
)

// A prepared start has opened every file that the exec will open, so that the exec does not hang.
type prepared struct {
	program   *config.Program
	runAs     *runAs
	path      string
	argv, env []string
	dir       string
	envSum    uint64
	// program's ends of its FIFOs, those open so far: one for both streams, or one for each
	outputs     []int
	input       int    // its standard input; -1: /dev/null
	notify      int    // its notify socket; -1: none
	readyNumber int    // program's descriptor number of the write end of ready
	ready       [2]int // readiness pipe; -1: none
	unseen      bool   // superd could not open all that the exec will open as the user
	pending     *pendingSpawn
}

func (p *prepared) close() {
	for _, fd := range append([]int{p.input, p.notify, p.ready[0], p.ready[1]}, p.outputs...) {
		closeInherited(fd)
	}
}

// makeTold makes the notify socket and the readiness pipe.
func (p *prepared) makeTold(spec *SpawnSpec) (err error) {
	if spec.NotifySocket != "" {
		if p.notify, err = notify.Open(spec.NotifySocket); err != nil {
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

// prepare opens what the exec will open, by ordinary blocking calls: a hang blocks only this
// goroutine. It stores the read ends of FIFOs that it had to make in made, one element per output,
// and the FIFO for the input in madeInput.
func prepare(spec *SpawnSpec, pending *pendingSpawn, made []int, madeInput *int) (*prepared, error) {
	program := spec.Program
	pending.enter("look up user", program.User)
	id, err := lookUpRunAs(program, passwd.System())
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
		if envFile, err = document.ReadEnvFile(program.EnvFile); err != nil {
			return nil, &SpawnError{Stage: "read env_file", Err: err, Fault: faultOf(err)}
		}
		envSum = document.EnvSum(envFile)
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
	if p.path, err = search.findCommand(argv, env); err != nil {
		return p, err
	}
	p.unseen = search.unseen || unseenDir
	if spec.NotifySocket != "" || spec.ReadyFD > 0 {
		pending.enter("make notify socket", "")
		if err := pending.unlessCanceled(func() error { return p.makeTold(spec) }); err != nil {
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

// openOutput returns the program's end of an output. It stores the read end of a FIFO that it had
// to make in made.
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

// openFIFO returns the program's end of a FIFO. It stores superd's end, if it had to make the FIFO,
// in made.
func openFIFO(outlet Outlet, open func(superds int) (int, error), id *runAs, pending *pendingSpawn, made *int) (fd int, err error) {
	pending.enter("open FIFO", outlet.FIFO)
	read := outlet.ReadFD
	uid, gid := id.owner()
	err = pending.unlessCanceled(func() (err error) {
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

func (p *prepared) stdoutAndStderr() (int, int) { return p.outputs[0], p.outputs[len(p.outputs)-1] }

// checkLimits refuses limits that superd may not set.
func checkLimits(limits config.Limits) error {
	for _, limit := range []struct {
		stage    string
		resource int
		value    *int64
	}{
		{execshim.StageNoFile, unix.RLIMIT_NOFILE, limits.NoFile},
		{execshim.StageCore, unix.RLIMIT_CORE, limits.Core},
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

// checkDirectory checks whether the program can enter its directory. user is nil if the program has
// superd's rights. unseen means that superd itself was denied access, and the user may have it.
func checkDirectory(dir string, user *rights) (unseen bool, err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return user != nil && errors.Is(err, unix.EACCES), refusedAccess(dir, user, err)
}

// refusedAccess returns why path can't be entered or executed. err is the result of superd's own
// attempt to examine it.
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
		// the user may have access that superd lacks, as on a network file system that distrusts
		// root
		return nil
	case err != nil:
		return err
	}
	return user.refuses(path)
}

// faultOf distinguishes a resource shortage of the machine from a mistake in the program.
func faultOf(err error) spawnFault {
	for _, shortage := range []error{unix.EAGAIN, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOSPC} {
		if errors.Is(err, shortage) {
			return faultResource
		}
	}
	return faultProgram
}
