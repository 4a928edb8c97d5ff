// Package execstep is a step between the fork and a program, for what a fork alone can't give it: resource limits, a
// umask and an oom_score_adj that hold from the program's first instruction.
//
// superd executes its own binary under the name [Name]; main calls [Run] before anything else, which does what the
// [Step] says and executes the program in its place: pid, session, cgroup and descriptors stay. What goes wrong, and
// where, is written to a pipe that the execution closes, so the parent learns of it as of a failed fork. Programs that
// need none of this are executed by the fork itself.
//
// It is a package of its own because it runs in another process than everything else: it knows the kernel and nothing
// of superd.
package execstep

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Name is the name (argv[0]) under which superd's binary is the step.
const Name = "superd-exec"

// Binary is the path to execute for it: the file that this process runs, also when another one has taken its place on
// disk. It needs no descriptor, and works in the child between vfork and exec, which shares the parent's memory.
const Binary = "/proc/self/exe"

// ReportFD is the descriptor at which the step expects the writing end of the report's pipe. It must not be
// close-on-exec in the child; the step makes it so.
const ReportFD = 3

// ReadyFD is where the step gets what becomes the program's descriptor [Step.ReadyFD].
const ReadyFD = 4

// A Step is what is to be done, in the order of the fields, and what to execute then. nil: as inherited.
type Step struct {
	ReadyFD     int // 0: none
	OOMScoreAdj *int
	NoFile      *int64 // soft and hard limit
	Core        *int64 // bytes; soft and hard limit
	Umask       *uint32
	Credential  *syscall.Credential // NoSetGroups is not looked at
	Dir         string              // absolute
	Path        string              // the executable
	Args, Env   []string
}

// Stages of a step, as [Error] names them.
const (
	StageReady   = "hand over ready.fd"
	StageOOM     = "set oom_score_adj"
	StageNoFile  = "set limits.nofile"
	StageCore    = "set limits.core"
	StageGroups  = "change groups"
	StageGID     = "change group"
	StageUID     = "change user"
	StageDir     = "enter directory"
	StageExecute = "execute"
	StageRead    = "read the step" // its command line, which superd wrote
)

// An Error is a stage that failed.
type Error struct {
	Stage string
	Errno syscall.Errno
}

func (e *Error) Error() string { return e.Stage + ": " + e.Errno.Error() }

// Unwrap returns the error number.
func (e *Error) Unwrap() error { return e.Errno }

// ErrDied says that the step ended before it came to the execution.
var ErrDied = errors.New("superd's own step before the program ended early")

// atExec in the report says that the execution is next.
const atExec = '!'

// Result returns what a report says that was read until its end: nil when the program was executed, else an [Error] or
// [ErrDied].
func Result(report []byte) error {
	text, begun := strings.CutPrefix(string(report), string(atExec))
	if text == "" && begun {
		return nil
	}
	stage, number, _ := strings.Cut(text, "\x00")
	errno, err := strconv.Atoi(number)
	if err != nil {
		return ErrDied
	}
	return &Error{Stage: stage, Errno: syscall.Errno(errno)}
}

// report is what [Result] reads.
func (e *Error) report() []byte {
	return []byte(e.Stage + "\x00" + strconv.Itoa(int(e.Errno)))
}

// Command returns arguments and environment of the process that runs the step.
func (s *Step) Command() (args, env []string) {
	var settings []string
	set := func(key, value string) { settings = append(settings, key+"="+value) }
	if s.ReadyFD != 0 {
		set("ready", strconv.Itoa(s.ReadyFD))
	}
	if s.OOMScoreAdj != nil {
		set("oom", strconv.Itoa(*s.OOMScoreAdj))
	}
	if s.NoFile != nil {
		set("nofile", strconv.FormatInt(*s.NoFile, 10))
	}
	if s.Core != nil {
		set("core", strconv.FormatInt(*s.Core, 10))
	}
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
	args = append([]string{Name, strings.Join(settings, ","), s.Dir, s.Path}, s.Args...)
	return args, hide(s.Env)
}

// parse reads what Command returned.
func parse(args, env []string) (*Step, bool) {
	if len(args) < 5 || args[0] != Name {
		return nil, false
	}
	s := &Step{Dir: args[2], Path: args[3], Args: args[4:], Env: restore(env)}
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

// set takes one setting; uid comes before gid and group.
func (s *Step) set(key string, n int64) bool {
	switch key {
	case "ready":
		s.ReadyFD = int(n)
	case "oom":
		score := int(n)
		s.OOMScoreAdj = &score
	case "nofile":
		s.NoFile = &n
	case "core":
		s.Core = &n
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
		return false
	}
	return true
}

// The step is a Go program that runs with the environment of another one. What Go's runtime would read (GOMEMLIMIT,
// GODEBUG: it may write to standard error, or refuse to start) is hidden from it by a prefix. The rest stays as it
// is, so that whoever looks for a run by its environment finds the step, too.
const hidden = Name + ":"

// ownEnv keeps the step's runtime small: few threads, since a limit on tasks counts them (it needs up to 8), no garbage
// collection, and no reading of cgroup files to find out how many CPUs there are.
var ownEnv = []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}

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
