package config

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"superd/config/codec"
	"superd/config/directory"
	"superd/config/environ"
	"superd/internal/rlimit"
)

// A key describes one key of the configuration.
type key struct {
	// "superd", "control", "compat", "web", "socket", "program" (also [defaults]), "" for the top
	table string
	name  string // dotted below its table: "backoff.initial"
	codec string // how it is written, for the reference
	shape func() *codec.Schema
	doc   string // meaning, as Markdown

	set         func(d *builder, v codec.Value) // reads v into its field
	get         func(d *builder) any            // returns the value of its field
	shown       func(d *builder) string         // returns the value as TOML, "" for none
	defaultText string                          // replaces the result of shown in the reference
}

// bind returns a key whose value k reads into a field of the builder.
func bind[T any](table, name string, k codec.Codec[T], field func(d *builder) *T, doc string) key {
	return key{
		table: table, name: name, codec: k.Name, shape: k.Schema, doc: doc,
		set: func(d *builder, v codec.Value) {
			if read, ok := k.Read(v); ok {
				*field(d) = read
			}
		},
		get:   func(d *builder) any { return *field(d) },
		shown: func(d *builder) string { return k.Show(*field(d)) },
	}
}

// reading replaces the default of k in the reference by text.
func reading(text string, k key) key {
	k.defaultText = text
	return k
}

// MaxReplicas is the maximum number of replicas of a program.
const MaxReplicas = 10_000

const most = 1_000_000 // limit for counts, far below an overflow

