package linux

import (
	"fmt"

	"golang.org/x/sys/unix"

	"superd/config"
	"superd/config/document"
	"superd/internal/passwd"
	"superd/logs/pipe"
	"superd/procs/host"
	"superd/procs/notify"
	"superd/procs/pty"
	"superd/sandbox"
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
	sockets     []*host.SharedFD
	firstSocket int  // number of the first one; 0 or 3
	tellsPid    bool // LISTEN_PID gets its pid
	connection  bool // the one socket is a connection
	terminal    bool // input becomes its controlling terminal
	screen      bool // it is standard output and error, too
	unseen      bool // superd could not open all that the exec will open as the user

	plan     *sandbox.Plan     // nil: no sandbox
	warnings []sandbox.Failure // what of the plan could not be enforced
}

func (p *prepared) close() {
	for _, fd := range append([]int{p.input, p.notify, p.ready[0], p.ready[1]}, p.outputs...) {
		closeInherited(fd)
	}
}

// makeTold makes the notify socket and the readiness pipe.
func (p *prepared) makeTold(spec *host.SpawnSpec) (err error) {
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
// goroutine. It stores superd's ends of FIFOs that it had to make in child.
func prepare(a *attempt, spec *host.SpawnSpec, child *host.Child, filters *sandbox.Programs) (*prepared, error) {
	program := spec.Program
	a.enter("look up user", program.User)
	accounts := passwd.System()
	owner, err := lookUpRunAs(program.User, program.SupplementaryGroups, accounts)
	if err != nil {
		return nil, err
	}
	id := owner
	if spec.User != "" {
		if id, err = lookUpRunAs(spec.User, nil, accounts); err != nil {
			return nil, err
		}
	}
	if err := checkAttributes(program); err != nil {
		return nil, err
	}
	directories, err := makeDirectories(a, spec, owner)
	if err != nil {
		return nil, err
	}
	envFile, envSum, err := program.ReadEnvFiles(func(path string) (map[string]string, error) {
		a.enter("read env_file", path)
		return document.ReadEnvFile(path)
	})
	if err != nil {
		return nil, &host.SpawnError{Stage: "read env_file", Err: err, Fault: host.FaultOf(err)}
	}
	argv, env, dir, err := program.Resolve(spec.Environment, spec.Own, id.variables, envFile)
	if err != nil {
		return nil, &host.SpawnError{Stage: "expand configuration", Err: err}
	}
	p := &prepared{program: program, runAs: id, argv: argv, env: env, dir: dir, input: -1, notify: -1, ready: [2]int{-1, -1}, envSum: envSum}
	p.sockets, p.firstSocket, p.tellsPid = spec.Sockets, spec.FirstSocket, spec.TellsPid
	p.connection = spec.Connection

	a.enter("prepare sandbox", "")
	if p.plan, err = planSandbox(spec, owner, directories, filters); err != nil {
		return p, err
	}
	if p.plan != nil {
		lookUpPaths(a, p.plan)
	}
	if err := p.findCommand(a); err != nil {
		return p, err
	}
	if spec.NotifySocket != "" || spec.ReadyFD > 0 {
		a.enter("make notify socket", "")
		if err := a.unlessCanceled(func() error { return p.makeTold(spec) }); err != nil {
			return p, &host.SpawnError{Stage: "make notify socket", Err: err, Fault: host.FaultOf(err)}
		}
	}
	for i, output := range spec.Outputs {
		fd, err := openOutput(a, output, owner, &child.ReadFDs[i])
		if err != nil {
			return p, err
		}
		p.outputs = append(p.outputs, fd)
	}
	if spec.Input != nil {
		if p.input, err = openInput(a, *spec.Input, owner, &child.InputFD); err != nil {
			return p, err
		}
		if p.terminal, p.screen = spec.Terminal, spec.Screen; p.screen {
			inherited, _ := spec.Environment.Get("TERM")
			p.env = pty.Environment(p.env, program.Environment, inherited)
		}
	}
	return p, nil
}

// findCommand opens directory and executable, unless they are in a root of their own: there the
// exec shim finds them.
func (p *prepared) findCommand(a *attempt) error {
	if p.plan != nil && p.plan.Root != "" {
		p.path = p.argv[0]
		return nil
	}
	a.enter("enter directory", p.dir)
	unseenDir, err := checkDirectory(p.dir, p.runAs.rights())
	if err != nil {
		return &host.SpawnError{Stage: "enter directory", Path: p.dir, Err: err, Fault: host.FaultOf(err)}
	}
	a.enter("open executable", p.argv[0])
	search := &execSearch{dir: p.dir, user: p.runAs.rights(), attempt: a}
	if p.path, err = search.findCommand(p.argv, p.env); err != nil {
		return err
	}
	p.unseen = search.unseen || unseenDir
	return nil
}

// openOutput returns the program's end of an output. It stores the read end of a FIFO that it had
// to make in ownEnd.
func openOutput(a *attempt, output host.Outlet, id *runAs, ownEnd *int) (fd int, err error) {
	if output.Direct != nil {
		a.enter("open log file", "")
		uid, _ := id.owner()
		if fd, err = output.Direct(uint32(uid)); err != nil {
			return -1, &host.SpawnError{Stage: "open log file", Err: err, Fault: host.FaultOf(err)}
		}
		return fd, nil
	}
	return openFIFO(a, output, pipe.OpenWriter, id, ownEnd)
}

// openInput is openOutput for the standard input.
func openInput(a *attempt, input host.Outlet, id *runAs, ownEnd *int) (fd int, err error) {
	if input.Direct == nil {
		return openFIFO(a, input, pipe.OpenReader, id, ownEnd)
	}
	uid, _ := id.owner()
	if fd, err = input.Direct(uint32(uid)); err != nil {
		return -1, &host.SpawnError{Stage: "open standard input", Err: err, Fault: host.FaultOf(err)}
	}
	return fd, nil
}

// openFIFO returns the program's end of a FIFO. It stores superd's end, if it had to make the FIFO,
// in ownEnd.
func openFIFO(a *attempt, outlet host.Outlet, open func(superds int) (int, error), id *runAs, ownEnd *int) (fd int, err error) {
	a.enter("open FIFO", outlet.FIFO)
	read := outlet.ReadFD
	uid, gid := id.owner()
	err = a.unlessCanceled(func() (err error) {
		if read < 0 {
			read, err = pipe.MakeFIFO(outlet.FIFO, uid, gid)
			*ownEnd = read
		} else {
			err = pipe.ChownFIFO(read, uid, gid)
		}
		if err == nil {
			fd, err = open(read)
		}
		return err
	})
	if err != nil {
		return -1, &host.SpawnError{Stage: "make FIFO", Err: err, Fault: host.FaultOf(err)}
	}
	return fd, nil
}

func (p *prepared) stdoutAndStderr() (int, int) {
	if p.screen {
		return p.input, p.input
	}
	return p.outputs[0], p.outputs[len(p.outputs)-1]
}

// files returns the program's descriptors 0, 1, 2 and so on.
func (p *prepared) files(null, stdout, stderr int) []int {
	files := []int{null, stdout, stderr}
	if p.input >= 0 {
		files[0] = p.input
	}
	for i, s := range p.sockets {
		if number := p.firstSocket + i; number < len(files) {
			files[number] = s.FD()
		} else {
			files = append(files, s.FD())
		}
	}
	if p.connection && p.firstSocket == 0 {
		files[1] = files[0]
	}
	if p.readyNumber > 0 {
		for len(files) < p.readyNumber {
			files = append(files, -1)
		}
		files = append(files, p.ready[1])
	}
	return files
}

// firstPassed is the number of the first socket that is not standard input. Source: man 3
// sd_listen_fds.
const firstPassed = 3

// socketsFrom returns the sockets of the program if the first one has that number.
func (p *prepared) socketsFrom(first int) []*host.SharedFD {
	if p.firstSocket != first {
		return nil
	}
	return p.sockets
}
