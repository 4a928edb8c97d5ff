// Package config turns a TOML file and the files it includes into validated, fully defaulted
// values.
//
// [Load] reports all mistakes of all files at once, each with file, line, column, key, cause and
// remedy. A mistake in a program's table makes only that program invalid, one in a socket's table
// also the programs that use it, one in a receiver's table only that receiver. Any other makes the
// whole configuration unusable. What Load returns never changes, so any goroutine may read it. The
// package does not know running processes. It reads the configuration, the env files named there
// and this process's environment, and writes nothing.
//
// [keys] is the one table of all keys: decoding, defaults, suggestions and docs/reference.md are
// derived from it.
package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"superd/config/codec"
	"superd/config/directory"
	"superd/config/document"
	"superd/config/enablement"
	"superd/config/environ"
	"superd/config/filewatch"
	"superd/config/pages"
	"superd/config/receiver"
	"superd/internal/rlimit"
	"superd/sandbox"
)

// A Config is a configuration file together with the files it includes.
type Config struct {
	Path      string               // as given to Load
	Files     []string             // Path, then the included files in the order they were read
	Superd    Superd               //
	Control   Control              // who may use the control socket
	Compat    Compat               // clients of other supervisors
	Web       pages.Settings       // for superd web; superd itself only checks them
	Programs  []*Program           // sorted by name; one with an unusable name is only in Errors
	Sockets   []*Socket            // likewise
	Receivers []*receiver.Receiver // of alerts; likewise
	Errors    Errors               // in the tables of programs, sockets and receivers, by position
	Warnings  Errors               // legal, but probably not intended; sorted by position

	sources *document.Archive // sources that c was made from
	envSums map[string]uint64 // result of [document.Reader.EnvSums]
}

// A KeyError is one mistake at one position in a file.
type KeyError = document.KeyError

// Errors are mistakes sorted by position. As an error they print one a line.
type Errors = document.Errors

// Superd holds the keys of the table [superd].
type Superd struct {
	RuntimeDir string // absolute; "" if not set: see [RuntimeDir]
	LogDir     string // absolute; "" if not set: see [LogDir]
	ExitWhen   ExitWhen

	LogMaxTotal int64 // bytes of all log files together; 0: no limit
}

// Control holds the keys of the table [control]: users, and groups as @group, by name or number.
type Control struct {
	Operators []string // may see and control, beside root and the user of superd
	Viewers   []string // may see
}

// Compat holds the keys of the table [compat], for clients of other supervisors.
type Compat struct {
	SupervisorSocket string // path of a socket that speaks as supervisord's; "": none
}

// ExitWhen says when superd exits by itself.
type ExitWhen string

// The values of exit_when.
const (
	ExitNever     ExitWhen = "never"
	ExitAllExited ExitWhen = "all-exited"
	ExitAnyFailed ExitWhen = "any-failed"
)

// A Program is one [program.NAME] table, with [defaults] and the built-in defaults filled in.
type Program struct {
	Name        string
	Command     []string          // split into arguments, ${X} not yet expanded
	Environment map[string]string // ${X} not yet expanded; nil when empty
	// The program whose output this program, its logger, reads as standard input: that has
	// [SinkCommand]; "" if it is no logger
	LoggerOf string
	// What an operator has decided about Autostart; empty: it is that of the file
	Enablement enablement.Decision `json:",omitzero"`
	Invalid    Errors              // if not empty, the program exists but must not run
	File       string              // file in which its table begins
	Line       int                 // its line when it was read: see [LoadAfter]
	// May be shared by programs: take a [Program.Clone] before changing them
	*Settings
}

