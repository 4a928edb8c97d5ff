// Package supervisor speaks for superd as supervisord does: with the methods of its XML-RPC
// interface, its names and states, and its faults. Tools that know supervisord, such as
// supervisorctl and the modules of Ansible and Salt, thereby work with superd.
//
// It stands on the API of the control socket. The names, numbers and texts are those of supervisord
// 4.2.5 (supervisord.org/api.html), whose behaviour tests/supervisor compares.
//
// # Names
//
// supervisord has processes in groups, "group:process". A program of superd is a group of its own,
// unless it has groups: then the first of these is its group. The process has the name of the
// program. Those of a program with replicas are NAME_00, NAME_01 and so on, as configurations of
// supervisord have them.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"superd/compat/xmlrpc"
	"superd/config"
	"superd/control"
)

// An API is what is needed of [control.Client].
type API interface {
	Status(ctx context.Context, names []string) ([]control.Status, error)
	Command(ctx context.Context, verb string, names []string, wait bool, timeout time.Duration) ([]control.CommandResult, error)
	Signal(ctx context.Context, signal string, names []string) ([]control.CommandResult, error)
	ClearLogs(ctx context.Context, names []string, rotated bool) ([]control.CommandResult, error)
	Reload(ctx context.Context) (control.ReloadResult, error)
	DryReload(ctx context.Context) (control.ReloadResult, error)
	Config(ctx context.Context, names []string) ([]control.Configured, error)
	Shutdown(ctx context.Context) (control.Shutdown, error)
	Version(ctx context.Context) (control.Version, error)
	Logs(ctx context.Context, q control.LogQuery, f func(b *control.LogBlock) error, idle func() error) error
}

// Codes of faults.
const (
	UnknownMethod       = 1
	IncorrectParameters = 2
	BadArguments        = 3
	SignatureUnknown    = 4
	ShutdownState       = 6
	BadName             = 10
	BadSignal           = 11
	NoFile              = 20
	NotExecutable       = 21
	Failed              = 30
	AbnormalTermination = 40
	SpawnError          = 50
	AlreadyStarted      = 60
	NotRunning          = 70
	Success             = 80
	AlreadyAdded        = 90
	StillRunning        = 91
	CantReread          = 92
)

// faultNames are the names of faults, which begin their texts.
var faultNames = map[int]string{
	UnknownMethod: "UNKNOWN_METHOD", IncorrectParameters: "INCORRECT_PARAMETERS",
	BadArguments: "BAD_ARGUMENTS", SignatureUnknown: "SIGNATURE_UNSUPPORTED",
	ShutdownState: "SHUTDOWN_STATE", BadName: "BAD_NAME", BadSignal: "BAD_SIGNAL", NoFile: "NO_FILE",
	NotExecutable: "NOT_EXECUTABLE", Failed: "FAILED", AbnormalTermination: "ABNORMAL_TERMINATION",
	SpawnError: "SPAWN_ERROR", AlreadyStarted: "ALREADY_STARTED", NotRunning: "NOT_RUNNING",
	AlreadyAdded: "ALREADY_ADDED", StillRunning: "STILL_RUNNING", CantReread: "CANT_REREAD",
}

// fault returns a fault about what extra names; "": about nothing.
func fault(code int, extra string) *xmlrpc.Fault {
	text := faultNames[code]
	if extra != "" {
		text += ": " + extra
	}
	return &xmlrpc.Fault{Code: code, Text: text}
}

// asFault returns an error of the API as a fault.
func asFault(err error) *xmlrpc.Fault {
	if f, ok := errors.AsType[*xmlrpc.Fault](err); ok {
		return f
	}
	e, _ := errors.AsType[*control.Error](err)
	switch {
	case errors.Is(err, control.ErrNoSuperd):
		return fault(ShutdownState, "")
	case e != nil && e.Status == http.StatusNotFound:
		return fault(BadName, e.Message)
	case e != nil && e.Status == http.StatusConflict:
		return fault(ShutdownState, e.Message)
	}
	return fault(Failed, err.Error())
}

