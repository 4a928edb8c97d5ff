// Package config turns a TOML file and the files it includes into validated, fully defaulted values.
//
// [Load] reports all mistakes of all files in one go, each with its file, line, column, key, cause and remedy. A
// mistake in a program's table makes only that program invalid; any other makes the whole file useless. What Load
// returns is never changed again, so it may be read from any goroutine. The package knows nothing of running
// processes; it reads the configuration, the env files named there and this process's environment, and writes nothing.
//
// [keys] is the one table of all keys: decoding, defaults, suggestions and docs/reference.md come from it.
package config

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Config is a configuration file with the files it includes.
type Config struct {
	Path     string     // as given to Load
	Files    []string   // Path and then the included files, in the order they were read
	Superd   Superd     //
	Programs []*Program // by name; those with an unusable name are left out and stand in Errors
	Errors   Errors     // mistakes in the programs' tables, by place
	Warnings Errors     // what is legal and hardly meant, by place

	sources archive           // what it was made of
	envSums map[string]uint64 // of the env files that could be read, by path
}

// Superd holds the keys of the table [superd].
type Superd struct {
	RuntimeDir string // absolute, "" where it is not set: see [RuntimeDir]
	LogDir     string // absolute, "" where it is not set: see [LogDir]
	ExitWhen   ExitWhen

	LogMaxTotal int64 // bytes of all log files together; 0: no bound
}

// ExitWhen says when superd ends by itself.
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
	Command     []string          // split into arguments, ${X} not expanded yet
	Environment map[string]string // ${X} not expanded yet; nil when empty
	LoggerOf    string            // the program whose output it has as its standard input: that has [SinkCommand]; "": it is nobody's logger
	Invalid     Errors            // not empty: the program exists but may not run
	File        string            // where its table begins
	Line        int               // when it was read: see [LoadAfter]
	*Settings                     // programs may share them: whoever needs others takes a [Program.Clone]
}

// Settings are what programs usually have in common.
type Settings struct {
	Directory          string // ${X} not expanded yet; relative to the file that holds it, made absolute
	EnvFile            string // absolute; "" for none
	InheritEnvironment bool

	User                string // "" for superd's own
	Groups              []string
	SupplementaryGroups []string // nil: those of User; empty: none
	Umask               *uint32  // nil: superd's own

	Replicas   int // 0: none runs
	Type       Type
	Schedule   string // "" for none; else what [ParseSchedule] accepts
	Autostart  bool
	Essential  bool
	Requires   []string
	After      []string
	Restart    Restart
	Backoff    Backoff
	StartLimit StartLimit

	SuccessExitCodes []int         // each 0 to 255
	StartTimeout     time.Duration // more than 0
	StopTimeout      time.Duration // 0: SIGKILL follows the stop signal at once
	StopSignal       syscall.Signal
	KillMode         KillMode

	Watchdog time.Duration // 0: none
	Ready    *Ready        // nil: ready once it is spawned
	Health   *Health       // nil: not checked

	ScheduleJitter time.Duration
	ScheduleMissed Missed

	PreStart [][]string
	PostStop [][]string
	Log      Log
	Limits   Limits
}

// Clone returns a program like p with settings of its own.
func (p *Program) Clone() *Program {
	c := *p
	c.Settings = new(*p.Settings)
	return &c
}

// Type is what kind of program it is.
type Type string

// The values of type.
const (
	TypeService Type = "service"
	TypeOneshot Type = "oneshot"
)

// Missed says what becomes of the times of a schedule that are missed.
type Missed string

// The values of schedule_missed.
const (
	MissedOnce Missed = "once" // one run makes up for all of them
	MissedSkip Missed = "skip"
)

// Restart says after which ends a program is started again.
type Restart string

// The values of restart.
const (
	RestartAlways    Restart = "always"
	RestartOnFailure Restart = "on-failure"
	RestartNever     Restart = "never"
)

// KillMode says whom SIGKILL reaches when the stop timeout is over.
type KillMode string

// The values of kill_mode.
const (
	KillTree    KillMode = "tree"
	KillGroup   KillMode = "group"
	KillProcess KillMode = "process"
)

// Backoff says how long to wait before restart number n, counted from 1: min(Max, Initial·Factor^(n-1)), and at most
// the share Jitter of that on top.
type Backoff struct {
	Initial    time.Duration // more than 0
	Max        time.Duration // not less than Initial
	Factor     float64       // 1 to 1000
	Jitter     float64       // 0 to 1
	ResetAfter time.Duration // a run of at least this long sets n back; 0: every run does
}

// StartLimit says when to give up: after Failures failed starts Within a time.
type StartLimit struct {
	Failures   int           // 0: never give up
	Within     time.Duration // more than 0
	RetryAfter time.Duration // slow retry after giving up; 0: never
}

// Ready is how a program tells that it is ready. Exactly one of the first six is set.
type Ready struct {
	Notify   bool
	FD       int      // 3 or more
	Line     string   // a regular expression that compiles
	TCP      string   // host:port
	HTTP     string   // http:// or https://
	Exec     []string // arguments, ${X} not expanded yet
	Interval time.Duration
	Timeout  time.Duration
}