// Settings are the values that programs often have in common.
type Settings struct {
	// ${X} not yet expanded; made absolute against the directory of its file
	Directory          string
	EnvFiles           codec.EnvFiles `json:"EnvFile"`
	InheritEnvironment bool

	User                string // "" for the user of superd
	Groups              []string
	SupplementaryGroups []string // nil: those of User; empty: none
	Umask               *uint32  // nil: the umask of superd
	PTY                 bool     // it has a terminal

	Directories              [directory.Kinds]directory.Set `json:",omitzero"` // by kind
	RuntimeDirectoryPreserve bool                           `json:",omitzero"`

	Replicas   int // 0: none runs
	Type       Type
	PIDFile    string `json:",omitzero"` // ${X} not yet expanded, absolute; "" for none
	Schedule   string // "" for none; else what [ParseSchedule] accepts
	Autostart  bool
	Essential  bool
	Requires   []string
	After      []string
	Restart    Restart
	Backoff    Backoff
	StartLimit StartLimit

	SuccessExitCodes   []int // each 0 to 255
	NoRestartExitCodes []ExitStatus

	StartTimeout time.Duration // more than 0
	StopTimeout  time.Duration // 0: SIGKILL follows the stop signal at once
	StopSignal   syscall.Signal
	KillMode     KillMode
	KillSignal   syscall.Signal // sent after the stop time-out; 0: SIGKILL
	NoFinalKill  bool           // nothing is sent after the stop time-out

	Sockets *ProgramSockets `json:",omitempty"` // nil: none

	Rolling      *Rolling      `json:",omitempty"` // nil: a reload restarts all instances at once
	DrainTimeout time.Duration `json:",omitzero"`  // of a rolling restart; 0: StopTimeout

	Watch *filewatch.Settings `json:",omitempty"` // nil: no files are watched

	Watchdog time.Duration // 0: no watchdog
	Ready    *Ready        // nil: ready once spawned
	Health   *Health       // nil: not checked

	ScheduleJitter time.Duration
	ScheduleMissed Missed

	// Of all hooks and of the commands below; "" for that of the program
	HooksUser string
	PreStart  [][]string
	PostStart [][]string
	PostStop  [][]string

	// Commands as Program.Command; nil: none
	StopCommand   []string
	CheckCommand  []string
	ReloadCommand []string
	ReloadSignal  syscall.Signal // 0: none
	ReloadNotify  bool           // reports the reload that ReloadSignal causes

	Log     Log
	Limits  Limits
	Sandbox *sandbox.Settings // nil: none

	Attributes Attributes `json:",omitzero"`
}

// Clone returns a copy of p with its own settings.
func (p *Program) Clone() *Program {
	c := *p
	c.Settings = new(*p.Settings)
	return &c
}

// Type is the kind of a program.
type Type string

// The values of type.
const (
	TypeService Type = "service"
	TypeOneshot Type = "oneshot"
	TypeForking Type = "forking" // a service whose command ends when its main process runs
)

// Missed says what happens to missed times of a schedule.
type Missed string

// The values of schedule_missed.
const (
	MissedOnce Missed = "once" // one run makes up for all of them
	MissedSkip Missed = "skip"
)

// Restart says after which outcomes a program is restarted.
type Restart string

// The values of restart.
const (
	RestartAlways    Restart = "always"
	RestartOnFailure Restart = "on-failure"
	RestartNever     Restart = "never"
)

// KillMode says which processes the stop signal and SIGKILL reach. For the reasons behind the five
// modes and the default see docs/decisions/0001-kill-mode.md.
type KillMode string

// The values of kill_mode.
const (
	// KillMainFirst sends the stop signal to the main process, then to the rest of the tree when
	// the main process has ended. It sends SIGKILL to the tree after the stop time-out.
	KillMainFirst KillMode = "main-first"
	// KillMixed sends the stop signal to the main process. It sends SIGKILL to the rest of the tree
	// when the main process has ended or the stop time-out has passed.
	KillMixed KillMode = "mixed"
	// KillTree is KillMainFirst, except that the stop signal goes to the process group at once.
	KillTree KillMode = "tree"
	// KillGroup signals the process group only.
	KillGroup KillMode = "group"
	// KillProcess signals the main process only.
	KillProcess KillMode = "process"
)

// StopsGroup reports whether the stop signal goes to the process group instead of the main process
// only.
func (k KillMode) StopsGroup() bool { return k == KillTree || k == KillGroup }

// KillsTree reports whether no process of a program is left after its stop.
func (k KillMode) KillsTree() bool { return k != KillGroup && k != KillProcess }

// Backoff defines the delay before restart number n, counted from 1: min(Max,
// Initial·Factor^(n-1)), plus at most the share Jitter of that.
type Backoff struct {
	Initial    time.Duration // more than 0
	Max        time.Duration // not less than Initial
	Factor     float64       // 1 to 1000
	Jitter     float64       // 0 to 1
	ResetAfter time.Duration // a run of at least this long resets n; 0: every run does
}