// A State is the state of a process.
type State int

// The states, with the numbers of supervisord.
const (
	Stopped  State = 0
	Starting State = 10
	Running  State = 20
	Backoff  State = 30
	Stopping State = 40
	Exited   State = 100
	Fatal    State = 200
	Unknown  State = 1000
)

func (s State) String() string {
	switch s {
	case Stopped:
		return "STOPPED"
	case Starting:
		return "STARTING"
	case Running:
		return "RUNNING"
	case Backoff:
		return "BACKOFF"
	case Stopping:
		return "STOPPING"
	case Exited:
		return "EXITED"
	case Fatal:
		return "FATAL"
	case Unknown:
	}
	return "UNKNOWN"
}

// up reports whether a start is refused in this state, and a stop is not.
func (s State) up() bool { return s == Running || s == Starting || s == Backoff }

// Down reports whether supervisorctl counts the state as not running.
func (s State) Down() bool { return s == Stopped || s == Exited || s == Fatal || s == Unknown }

// stateOf returns the state of an instance. What waits for a dependency is starting; what waits for
// its schedule or a connection is not.
func stateOf(st *control.Status) State {
	switch st.State {
	case control.StateRunning:
		return Running
	case control.StateStarting:
		return Starting
	case control.StateStopping:
		return Stopping
	case control.StateBackoff:
		return Backoff
	case control.StateExited:
		return Exited
	case control.StateFailed:
		return Fatal
	case control.StateWaiting:
		if k := st.ReasonKind; k != nil && (*k == "waits-for-schedule" || *k == "waits-for-connection") {
			return Stopped
		}
		return Starting
	case control.StateStopped:
		return Stopped
	}
	return Unknown
}

// A Process is an instance as supervisord shows it.
type Process struct {
	Group, Name string
	State       State
	Start, Stop time.Time // zero: never
	Now         time.Time
	Pid         int // 0: none
	ExitStatus  int
	Reason      string // why it is in this state
	LogFile     string // "": none
	ErrorFile   string // of standard error; "": none of its own

	instance string
	program  string
}

// Spec returns how a command line names the process: without the group if that has the same name.
func (p *Process) Spec() string { return Spec(p.Group, p.Name) }

// Spec returns how a command line names a process.
func Spec(group, name string) string {
	if group == name {
		return name
	}
	return group + ":" + name
}

// Split returns the group and the process of a name; the process is "" for all of the group.
func Split(spec string) (group, name string) {
	group, name, found := strings.Cut(spec, ":")
	switch {
	case !found:
		return spec, spec
	case name == "*":
		return group, ""
	}
	return group, name
}

// ProcessName returns the name of the process that is an instance of a program.
func ProcessName(program, instance string) string {
	if number := config.NumberOf(instance); number > 0 {
		return fmt.Sprintf("%s_%02d", program, number-1)
	}
	return program
}

// processOf returns a process, with the group and name of an instance.
func processOf(st *control.Status, now time.Time) Process {
	p := Process{Group: st.Program, Name: ProcessName(st.Program, st.Name), State: stateOf(st), Now: now,
		instance: st.Name, program: st.Program, ErrorFile: st.Stderr}
	if len(st.Groups) > 0 {
		p.Group = st.Groups[0]
	}
	if st.Pid != nil {
		p.Pid = *st.Pid
	}
	if e := st.Exit; e != nil {
		p.Stop, p.Start = e.At, e.At // when it began is not told; what counts is that it did
		switch {
		case e.Code != nil:
			p.ExitStatus = *e.Code
		case e.Signal != nil:
			p.ExitStatus = -1
		}
	}
	if st.Uptime != nil {
		p.Start = now.Add(-time.Duration(*st.Uptime * float64(time.Second)))
	}
	if st.Reason != nil {
		p.Reason = *st.Reason
	}
	if st.LogFile != nil {
		p.LogFile = *st.LogFile
	}
	return p
}

