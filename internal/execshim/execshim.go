// Package execshim is a step between the fork and a program, for what a fork alone can't set:
// a umask and [Attributes] that apply from the program's first instruction.
//
// superd executes its own binary under the name [Name]. main calls [Run] first, which does what the
// [Step] says and then executes the program; pid, session, cgroup and descriptors stay the same. An
// error and its stage are written to a pipe that closes at the exec, so the parent learns of it as
// of a failed fork. Programs that need none of this are executed by the fork itself.
//
// For a program with a [Sandbox] superd executes another binary, cmd/superd-exec, which has the
// code for that, too.
//
// It is a separate package since it runs in another process than all other code, and depends on the
// kernel only.
package execshim

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"superd/sandbox"
)

// Name is the name (argv[0]) under which superd's binary acts as the shim.
const Name = "superd-exec"

// Binary is the path to execute for the shim: the file that this process runs, even if it was
// replaced on disk. It needs no descriptor, and works in the child between vfork and exec, which
// shares the parent's memory.
const Binary = "/proc/self/exe"

// ReportFD is the descriptor at which the shim expects the write end of the report pipe. It must
// not be close-on-exec in the child; the shim sets that flag.
const ReportFD = 3

// ReadyFD is the descriptor at which the shim receives what becomes the program's descriptor
// [Step.ReadyFD].
const ReadyFD = 4

// SandboxFD is the descriptor of the binary of a shim with a sandbox, which superd executes as
// [SandboxBinary].
const SandboxFD = 5

// SocketFD is the descriptor at which the shim receives the first of [Step.Sockets].
const SocketFD = 6

// firstSocket is the number that the first socket has in the program. Source: SD_LISTEN_FDS_START
// in man 3 sd_listen_fds.
const firstSocket = 3

// PidVariable is the variable that gets the pid of the program, if it is empty. Source: man 3
// sd_listen_fds.
const PidVariable = "LISTEN_PID="

// SandboxBinary is the path to execute for the shim with a sandbox.
const SandboxBinary = "/proc/self/fd/5"

// A Step is what the shim does, in the order of the fields, and what it executes then. A nil field
// is inherited.
type Step struct {
	ReadyFD    int  // 0: none
	Sockets    int  // how many sockets become the program's descriptors from 3 on
	Terminal   bool // standard input becomes the controlling terminal
	Attributes Attributes
	Sandbox    []string // fields of the plan of a [Sandbox]; empty: none
	Umask      *uint32
	Credential *syscall.Credential // NoSetGroups is ignored
	Dir        string              // absolute
	Path       string              // path of the executable
	Args, Env  []string
}

// A Stage is one part of a step.
type Stage uint8

// The stages, in their order.
const (
	StageRead Stage = iota // the command line that superd wrote
	StagePass
	StageTerminal
	StageOOM
	StageNice
	StageIO
	StageCPUs
	StageScheduling
	StageGroups
	StageGID
	StageUID
	StageDir
	StageExecute
	StageSandbox // between all others
)

var stageNames = [...]string{
	StageRead:       "read arguments",
	StagePass:       "pass descriptors",
	StageTerminal:   "take controlling terminal",
	StageOOM:        "set oom_score_adj",
	StageNice:       "set nice",
	StageIO:         "set ionice",
	StageCPUs:       "set cpu_affinity",
	StageScheduling: "set scheduling",
	StageGroups:     "change groups",
	StageGID:        "change group",
	StageUID:        "change user",
	StageDir:        "enter directory",
	StageExecute:    "execute",
	StageSandbox:    "apply",
}

// An Error is a failed stage.
type Error struct {
	Stage   Stage
	Errno   syscall.Errno
	Sandbox *sandbox.Failure // of [StageSandbox]; nil: of another stage
}

func (e *Error) Error() string {
	if e.Sandbox != nil {
		return e.Stage.String() + " " + e.Sandbox.Error()
	}
	return e.Stage.String() + ": " + e.Errno.Error()
}

// Unwrap returns the error number.
func (e *Error) Unwrap() error { return e.Errno }

// ErrDied says that the shim ended before it executed the program.
var ErrDied = errors.New("the exec shim ended before the exec")

// atExec in the report says that the exec follows.
const atExec = "!"

// Result returns the meaning of a complete report: nil if the program was executed, else an [Error]
// or [ErrDied]; and what a sandbox could not enforce.
func Result(report []byte) ([]sandbox.Failure, error) {
	warnings, rest := readWarnings(string(report))
	text, begun := strings.CutPrefix(rest, atExec)
	if text == "" && begun {
		return warnings, nil
	}
	stage, rest, _ := strings.Cut(text, " ")
	number, failure, _ := strings.Cut(rest, " ")
	index, serr := strconv.ParseUint(stage, 10, 8)
	errno, err := strconv.Atoi(number)
	if err != nil || serr != nil || !Stage(index).known() {
		return warnings, ErrDied
	}
	e := &Error{Stage: Stage(index), Errno: syscall.Errno(errno)}
	if e.Stage == StageSandbox {
		f, _, ok := sandbox.ReadFailure(failure)
		if !ok {
			return warnings, ErrDied
		}
		e.Sandbox = &f
	}
	return warnings, e
}