// StartLimit says when to stop restarting: after Failures failed starts Within a time.
type StartLimit struct {
	Failures   int           // 0: no limit
	Within     time.Duration // more than 0
	RetryAfter time.Duration // interval of retries after the start limit was hit; 0: no retry
}

// Ready is how a program reports that it is ready. Exactly one of the first six fields is set.
type Ready struct {
	Notify   bool
	FD       int      // 3 or more
	Line     string   // a regular expression that compiles
	TCP      string   // host:port
	HTTP     string   // http:// or https://
	Exec     []string // arguments, ${X} not yet expanded
	Interval time.Duration
	Timeout  time.Duration
}

// Health is how a running program is checked. Exactly one of the first three fields is set.
type Health struct {
	TCP      string
	HTTP     string
	Exec     []string
	Interval time.Duration
	Timeout  time.Duration
	Failures int // consecutive failures that make it unhealthy; 1 or more
	Action   HealthAction
}

// HealthAction is the reaction to an unhealthy program.
type HealthAction string

// The values of health.action.
const (
	HealthRestart HealthAction = "restart"
	HealthNone    HealthAction = "none"
)

// Log says where the output of a program goes.
type Log struct {
	// Absolute or relative to the log directory, clean; "": <instance>.log, see [Program.LogPath]
	File       string
	Format     LogFormat
	MaxSize    int64         // bytes; 0: no rotation by size
	MaxAge     time.Duration // 0: no rotation by age
	MaxTotal   int64         // bytes of all files of the instance; 0: no limit
	Keep       int           // number of rotated files kept beside the current one
	Compress   Compression   // of rotated files
	Stderr     Stderr
	StderrFile string // like File; "": <instance>.err.log
	Overflow   Overflow
	MinFree    int64 // bytes to leave free on the file system; 0: none

	Owner, Group string  // owner of the files; "" for that of superd
	Mode         *uint32 // mode of the files; nil: 0640

	Sink Sink
	// Address of journald or syslog: the path of a socket, udp://HOST:PORT or tcp://HOST:PORT; ""
	// for the usual one
	Address    string
	Identifier string // name of the program in journald or syslog; "": its own name
	Facility   Facility
	Command    []string // command of the logger, with [SinkCommand]
}

// Sink is the destination of lines.
type Sink string

// The values of log.sink.
const (
	SinkFile     Sink = "file"
	SinkJournald Sink = "journald"
	SinkSyslog   Sink = "syslog"
	SinkStdout   Sink = "stdout"
	SinkCommand  Sink = "command" // read by a program that superd adds: see [Program.LoggerOf]
)

// Facility is a facility of syslog.
type Facility string

// facilities are the values of log.facility; the index of each is its number. Source: RFC 5424,
// table 1.
var facilities = []Facility{
	"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp", "security", "console", "solaris-cron",
	"local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
}

// Number returns the number of f in syslog.
func (f Facility) Number() int { return slices.Index(facilities, f) }

// LogFormat is the format of lines in the log file.
type LogFormat string

// The values of log.format.
const (
	LogRaw    LogFormat = "raw"
	LogDirect LogFormat = "direct"
	LogText   LogFormat = "text"
	LogJSON   LogFormat = "json"
)

// Compression is the compression of rotated log files.
type Compression string

// The values of log.compress.
const (
	CompressNot  Compression = "" // false
	CompressGzip Compression = "gzip"
	CompressZstd Compression = "zstd"
)

// Stderr says where a program's standard error goes.
type Stderr string

// The values of log.stderr.
const (
	StderrMerge    Stderr = "merge"
	StderrSeparate Stderr = "separate"
	StderrLabel    Stderr = "label"
)

// Overflow says what happens to output while the disk stalls.
type Overflow string

// The values of log.overflow.
const (
	OverflowBlock Overflow = "block"
	OverflowDrop  Overflow = "drop"
)

// Limits bound the resources of a program: of each process, and of all together. nil: superd sets
// no limit.
type Limits struct {
	Rlimits rlimit.Limits `json:",omitempty"`

	Memory     *int64          // bytes
	MemoryHigh *int64          `json:",omitempty"` // bytes
	Swap       *int64          `json:",omitempty"` // bytes
	CPU        *float64        // CPUs, 0.5 being half of one
	CPUWeight  *int64          `json:",omitempty"` // 1 to 10000
	Tasks      *int64          // processes and threads
	IO         []codec.IOLimit `json:",omitempty"` // by path
}