// Description returns the last column of the status.
func (p *Process) Description() string {
	switch p.State {
	case Running:
		return fmt.Sprintf("pid %d, uptime %s", p.Pid, uptime(p.Now.Sub(p.Start)))
	case Fatal, Backoff:
		if p.Reason == "" {
			return fmt.Sprintf("unknown error (try \"tail %s\")", p.Name)
		}
		return p.Reason
	case Stopped, Exited:
		if p.Start.IsZero() {
			return "Not started"
		}
		return p.Stop.Local().Format("Jan 02 03:04 PM")
	case Starting, Stopping, Unknown:
	}
	return ""
}

// uptime prints a duration as 0:00:05, 1 day, 0:00:05 or 2 days, 0:00:05.
func uptime(d time.Duration) string {
	const day = 24 * 60 * 60
	seconds := max(int(d/time.Second), 0)
	text := fmt.Sprintf("%d:%02d:%02d", seconds%day/3600, seconds/60%60, seconds%60)
	switch days := seconds / day; days {
	case 0:
		return text
	case 1:
		return "1 day, " + text
	default:
		return fmt.Sprintf("%d days, %s", days, text)
	}
}

// info returns the process as getProcessInfo does.
func (p *Process) info() map[string]any {
	spawnError := ""
	if p.State == Fatal || p.State == Backoff {
		spawnError = p.Reason
	}
	return map[string]any{
		"name": p.Name, "group": p.Group, "start": seconds(p.Start), "stop": seconds(p.Stop),
		"now": seconds(p.Now), "state": int(p.State), "statename": p.State.String(),
		"spawnerr": spawnError, "exitstatus": p.ExitStatus, "logfile": p.LogFile,
		"stdout_logfile": p.LogFile, "stderr_logfile": p.ErrorFile, "pid": p.Pid,
		"description": p.Description(),
	}
}

// seconds returns the time since 1970; 0 for no time.
func seconds(t time.Time) int {
	if t.IsZero() {
		return 0
	}
	return int(t.Unix())
}

// A Supervisor answers as supervisord. Its methods may be called from any goroutine.
type Supervisor struct {
	api    API
	active active
}

// New returns a supervisor that asks api.
func New(api API) *Supervisor { return &Supervisor{api: api} }

// Processes returns all processes, ordered by group and name.
func (s *Supervisor) Processes(ctx context.Context) ([]Process, error) {
	statuses, err := s.api.Status(ctx, nil)
	if err != nil {
		return nil, asFault(err)
	}
	now := time.Now()
	all := make([]Process, 0, len(statuses))
	for i := range statuses {
		if p := processOf(&statuses[i], now); !s.active.isRemoved(p.Group) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Process) int {
		if c := strings.Compare(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all, nil
}

// group returns the processes of a group.
func (s *Supervisor) group(ctx context.Context, name string) ([]Process, error) {
	all, err := s.Processes(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(p Process) bool { return p.Group != name })
	if len(all) == 0 {
		return nil, fault(BadName, name)
	}
	return all, nil
}

// find returns the processes that spec names, one unless it names a whole group. A replica of
// superd, as web@2, is found, too.
func (s *Supervisor) find(ctx context.Context, spec string) (all []Process, whole bool, err error) {
	group, name := Split(spec)
	all, err = s.Processes(ctx)
	if err != nil {
		return nil, false, err
	}
	all = slices.DeleteFunc(all, func(p Process) bool {
		isReplica := p.instance == spec && strings.Contains(spec, "@")
		return !isReplica && (p.Group != group || name != "" && p.Name != name)
	})
	if len(all) == 0 {
		return nil, false, fault(BadName, spec)
	}
	return all, name == "", nil
}

// Process returns the process that spec names.
func (s *Supervisor) Process(ctx context.Context, spec string) (*Process, error) {
	all, whole, err := s.find(ctx, spec)
	if err != nil {
		return nil, err
	}
	if whole {
		return nil, fault(BadName, spec)
	}
	return &all[0], nil
}