// Health is how a running program is checked. Exactly one of the first three is set.
type Health struct {
	TCP      string
	HTTP     string
	Exec     []string
	Interval time.Duration
	Timeout  time.Duration
	Failures int // so many in a row make it unhealthy; 1 or more
	Action   HealthAction
}

// HealthAction is what follows when a program is unhealthy.
type HealthAction string

// The values of health.action.
const (
	HealthRestart HealthAction = "restart"
	HealthNone    HealthAction = "none"
)

// Log says where a program's output goes.
type Log struct {
	File       string // absolute or relative to the log directory, clean; "": <instance>.log, see [Program.LogPath]
	Format     LogFormat
	MaxSize    int64         // bytes; 0: never rotate for the size
	MaxAge     time.Duration // 0: never rotate for the age
	MaxTotal   int64         // bytes of all the instance's files; 0: no bound
	Keep       int           // rotated files kept beside the current one
	Compress   Compression   // of rotated files
	Stderr     Stderr
	StderrFile string // as File; "": <instance>.err.log
	Overflow   Overflow
	MinFree    int64 // bytes that logging leaves free on the file system; 0: none

	Owner, Group string  // of the files; "" for superd's own
	Mode         *uint32 // of the files; nil: 0640

	Sink       Sink
	Address    string // of journald or syslog: the path of a socket, or udp://HOST:PORT or tcp://HOST:PORT; "" is the usual one
	Identifier string // what they call the program; "" is its name
	Facility   Facility
	Command    []string // of the logger, with [SinkCommand]
}

// Sink is where lines go.
type Sink string

// The values of log.sink.
const (
	SinkFile     Sink = "file"
	SinkJournald Sink = "journald"
	SinkSyslog   Sink = "syslog"
	SinkStdout   Sink = "stdout"
	SinkCommand  Sink = "command" // a program of superd's own making reads it: see [Program.LoggerOf]
)

// Facility is one of syslog's.
type Facility string

// facilities are the values of log.facility. Each has its place in the list as its number. Source: RFC 5424, table 1.
var facilities = []Facility{
	"kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp", "security", "console", "solaris-cron",
	"local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
}

// Number returns the number that syslog has for it.
func (f Facility) Number() int { return slices.Index(facilities, f) }

// LogFormat is how lines are written to the log file.
type LogFormat string

// The values of log.format.
const (
	LogRaw    LogFormat = "raw"
	LogDirect LogFormat = "direct"
	LogText   LogFormat = "text"
	LogJSON   LogFormat = "json"
)

// Compression is how rotated log files are compressed.
type Compression string

// The values of log.compress.
const (
	CompressNot  Compression = "" // false
	CompressGzip Compression = "gzip"
	CompressZstd Compression = "zstd"
)

// Stderr says what becomes of a program's standard error.
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

// Limits bound what a program may use. nil: not limited by superd.
type Limits struct {
	NoFile *int64   // open files; soft and hard limit
	Core   *int64   // bytes of a core dump; soft and hard limit
	Memory *int64   // bytes
	CPU    *float64 // CPUs, 0.5 being half of one
	Tasks  *int64   // processes and threads
}

// Scheduled reports whether the program has a schedule that can be in force.
func (p *Program) Scheduled() bool { return p.Schedule != "" && len(p.Invalid) == 0 }

func compareNames(a, b *Program) int { return strings.Compare(a.Name, b.Name) }

// Program returns the program of that name, nil where there is none.
func (c *Config) Program(name string) *Program {
	i, ok := slices.BinarySearchFunc(c.Programs, name, func(p *Program, name string) int { return strings.Compare(p.Name, name) })
	if !ok {
		return nil
	}
	return c.Programs[i]
}

// EnvFileSum returns the [EnvSum] of the program's env file as it was when c was loaded. ok is false where the program has
// none, or it could not be read.
func (c *Config) EnvFileSum(p *Program) (sum uint64, ok bool) {
	sum, ok = c.envSums[p.EnvFile]
	return sum, ok
}

// Instances returns the names of the program's instances: see [InstanceNames].
func (p *Program) Instances() []string { return InstanceNames(p.Name, p.Replicas) }

// InstanceNames returns the names of the instances of a program with so many replicas: its own of a single one, else
// web@1 to web@N.
func InstanceNames(program string, replicas int) []string {
	if replicas == 1 {
		return []string{program}
	}
	return NumberedNames(program, replicas)
}

// NumberedNames returns web@1 to web@N.
func NumberedNames(program string, replicas int) []string {
	names := make([]string, replicas)
	for i := range names {
		names[i] = program + "@" + strconv.Itoa(i+1)
	}
	return names
}

// LogPath returns the log file of one of the program's instances.
func (p *Program) LogPath(logDir, instance string) string {
	return logPath(logDir, p.Log.File, instance+".log")
}

// StderrPath returns the file that standard error of one of the program's instances has for itself, "" if it has none.
func (p *Program) StderrPath(logDir, instance string) string {
	if p.Log.Stderr != StderrSeparate {
		return ""
	}
	return logPath(logDir, p.Log.StderrFile, instance+stderrSuffix)
}

// stderrSuffix follows the name of the instance in the name of the file that its standard error has by default.
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