// Resolve returns what to execute: see [environ.Template.Resolve].
func (p *Program) Resolve(base, run environ.Variables, identity, envFile map[string]string) (argv, env []string, dir string, err error) {
	return p.template().Resolve(base, run, identity, envFile)
}

// Expand returns the value of a key of ready or health, expanded: see [environ.Template.Expand].
func (p *Program) Expand(key, template string, base, run environ.Variables) (string, error) {
	return p.template().Expand(key, template, base, run)
}

func (p *Program) template() *environ.Template {
	return &environ.Template{Command: p.Command, Directory: p.Directory, Own: p.Environment, Inherit: p.InheritEnvironment}
}

// Scheduled reports whether the program has a schedule and is valid.
func (p *Program) Scheduled() bool { return p.Schedule != "" && len(p.Invalid) == 0 }

// Accepts reports whether superd accepts the program's connections, and the program is valid.
func (p *Program) Accepts() bool {
	return p.Sockets != nil && p.Sockets.Accept && len(p.Invalid) == 0
}

// Triggered reports whether each run needs a trigger: a time of the schedule, or a connection.
func (p *Program) Triggered() bool { return p.Scheduled() || p.Accepts() }

// RestartsAfterSuccess reports whether another run follows one that ends with success. A program
// that connections start waits for the next one instead.
func (p *Program) RestartsAfterSuccess() bool {
	return p.Restart == RestartAlways && (p.Sockets == nil || !p.Sockets.OnConnect)
}

func compareNames(a, b *Program) int { return strings.Compare(a.Name, b.Name) }

// Program returns the program with that name, nil if there is none.
func (c *Config) Program(name string) *Program {
	i, ok := slices.BinarySearchFunc(c.Programs, name, func(p *Program, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return nil
	}
	return c.Programs[i]
}

// Socket returns the socket with that name, nil if there is none.
func (c *Config) Socket(name string) *Socket {
	i, ok := slices.BinarySearchFunc(c.Sockets, name, func(s *Socket, name string) int { return strings.Compare(s.Name, name) })
	if !ok {
		return nil
	}
	return c.Sockets[i]
}

// Instances returns the names of the program's instances: see [InstanceNames].
func (p *Program) Instances() []string { return InstanceNames(p.Name, p.Replicas) }

// InstanceNames returns the names of the instances of a program: the program's own name for one
// replica, else web@1 to web@N.
func InstanceNames(program string, replicas int) []string {
	if replicas == 1 {
		return []string{program}
	}
	return NumberedNames(program, replicas)
}

// NumberedNames returns web@1 to web@N for a program web.
func NumberedNames(program string, replicas int) []string {
	names := make([]string, replicas)
	for i := range names {
		names[i] = program + "@" + strconv.Itoa(i+1)
	}
	return names
}

// ProgramOf returns the name of the program of an instance.
func ProgramOf(instance string) string {
	program, _, _ := strings.Cut(instance, "@")
	return program
}

// NumberOf returns the number of an instance; 0 if its name has none.
func NumberOf(instance string) int {
	_, number, _ := strings.Cut(instance, "@")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || number != strconv.Itoa(n) {
		return 0
	}
	return n
}

// LogPath returns the path of an instance's log file.
func (p *Program) LogPath(logDir, instance string) string {
	return logPath(logDir, p.Log.File, instance+".log")
}

// StderrPath returns the path of the separate file for an instance's standard error, "" if there is
// none.
func (p *Program) StderrPath(logDir, instance string) string {
	if p.Log.Stderr != StderrSeparate {
		return ""
	}
	return logPath(logDir, p.Log.StderrFile, instance+stderrSuffix)
}

// stderrSuffix follows the instance's name in the default file name for standard error.
const stderrSuffix = ".err.log"

func logPath(logDir, file, byDefault string) string {
	if file == "" {
		file = byDefault
	}
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(logDir, file)
}

// LogsInto reports whether a program has a log file below dir, the base of relative log files.
func (c *Config) LogsInto(dir string) bool {
	below := func(path string) bool { return strings.HasPrefix(path, dir+string(filepath.Separator)) }
	for _, p := range c.Programs {
		if p.Log.Sink == SinkFile && (below(p.LogPath(dir, p.Name)) || below(p.StderrPath(dir, p.Name))) {
			return true
		}
	}
	return false
}