// report returns e in the form that [Result] reads.
func (e *Error) report() string {
	text := strconv.Itoa(int(e.Stage)) + " " + strconv.Itoa(int(e.Errno))
	if e.Sandbox == nil {
		return text
	}
	return text + " " + e.Sandbox.Report()
}

// Command returns arguments and environment for the process of the shim.
func (s *Step) Command() (args, env []string) {
	var settings []string
	set := func(key, value string) { settings = append(settings, key+"="+value) }
	if s.ReadyFD != 0 {
		set("ready", strconv.Itoa(s.ReadyFD))
	}
	if s.Sockets != 0 {
		set("sockets", strconv.Itoa(s.Sockets))
	}
	if s.Terminal {
		set("terminal", "1")
	}
	s.Attributes.write(set)
	if s.Umask != nil {
		set("umask", strconv.FormatUint(uint64(*s.Umask), 8))
	}
	if c := s.Credential; c != nil {
		set("uid", strconv.FormatUint(uint64(c.Uid), 10))
		set("gid", strconv.FormatUint(uint64(c.Gid), 10))
		for _, gid := range c.Groups {
			set("group", strconv.FormatUint(uint64(gid), 10))
		}
	}
	args = slices.Concat([]string{Name, strings.Join(settings, ","), strconv.Itoa(len(s.Sandbox))},
		s.Sandbox, []string{s.Dir, s.Path}, s.Args)
	return args, hide(s.Env)
}

// parse decodes the result of Command.
func parse(args, env []string) (*Step, bool) {
	if len(args) < 6 || args[0] != Name {
		return nil, false
	}
	rest := args[3:]
	fields, err := strconv.Atoi(args[2])
	if err != nil || fields < 0 || fields > len(rest)-3 {
		return nil, false
	}
	s := &Step{Dir: rest[fields], Path: rest[fields+1], Args: rest[fields+2:], Env: restore(env)}
	if fields > 0 {
		s.Sandbox = rest[:fields]
	}
	if args[1] == "" {
		return s, true
	}
	for setting := range strings.SplitSeq(args[1], ",") {
		key, value, _ := strings.Cut(setting, "=")
		base := 10
		if key == "umask" {
			base = 8
		}
		n, err := strconv.ParseInt(value, base, 64)
		if err != nil {
			return nil, false
		}
		if !s.set(key, n) {
			return nil, false
		}
	}
	return s, true
}

// set stores one setting; uid precedes gid and group.
func (s *Step) set(key string, n int64) bool {
	switch key {
	case "ready":
		s.ReadyFD = int(n)
	case "sockets":
		s.Sockets = int(n)
	case "terminal":
		s.Terminal = n != 0
	case "umask":
		mask := uint32(n)
		s.Umask = &mask
	case "uid":
		s.Credential = &syscall.Credential{Uid: uint32(n)}
	case "gid", "group":
		if s.Credential == nil {
			return false
		}
		if key == "gid" {
			s.Credential.Gid = uint32(n)
		} else {
			s.Credential.Groups = append(s.Credential.Groups, uint32(n))
		}
	default:
		return s.Attributes.read(key, n)
	}
	return true
}

// The shim is a Go program that runs with the environment of another program. A prefix hides the
// variables that Go's runtime would read (GOMEMLIMIT, GODEBUG), since it may write to standard
// error or refuse to start. All others stay, so that a search for a run by its environment finds
// the shim, too.
const hidden = Name + ":"

// ownEnv keeps the shim's runtime small: few threads, since a limit on tasks counts them (it needs
// up to 8), and no garbage collection.
var ownEnv = []string{"GOMAXPROCS=1", "GOGC=off"}

func hide(env []string) []string {
	out := make([]string, 0, len(env)+len(ownEnv))
	for _, variable := range env {
		if strings.HasPrefix(variable, "GO") || strings.HasPrefix(variable, hidden) {
			variable = hidden + variable
		}
		out = append(out, variable)
	}
	return append(out, ownEnv...)
}

func restore(env []string) []string {
	out := make([]string, 0, len(env))
	for _, variable := range env {
		if slices.Contains(ownEnv, variable) {
			continue
		}
		out = append(out, strings.TrimPrefix(variable, hidden))
	}
	return out
}