// keys returns the table of all keys, in the order of the reference. It is built on first use,
// since not every command needs it.
var keys = sync.OnceValue(func() []key {
	return slices.Concat([]key{
		bind("", "include", codec.List("array of strings", codec.Word),
			func(d *builder) *[]string { return &d.include },
			"More files to read, relative to this one; `*`, `?` and `[…]` match as in a shell. "+
				"They may hold `[program.NAME]`, `[socket.NAME]` and `[notify.NAME]` tables only."),

		bind("", extends, codec.FilePath, func(d *builder) *string { return &d.extends },
			"A file whose values this one overrides, key by key. It may include others, and not "+
				"extend others. See [Files that extend others](#files-that-extend-others)."),

		reading("see above", bind("superd", "runtime_dir", codec.FilePath,
			func(d *builder) *string { return &d.superd.RuntimeDir },
			"The directory of the control socket, the journal and the programs' FIFOs.")),
		reading("see above", bind("superd", "log_dir", codec.FilePath,
			func(d *builder) *string { return &d.superd.LogDir },
			"The directory of log files with a relative path.")),
		bind("superd", "exit_when", codec.Choice(ExitNever, ExitAllExited, ExitAnyFailed),
			func(d *builder) *ExitWhen { return &d.superd.ExitWhen },
			"When superd ends by itself. Its exit status is that of the first program that "+
				"failed, else 0."),
		bind("superd", "log_max_total", codec.Size(0),
			func(d *builder) *int64 { return &d.superd.LogMaxTotal },
			"Limit for all log files together; 0: none. At each rotation the oldest rotated "+
				"files above the limit are removed, of any program. It should not be less than any "+
				"`log.max_size`."),

		bind("control", "operators", codec.List("array of strings", codec.Word),
			func(d *builder) *[]string { return &d.control.Operators },
			"Unix users, and groups as `@group`, that may see and control programs, beside root and "+
				"the user of superd. See [Who may do what](#who-may-do-what)."),
		bind("control", "viewers", codec.List("array of strings", codec.Word),
			func(d *builder) *[]string { return &d.control.Viewers },
			"Unix users and groups, written likewise, that may only see the state and the output of "+
				"programs."),

		bind("compat", "supervisor_socket", codec.FilePath,
			func(d *builder) *string { return &d.compat.SupervisorSocket },
			"A Unix socket that answers as supervisord does, for its clients such as `supervisorctl`. See "+
				"[Clients of supervisord](#clients-of-supervisord)."),

		reading("required", bind("program", "command", codec.Command,
			func(d *builder) *[]string { return &d.Command },
			"What to run. A string is split as a shell would split it (quotes, backslashes); no "+
				"shell runs. `${X}` and `$X` are expanded. See [Variables](#variables).")),
		reading("the file's own", bind("program", "directory", codec.Directory,
			func(d *builder) *string { return &d.Directory },
			"The working directory. `${X}` is expanded.")),
		bind("program", "environment", environ.Table,
			func(d *builder) *map[string]string { return &d.Environment },
			"Environment variables, added to those in `[defaults]`. `${X}` is expanded; a "+
				"variable that refers to itself means the inherited one."),
		bind("program", "env_file", codec.EnvFileList, func(d *builder) *codec.EnvFiles { return &d.EnvFiles },
			"Files of `KEY=VALUE` lines, or directories with a file for each variable, read at "+
				"each start. A `-` before a path makes it optional, a later one overrides an "+
				"earlier one, and `environment` overrides all. See [env_file](#env_file)."),
		bind("program", "inherit_environment", codec.Boolean,
			func(d *builder) *bool { return &d.InheritEnvironment },
			"Whether the program gets superd's own environment, without `NOTIFY_SOCKET`, "+
				"`LISTEN_*`, `WATCHDOG_*`, `INVOCATION_ID`, `JOURNAL_STREAM` and `SUPERD_*`."),
		reading("superd's own", bind("program", "user", codec.Word,
			func(d *builder) *string { return &d.User },
			"The Unix user to run as: a name or number in `/etc/passwd`. See [Users and "+
				"limits](#users-and-limits).")),
		bind("program", "groups", codec.List("array of strings", groupName),
			func(d *builder) *[]string { return &d.Groups },
			"Names under which several programs can be started, stopped and shown. Not Unix "+
				"groups."),
		reading("those of `user`", bind("program", "supplementary_groups",
			codec.Settable(codec.List("array of strings", codec.Word)),
			func(d *builder) *[]string { return &d.SupplementaryGroups },
			"Unix groups beside the user's own, by name or number, instead of those that "+
				"`/etc/group` gives the user; `[]`: none.")),
		bind("program", "pty", codec.Boolean, func(d *builder) *bool { return &d.PTY },
			"Whether the program has a terminal as standard input, output and error. See "+
				"[Terminals](#terminals)."),
		reading("superd's own", bind("program", "umask", codec.Umask,
			func(d *builder) **uint32 { return &d.Umask },
			"The file mode creation mask: `\"022\"` or `0o022`.")),
		reading("superd's own", bind("program", "nice", codec.Optional(codec.Integer(-20, 19)),
			func(d *builder) **int { return &d.Attributes.Nice },
			"The nice value: below 0 it gets more CPU time, above less.")),
		reading("superd's own", bind("program", "ionice", codec.Optional(codec.IONiceValue),
			func(d *builder) **codec.IONice { return &d.Attributes.IONice },
			"The class of I/O scheduling, and the level in it: 0 is served first, 7 last, and 4 "+
				"is usual.")),
		reading("superd's own", bind("program", "cpu_affinity", codec.CPUList,
			func(d *builder) *[]int { return &d.Attributes.CPUAffinity },
			"The CPUs that it may use.")),
		reading("superd's own", bind("program", "scheduling", codec.Optional(codec.SchedulingValue),
			func(d *builder) **codec.Scheduling { return &d.Attributes.Scheduling },
			"The policy of CPU scheduling; those with a priority from 1 to 99 are real-time.")),
		reading("superd's own, if that is not below 0, else `0`", bind("program",
			"oom_score_adj", codec.Optional(codec.Integer(-1000, 1000)),
			func(d *builder) **int { return &d.Attributes.OOMScoreAdj },
			"How readily the OOM killer ends it: never with -1000, first with 1000. See [Users "+
				"and limits](#users-and-limits).")),
		directoryKey(directory.Runtime, "Directories in `/run` that superd makes for a run and removes "+
			"after it. See [Directories](#directories)."),
		directoryKey(directory.State, "Directories in `/var/lib` that superd makes, if they are "+
			"missing. They stay."),
		directoryKey(directory.Cache, "Directories in `/var/cache` that superd makes likewise."),
		directoryKey(directory.Logs, "Directories in `/var/log` that superd makes likewise, for logs "+
			"that the program writes itself."),
		directoryMode(directory.Runtime, "The mode of these directories: `\"0750\"` or `0o750`."),
		directoryMode(directory.State, "The mode of these directories, likewise."),
		directoryMode(directory.Cache, "The mode of these directories, likewise."),
		directoryMode(directory.Logs, "The mode of these directories, likewise."),
		bind("program", "runtime_directory_preserve", codec.Boolean,
			func(d *builder) *bool { return &d.RuntimeDirectoryPreserve },
			"Whether runtime directories stay, with what is in them, when a run ends."),
		bind("program", "replicas", codec.Integer(0, MaxReplicas),
			func(d *builder) *int { return &d.Replicas },
			"Number of instances: `web`, or `web@1` to `web@N`; 0: none. See "+
				"[Replicas](#replicas)."),
		bind("program", "type", codec.Choice(TypeService, TypeOneshot, TypeForking),
			func(d *builder) *Type { return &d.Type },
			"A service keeps running; a one-shot ends. The command of a `forking` service ends when "+
				"its main process runs in the background. See [Forking programs](#forking-programs)."),
		bind("program", "pid_file", environ.RunPath, func(d *builder) *string { return &d.PIDFile },
			"The file from which superd learns the main process of a `forking` program: an absolute "+
				"path."),
		bind("program", "schedule", codec.ScheduleLine, func(d *builder) *string { return &d.Schedule },
			"When a one-shot runs: `@every 5m`, `@daily` or a cron line. See "+
				"[Schedules](#schedules)."),
		bind("program", "schedule_jitter", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.ScheduleJitter },
			"The longest delay of a run. The delay is fixed for a machine, instance and time, "+
				"and less than the time to the next run."),
		bind("program", "schedule_missed", codec.Choice(MissedOnce, MissedSkip),
			func(d *builder) *Missed { return &d.ScheduleMissed },
			"Whether one run replaces those that were missed while the machine slept or superd "+
				"did not run, or none."),
		autostartKey(),
		startKey(),
		bind("program", "essential", codec.Boolean, func(d *builder) *bool { return &d.Essential },
			"superd shuts down when it ends for good, with its exit status."),
		bind("program", "requires", codec.List("array of strings", programRef),
			func(d *builder) *[]string { return &d.Requires },
			"Programs that must be ready before it starts. It is stopped when one of them is "+
				"stopped or fails, and started again when they are back. See "+
				"[Dependencies](#dependencies)."),
		bind("program", "after", codec.List("array of strings", programRef),
			func(d *builder) *[]string { return &d.After },
			"Programs that start before it and stop after it, where both are wanted up. See "+
				"[Dependencies](#dependencies)."),
		reading("`\"always\"`, of a one-shot `\"never\"`", bind("program", "restart",
			codec.Choice(RestartAlways, RestartOnFailure, RestartNever),
			func(d *builder) *Restart { return &d.Restart },
			"After which outcomes it is restarted. A one-shot cannot have `\"always\"`, and "+
				"`[defaults]` does not apply to its `restart`.")),
		bind("program", "success_exit_codes", codec.List("array of integers", codec.Integer(0, 255)),
			func(d *builder) *[]int { return &d.SuccessExitCodes },
			"Exit codes that count as success."),
		bind("program", "no_restart_exit_codes", codec.List("array of exit codes and signals", codec.ExitStatusValue),
			func(d *builder) *[]ExitStatus { return &d.NoRestartExitCodes },
			"Exit codes, and signals such as `\"SIGTERM\"`, after which it is not restarted, whatever "+
				"`restart` says. They do not count for a program that superd ends."),
		bind("program", "backoff.initial", codec.Duration(false),
			func(d *builder) *time.Duration { return &d.Backoff.Initial },
			"Delay before the first restart."),
		bind("program", "backoff.max", codec.Duration(false),
			func(d *builder) *time.Duration { return &d.Backoff.Max },
			"The longest delay."),
		bind("program", "backoff.factor",
			codec.Number(1, 1000),
			func(d *builder) *float64 { return &d.Backoff.Factor },
			"Factor from one delay to the next."),
		bind("program", "backoff.jitter",
			codec.Number(0, 1),
			func(d *builder) *float64 { return &d.Backoff.Jitter },
			"The largest share of the delay that is added at random."),
		bind("program", "backoff.reset_after", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.Backoff.ResetAfter },
			"A run that lasts this long resets the delay."),
		bind("program", "start_limit.failures", codec.Integer(0, most),
			func(d *builder) *int { return &d.StartLimit.Failures },
			"Number of failures after which the program is `failed`; 0: no limit."),
		bind("program", "start_limit.within", codec.Duration(false),
			func(d *builder) *time.Duration { return &d.StartLimit.Within },
			"The time in which they count."),
		bind("program", "start_limit.retry_after", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.StartLimit.RetryAfter },
			"When it is tried again after that; `\"0s\"`: never."),
		bind("program", "start_timeout", codec.Duration(false),
			func(d *builder) *time.Duration { return &d.StartTimeout },
			"How long a start may take until the program is ready. Also the limit for each hook."),
		bind("program", "watchdog", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.Watchdog },
			"Once it is ready, the program has to send `WATCHDOG=1` to `$NOTIFY_SOCKET` at "+
				"least this often. If not, it is ended by SIGABRT and restarted. `\"0s\"`: no "+
				"watchdog."),
		bind("program", "stop_signal", codec.StopSignal,
			func(d *builder) *syscall.Signal { return &d.StopSignal },
			"The signal that asks it to stop: `\"SIGTERM\"`, `\"TERM\"`, `\"15\"`, "+
				"`\"SIGRTMIN+3\"`."),
		bind("program", "stop_timeout", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.StopTimeout },
			"How long a stop may take before SIGKILL; `\"0s\"`: SIGKILL at once."),
		bind("program", "kill_mode",
			codec.Choice(KillMainFirst, KillMixed, KillTree, KillGroup, KillProcess),
			func(d *builder) *KillMode { return &d.KillMode },
			"Which processes get the stop signal and SIGKILL. See [What a stop "+
				"reaches](#what-a-stop-reaches)."),
		bind("program", "kill_signal", codec.KillSignal,
			func(d *builder) *syscall.Signal { return &d.KillSignal },
			"The signal after `stop_timeout`, in place of SIGKILL. See [What a stop "+
				"reaches](#what-a-stop-reaches)."),
		bind("program", "final_kill", codec.Negated,
			func(d *builder) *bool { return &d.NoFinalKill },
			"Whether `kill_signal` is sent after `stop_timeout`. If not, the program stays "+
				"`stopping` until it ends by itself."),

		bind("program", "ready.notify", codec.Boolean, func(d *builder) *bool { return &d.ready.Notify },
			"Ready when it sends `READY=1` to `$NOTIFY_SOCKET`. A program has at most one kind "+
				"of readiness check."),
		reading("none", bind("program", "ready.fd", codec.Integer(3, 1023),
			func(d *builder) *int { return &d.ready.FD },
			"Ready when it writes a line to this descriptor.")),
		bind("program", "ready.line", codec.Pattern, func(d *builder) *string { return &d.ready.Line },
			"Ready when a line of its output, of either stream, matches this regular expression "+
				"(RE2)."),
		bind("program", "ready.tcp", codec.HostPort, func(d *builder) *string { return &d.ready.TCP },
			"Ready when this address accepts a connection."),
		bind("program", "ready.http", codec.URL, func(d *builder) *string { return &d.ready.HTTP },
			"Ready when this URL answers with a status from 200 to 399."),
		bind("program", "ready.exec", codec.Command, func(d *builder) *[]string { return &d.ready.Exec },
			"Ready when this command ends with status 0."),
		bind("program", "ready.interval", codec.Duration(false),
			func(d *builder) *time.Duration { return &d.ready.Interval },
			"The time between two tries of tcp, http or exec."),
		bind("program", "ready.timeout", codec.Duration(false),
			func(d *builder) *time.Duration { return &d.ready.Timeout },
			"The limit for one try."),
		bind("program", "health.tcp", codec.HostPort, func(d *builder) *string { return &d.health.TCP },
			"Healthy when this address accepts a connection."),
		bind("program", "health.http", codec.URL, func(d *builder) *string { return &d.health.HTTP },
			"Healthy when this URL answers with a status from 200 to 399."),
		bind("program", "health.exec", codec.Command, func(d *builder) *[]string { return &d.health.Exec },
			"Healthy when this command ends with status 0."),
		bind("program", "health.interval", codec.Duration(false),
			func(d *builder) *time.Duration { return &d.health.Interval },
			"The time between two checks."),
		bind("program", "health.timeout", codec.Duration(false),
			func(d *builder) *time.Duration { return &d.health.Timeout },
			"The limit for one check."),
		bind("program", "health.failures", codec.Integer(1, most),
			func(d *builder) *int { return &d.health.Failures },
			"Number of failures in a row that make it unhealthy."),
		bind("program", "health.action", codec.Choice(HealthRestart, HealthNone),
			func(d *builder) *HealthAction { return &d.health.Action },
			"Whether an unhealthy program is restarted, or only shown as unhealthy."),

		bind("program", "pre_start", codec.List("array of commands", codec.Command),
			func(d *builder) *[][]string { return &d.PreStart },
			"Commands to run before each start."),
		bind("program", "post_start", codec.List("array of commands", codec.Command),
			func(d *builder) *[][]string { return &d.PostStart },
			"Commands to run when the program meets its readiness condition, before it counts as "+
				"ready. See [Reload and stop](#reload-and-stop)."),
		bind("program", "post_stop", codec.List("array of commands", codec.Command),
			func(d *builder) *[][]string { return &d.PostStop },
			"Commands to run after each run."),
		reading("that of the program", bind("program", "hooks_user", codec.Word,
			func(d *builder) *string { return &d.HooksUser },
			"The Unix user that `pre_start`, `post_start`, `post_stop`, `stop_command`, "+
				"`reload_command` and `check_command` run as, such as `\"root\"`.")),
		bind("program", "stop_command", codec.Command,
			func(d *builder) *[]string { return &d.StopCommand },
			"A command that asks the running program to stop, before `stop_signal`. See "+
				"[Reload and stop](#reload-and-stop)."),
		bind("program", "reload_signal", codec.ReloadSignal,
			func(d *builder) *syscall.Signal { return &d.ReloadSignal },
			"The signal by which `superd ctl reload NAME` makes the program read its "+
				"configuration again. See [Reload and stop](#reload-and-stop)."),
		bind("program", "reload_notify", codec.Boolean,
			func(d *builder) *bool { return &d.ReloadNotify },
			"Whether the program answers `reload_signal` by `RELOADING=1` and `READY=1`, as with "+
				"systemd's `Type=notify-reload`. It needs `ready.notify`."),
		bind("program", "reload_command", codec.Command,
			func(d *builder) *[]string { return &d.ReloadCommand },
			"The command that does so, instead of a signal."),
		bind("program", "check_command", codec.Command,
			func(d *builder) *[]string { return &d.CheckCommand },
			"A command that fails if the program's configuration has a mistake. It precedes a "+
				"reload of the program and a restart by an operator, which it can prevent."),

		reading("`\"<instance>.log\"`", bind("program", "log.file", codec.LogFile,
			func(d *builder) *string { return &d.Log.File },
			"The log file, relative to `log_dir`. Two instances cannot share one.")),
		bind("program", "log.format", codec.Choice(LogRaw, LogDirect, LogText, LogJSON),
			func(d *builder) *LogFormat { return &d.Log.Format },
			"Byte for byte; by the program itself; lines with time and stream; or a JSON object "+
				"for each line. See [Log formats](#log-formats)."),
		bind("program", "log.max_size", codec.Size(0), func(d *builder) *int64 { return &d.Log.MaxSize },
			"The size at which the file is rotated, at the end of a line; 0: never."),
		bind("program", "log.keep", codec.Integer(0, most), func(d *builder) *int { return &d.Log.Keep },
			"How many rotated files are kept."),
		bind("program", "log.max_age", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.Log.MaxAge },
			"The age at which the file is rotated, with the next line; `\"0s\"`: never."),
		bind("program", "log.max_total", codec.Size(0), func(d *builder) *int64 { return &d.Log.MaxTotal },
			"Limit for all log files of an instance together, the current one counted as full; "+
				"0: none. The oldest above the limit are removed."),
		bind("program", "log.compress", compression,
			func(d *builder) *Compression { return &d.Log.Compress },
			"How rotated files are compressed; `true` is gzip. Their names end in `.gz` or "+
				"`.zst`."),
		bind("program", "log.stderr", codec.Choice(StderrMerge, StderrSeparate, StderrLabel),
			func(d *builder) *Stderr { return &d.Log.Stderr },
			"Standard error goes into the same pipe as standard output; into its own file; or "+
				"into the same log, each line marked with its stream. See [Standard "+
				"error](#standard-error)."),
		reading("`\"<instance>.err.log\"`", bind("program", "log.stderr_file", codec.LogFile,
			func(d *builder) *string { return &d.Log.StderrFile },
			"The file of standard error, with `stderr = \"separate\"`.")),
		bind("program", "log.overflow", codec.Choice(OverflowBlock, OverflowDrop),
			func(d *builder) *Overflow { return &d.Log.Overflow },
			"While the log cannot be written, or stalls for a second, the program waits, or its "+
				"output is dropped and counted. See [A full disk](#a-full-disk)."),
		bind("program", "log.min_free", codec.Size(0), func(d *builder) *int64 { return &d.Log.MinFree },
			"The file system counts as full when less than this is free on it."),
		reading("superd's own", bind("program", "log.owner", codec.Word,
			func(d *builder) *string { return &d.Log.Owner },
			"The Unix user that owns the log files, rotated ones included: a name or number in "+
				"`/etc/passwd`. superd must be root.")),
		reading("superd's own", bind("program", "log.group", codec.Word,
			func(d *builder) *string { return &d.Log.Group },
			"The Unix group of the log files.")),
		reading("`\"0640\"`", bind("program", "log.mode", codec.FileMode,
			func(d *builder) **uint32 { return &d.Log.Mode },
			"The mode of the log files: `\"0640\"` or `0o640`. The umask does not apply to it.")),
		bind("program", "log.sink",
			codec.Choice(SinkFile, SinkJournald, SinkSyslog, SinkStdout, SinkCommand),
			func(d *builder) *Sink { return &d.Log.Sink },
			"Where output goes: a file; journald; syslog; superd's own standard output; or the "+
				"standard input of `log.command`. See [Sinks](#sinks)."),
		bind("program", "log.command", codec.Command, func(d *builder) *[]string { return &d.Log.Command },
			"The logger with `sink = \"command\"`, which superd runs as the program "+
				"`NAME.logger`. `${X}` is expanded. See [A logger of your "+
				"own](#a-logger-of-your-own)."),
		reading("`\"/run/systemd/journal/socket\"`, `\"/dev/log\"`", bind("program",
			"log.address", codec.LogAddress,
			func(d *builder) *string { return &d.Log.Address },
			"The socket of journald or syslog: a path, relative to this file; for syslog also "+
				"`udp://HOST:PORT` or `tcp://HOST:PORT`.")),
		reading("the program's name", bind("program", "log.identifier", codec.Word,
			func(d *builder) *string { return &d.Log.Identifier },
			"The name of the program in journald and syslog.")),
		bind("program", "log.facility", codec.Choice(facilities...),
			func(d *builder) *Facility { return &d.Log.Facility },
			"The syslog facility, also in journald."),

		bindRlimit(rlimit.NoFile, codec.Integer[int64](1, 1<<30),
			"Open files of each process. A single value is the soft and the hard limit, here and "+
				"below. See [Users and limits](#users-and-limits)."),
		bindRlimit(rlimit.Core, codec.Size(0), "Size of a core dump. 0: none is written."),
		bindRlimit(rlimit.AS, codec.Size(1), "Address space of each process."),
		bindRlimit(rlimit.CPUTime, codec.TimeIn(time.Second),
			"CPU time of each process, in whole seconds; SIGXCPU at the soft limit, SIGKILL at "+
				"the hard one."),
		bindRlimit(rlimit.Data, codec.Size(1), "Private writable memory of each process."),
		bindRlimit(rlimit.FSize, codec.Size(0), "Size of a file that it writes."),
		bindRlimit(rlimit.MemLock, codec.Size(0), "Memory of each process that is locked in RAM."),
		bindRlimit(rlimit.MsgQueue, codec.Size(0), "POSIX message queues of its user."),
		bindRlimit(rlimit.Nice, codec.Integer[int64](0, 40),
			"How far it may lower its own nice value: to 20 less this number."),
		bindRlimit(rlimit.NProc, codec.Integer[int64](1, 1<<30),
			"Processes and threads of its user, wherever they run; does not limit root. "+
				"`limits.tasks` counts those of the program."),
		bindRlimit(rlimit.RTPrio, codec.Integer[int64](0, 99),
			"The highest real-time priority that it may give itself."),
		bindRlimit(rlimit.RTTime, codec.TimeIn(time.Microsecond),
			"CPU time of a real-time thread between two system calls that block."),
		bindRlimit(rlimit.SigPending, codec.Integer[int64](0, 1<<30), "Queued signals of its user."),
		bindRlimit(rlimit.Stack, codec.Size(1), "Stack of each process."),
		bind("program", "limits.memory", codec.Optional(codec.Size(1)),
			func(d *builder) **int64 { return &d.Limits.Memory },
			"Memory of all its processes together (cgroup v2 controller `memory`). Above it the "+
				"kernel kills all of them, and `reason` says so."),
		bind("program", "limits.memory_high", codec.Optional(codec.Size(1)),
			func(d *builder) **int64 { return &d.Limits.MemoryHigh },
			"Memory above which the kernel slows its processes down and takes memory back "+
				"(controller `memory`)."),
		bind("program", "limits.swap", codec.Optional(codec.Size(0)),
			func(d *builder) **int64 { return &d.Limits.Swap },
			"Swap space of all its processes together (controller `memory`); 0: none."),
		bind("program", "limits.cpu",
			codec.Optional(codec.Number(0.001, 1000)),
			func(d *builder) **float64 { return &d.Limits.CPU },
			"CPUs that all its processes may use together (cgroup v2 controller `cpu`): 0.5 is "+
				"half of one."),
		bind("program", "limits.cpu_weight", codec.Optional(codec.Integer[int64](1, 10_000)),
			func(d *builder) **int64 { return &d.Limits.CPUWeight },
			"Share of CPU time where others want it, too (controller `cpu`). A program without "+
				"the key has 100."),
		bind("program", "limits.io", codec.IOLimits,
			func(d *builder) *[]codec.IOLimit { return &d.Limits.IO },
			"What all its processes together read and write on a block device in a second "+
				"(controller `io`): `{ \"/dev/sda\" = { read = \"10MB\", write = \"5MB\", "+
				"read_ops = 100, write_ops = 50 } }`. A file stands for the device that it is on."),
		bind("program", "limits.tasks", codec.Optional(codec.Integer[int64](1, 1<<30)),
			func(d *builder) **int64 { return &d.Limits.Tasks },
			"Processes and threads (cgroup v2 controller `pids`). Above it a fork of the "+
				"program fails."),
	}, webKeys(), sandboxKeys(), programSocketKeys(), rollingKeys(), watchKeys(), socketKeys())
})

// findKey returns the key of a table, nil if there is none.
func findKey(table, name string) *key {
	all := keys()
	i := slices.IndexFunc(all, func(k key) bool { return k.table == table && k.name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// subkeys returns the names of keys and tables directly below prefix ("" or "backoff.") of a table.
func subkeys(table, prefix string) []string {
	var names []string
	for _, k := range keys() {
		rest, ok := strings.CutPrefix(k.name, prefix)
		if name, _, _ := strings.Cut(rest, "."); k.table == table && ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
