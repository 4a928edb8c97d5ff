package config

import (
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A key is one key that a configuration may hold.
type key struct {
	table string // where it is written: "superd", "program" (also [defaults]), "" for the top of the file
	name  string // dotted below its table: "backoff.initial"
	kind  string // how it is written, for the reference
	doc   string // what it means, as Markdown

	set         func(d *draft, v value) // reads v into its field
	get         func(d *draft) any      // the field's value
	shown       func(d *draft) string   // the field's value as TOML, "" for none
	defaultText string                  // stands in for shown in the reference
}

// bind makes a key whose value is read as k says into a field of the draft.
func bind[T any](table, name string, k kind[T], field func(d *draft) *T, doc string) key {
	return key{
		table: table, name: name, kind: k.name, doc: doc,
		set: func(d *draft, v value) {
			if read, ok := k.read(v); ok {
				*field(d) = read
			}
		},
		get:   func(d *draft) any { return *field(d) },
		shown: func(d *draft) string { return k.show(*field(d)) },
	}
}

// reading gives the reference another text for the default than the value itself.
func reading(text string, k key) key {
	k.defaultText = text
	return k
}

// MaxReplicas is how many replicas a program may have.
const MaxReplicas = 10_000

const most = 1_000_000 // a bound for counts, far from where arithmetic could overflow

// keys returns the one table of all keys, in the order of the reference. It is made when it is first asked for, since every command would pay for it.
var keys = sync.OnceValue(func() []key {
	return []key{
		bind("", "include", list("array of strings", word), func(d *draft) *[]string { return &d.include },
			"Files to read as well, relative to this one; `*`, `?` and `[…]` match as in a shell. They may hold `[program.NAME]` tables only."),

		reading("see above", bind("superd", "runtime_dir", filePath, func(d *draft) *string { return &d.superd.RuntimeDir },
			"Where the control socket and the programs' FIFOs are.")),
		reading("see above", bind("superd", "log_dir", filePath, func(d *draft) *string { return &d.superd.LogDir },
			"Where relative log files are.")),
		bind("superd", "exit_when", choice(ExitNever, ExitAllExited, ExitAnyFailed), func(d *draft) *ExitWhen { return &d.superd.ExitWhen },
			"When superd ends by itself; its status is the first failing program's, else 0."),
		bind("superd", "log_max_total", size(0), func(d *draft) *int64 { return &d.superd.LogMaxTotal },
			"What all programs' log files together may take; 0: no bound. Whenever a file is rotated, the oldest rotated ones beyond are removed, whosever they are. It should not be less than any `log.max_size`."),

		reading("required", bind("program", "command", command, func(d *draft) *[]string { return &d.Command },
			"What to run. A string is split as a shell would split it (quotes, backslashes), and no shell is involved. `${X}` is expanded.")),
		reading("the file's own", bind("program", "directory", directory, func(d *draft) *string { return &d.Directory },
			"The working directory. `${X}` is expanded.")),
		bind("program", "environment", environment, func(d *draft) *map[string]string { return &d.Environment },
			"Environment variables. `${X}` is expanded; a variable that refers to itself means the inherited one. Those in `[defaults]` and those of the program are joined."),
		bind("program", "env_file", filePath, func(d *draft) *string { return &d.EnvFile },
			"A file of `KEY=VALUE` lines, read at each start; `environment` wins over it."),
		bind("program", "inherit_environment", boolean, func(d *draft) *bool { return &d.InheritEnvironment },
			"Whether the program gets superd's own environment, less what speaks of superd itself (`NOTIFY_SOCKET`, `LISTEN_*`, `WATCHDOG_*`, `INVOCATION_ID`, `JOURNAL_STREAM`, `SUPERD_*`)."),
		reading("superd's own", bind("program", "user", word, func(d *draft) *string { return &d.User },
			"The Unix user to run as: a name or a number that stands in `/etc/passwd`. See [Users and limits](#users-and-limits).")),
		bind("program", "groups", list("array of strings", groupName), func(d *draft) *[]string { return &d.Groups },
			"superd's own groups: names by which several programs can be started, stopped and shown."),
		reading("those of `user`", bind("program", "supplementary_groups", settable(list("array of strings", word)), func(d *draft) *[]string { return &d.SupplementaryGroups },
			"Unix groups to run with beside the user's own, by name or number, instead of those that `/etc/group` gives the user; `[]`: none.")),
		reading("superd's own", bind("program", "umask", umask, func(d *draft) **uint32 { return &d.Umask },
			"The file mode creation mask: `\"022\"` or `0o022`.")),
		bind("program", "replicas", integer(0, MaxReplicas), func(d *draft) *int { return &d.Replicas },
			"How many instances run: `web`, or `web@1` to `web@N`; 0: none. See [Replicas](#replicas)."),
		bind("program", "type", choice(TypeService, TypeOneshot), func(d *draft) *Type { return &d.Type },
			"A service runs on and on; a one-shot does its work and ends."),
		bind("program", "schedule", scheduleLine, func(d *draft) *string { return &d.Schedule },
			"When a one-shot runs: `@every 5m`, `@daily` or a cron line. See [Schedules](#schedules)."),
		bind("program", "schedule_jitter", duration(true), func(d *draft) *time.Duration { return &d.ScheduleJitter },
			"By how much each run is late at most: always the same share for one machine, instance and time, less than the time to the next run."),
		bind("program", "schedule_missed", choice(MissedOnce, MissedSkip), func(d *draft) *Missed { return &d.ScheduleMissed },
			"What becomes of times that are missed while the machine sleeps or superd doesn't run: one run makes up for all of them, or none does."),
		bind("program", "autostart", boolean, func(d *draft) *bool { return &d.Autostart },
			"Whether it is started with superd."),
		bind("program", "essential", boolean, func(d *draft) *bool { return &d.Essential },
			"When it ends for good, superd shuts down with its status."),
		bind("program", "requires", list("array of strings", programRef), func(d *draft) *[]string { return &d.Requires },
			"Programs after whose readiness it is started; it is stopped when one of them is stopped or fails, and comes back with it. See [Dependencies](#dependencies)."),
		bind("program", "after", list("array of strings", programRef), func(d *draft) *[]string { return &d.After },
			"Programs after which it is started, and before which it is stopped, where both are wanted. See [Dependencies](#dependencies)."),
		reading("`\"always\"`, of a one-shot `\"never\"`", bind("program", "restart", choice(RestartAlways, RestartOnFailure, RestartNever), func(d *draft) *Restart { return &d.Restart },
			"After which ends it is started again. A one-shot can't be restarted always, and `[defaults]` doesn't apply to it here.")),
		bind("program", "success_exit_codes", list("array of integers", integer(0, 255)), func(d *draft) *[]int { return &d.SuccessExitCodes },
			"Exit codes that are no failure."),
		bind("program", "backoff.initial", duration(false), func(d *draft) *time.Duration { return &d.Backoff.Initial },
			"The pause before the first restart."),
		bind("program", "backoff.max", duration(false), func(d *draft) *time.Duration { return &d.Backoff.Max },
			"The longest pause."),
		bind("program", "backoff.factor", number("from 1 to 1000", func(f float64) bool { return 1 <= f && f <= 1000 }), func(d *draft) *float64 { return &d.Backoff.Factor },
			"By how much each pause is longer than the one before."),
		bind("program", "backoff.jitter", number("from 0 to 1", func(f float64) bool { return 0 <= f && f <= 1 }), func(d *draft) *float64 { return &d.Backoff.Jitter },
			"The share of the pause that chance adds at most."),
		bind("program", "backoff.reset_after", duration(true), func(d *draft) *time.Duration { return &d.Backoff.ResetAfter },
			"A run of this length makes the next pause the first one again."),
		bind("program", "start_limit.failures", integer(0, most), func(d *draft) *int { return &d.StartLimit.Failures },
			"Give up after so many failures; 0: never."),
		bind("program", "start_limit.within", duration(false), func(d *draft) *time.Duration { return &d.StartLimit.Within },
			"The time in which they count."),
		bind("program", "start_limit.retry_after", duration(true), func(d *draft) *time.Duration { return &d.StartLimit.RetryAfter },
			"When to try again after giving up; `\"0s\"`: never."),
		bind("program", "start_timeout", duration(false), func(d *draft) *time.Duration { return &d.StartTimeout },
			"How long a start may take until the program is ready."),
		bind("program", "watchdog", duration(true), func(d *draft) *time.Duration { return &d.Watchdog },
			"Within which time it sends `WATCHDOG=1` to `$NOTIFY_SOCKET`, again and again, once it is ready; one that fails to is ended by SIGABRT and started again. `\"0s\"`: no watchdog."),
		bind("program", "stop_signal", stopSignal, func(d *draft) *syscall.Signal { return &d.StopSignal },
			"The signal that asks it to stop: `\"SIGTERM\"`, `\"TERM\"`, `\"15\"`, `\"SIGRTMIN+3\"`."),
		bind("program", "stop_timeout", duration(true), func(d *draft) *time.Duration { return &d.StopTimeout },
			"How long it may take to stop before SIGKILL; `\"0s\"`: not at all."),
		bind("program", "kill_mode", choice(KillTree, KillGroup, KillProcess), func(d *draft) *KillMode { return &d.KillMode },
			"Whom SIGKILL reaches then: all its processes, its process group, or the main process."),

		bind("program", "ready.notify", boolean, func(d *draft) *bool { return &d.ready.Notify },
			"Ready when it sends `READY=1` to `$NOTIFY_SOCKET`. A program has one kind of readiness check, or none (`notify = false`)."),
		reading("none", bind("program", "ready.fd", integer(3, 1023), func(d *draft) *int { return &d.ready.FD },
			"Ready when it writes a line to this descriptor.")),
		bind("program", "ready.line", pattern, func(d *draft) *string { return &d.ready.Line },
			"Ready when a line of its output, of either stream, matches this regular expression (RE2)."),
		bind("program", "ready.tcp", address, func(d *draft) *string { return &d.ready.TCP },
			"Ready when this address accepts a connection."),
		bind("program", "ready.http", webAddress, func(d *draft) *string { return &d.ready.HTTP },
			"Ready when this URL answers with a status from 200 to 399."),
		bind("program", "ready.exec", command, func(d *draft) *[]string { return &d.ready.Exec },
			"Ready when this command ends with status 0."),
		bind("program", "ready.interval", duration(false), func(d *draft) *time.Duration { return &d.ready.Interval },
			"The time between two tries of tcp, http or exec."),
		bind("program", "ready.timeout", duration(false), func(d *draft) *time.Duration { return &d.ready.Timeout },
			"How long one try may take."),
		bind("program", "health.tcp", address, func(d *draft) *string { return &d.health.TCP },
			"Healthy when this address accepts a connection."),
		bind("program", "health.http", webAddress, func(d *draft) *string { return &d.health.HTTP },
			"Healthy when this URL answers with a status from 200 to 399."),
		bind("program", "health.exec", command, func(d *draft) *[]string { return &d.health.Exec },
			"Healthy when this command ends with status 0."),
		bind("program", "health.interval", duration(false), func(d *draft) *time.Duration { return &d.health.Interval },
			"The time between two checks."),
		bind("program", "health.timeout", duration(false), func(d *draft) *time.Duration { return &d.health.Timeout },
			"How long one check may take."),
		bind("program", "health.failures", integer(1, most), func(d *draft) *int { return &d.health.Failures },
			"So many failures in a row make it unhealthy."),
		bind("program", "health.action", choice(HealthRestart, HealthNone), func(d *draft) *HealthAction { return &d.health.Action },
			"What follows when it is unhealthy: it is restarted, or that is only told."),

		bind("program", "pre_start", list("array of commands", command), func(d *draft) *[][]string { return &d.PreStart },
			"Commands to run before each start."),
		bind("program", "post_stop", list("array of commands", command), func(d *draft) *[][]string { return &d.PostStop },
			"Commands to run after each end."),

		reading("`\"<instance>.log\"`", bind("program", "log.file", logFile, func(d *draft) *string { return &d.Log.File },
			"The log file, relative to `log_dir`. No two instances may share one.")),
		bind("program", "log.format", choice(LogRaw, LogDirect, LogText, LogJSON), func(d *draft) *LogFormat { return &d.Log.Format },
			"How output is written: byte for byte; by the program itself; as lines with time and stream; or as JSON objects, one a line. See [Log formats](#log-formats)."),
		bind("program", "log.max_size", size(0), func(d *draft) *int64 { return &d.Log.MaxSize },
			"The size at which the file is rotated, at the end of a line; 0: never."),
		bind("program", "log.keep", integer(0, most), func(d *draft) *int { return &d.Log.Keep },
			"How many rotated files are kept."),
		bind("program", "log.max_age", duration(true), func(d *draft) *time.Duration { return &d.Log.MaxAge },
			"The age at which the file is rotated: with the next line that comes; `\"0s\"`: never."),
		bind("program", "log.max_total", size(0), func(d *draft) *int64 { return &d.Log.MaxTotal },
			"What all files of an instance together may take, a full newest one included; the oldest ones beyond are removed; 0: no bound."),
		bind("program", "log.compress", compression, func(d *draft) *Compression { return &d.Log.Compress },
			"Whether rotated files are compressed, and how; `true` is gzip. Their names end in `.gz` or `.zst`."),
		bind("program", "log.stderr", choice(StderrMerge, StderrSeparate, StderrLabel), func(d *draft) *Stderr { return &d.Log.Stderr },
			"What becomes of standard error: among standard output; in a file of its own; or in the same file, each line marked with its stream. See [Standard error](#standard-error)."),
		reading("`\"<instance>.err.log\"`", bind("program", "log.stderr_file", logFile, func(d *draft) *string { return &d.Log.StderrFile },
			"The file of standard error, with `stderr = \"separate\"`.")),
		bind("program", "log.overflow", choice(OverflowBlock, OverflowDrop), func(d *draft) *Overflow { return &d.Log.Overflow },
			"What happens while the log file can't be written, or stalls for a second: the program's output waits, or is dropped and counted. See [A full disk](#a-full-disk)."),
		bind("program", "log.min_free", size(0), func(d *draft) *int64 { return &d.Log.MinFree },
			"The file system counts as full when less than this is free on it; 0: when it is full."),
		reading("superd's own", bind("program", "log.owner", word, func(d *draft) *string { return &d.Log.Owner },
			"The Unix user whom log files belong to, rotated and compressed ones, too: a name or a number that stands in `/etc/passwd`. superd must be root.")),
		reading("superd's own", bind("program", "log.group", word, func(d *draft) *string { return &d.Log.Group },
			"The Unix group that they belong to.")),
		reading("`\"0640\"`", bind("program", "log.mode", fileMode, func(d *draft) **uint32 { return &d.Log.Mode },
			"Their mode: `\"0640\"` or `0o640`; the umask doesn't count.")),
		bind("program", "log.sink", choice(SinkFile, SinkJournald, SinkSyslog, SinkStdout, SinkCommand), func(d *draft) *Sink { return &d.Log.Sink },
			"Where the output goes: into a file; to journald; to syslog; to superd's own standard output; or to the standard input of `log.command`. See [Sinks](#sinks)."),
		bind("program", "log.command", command, func(d *draft) *[]string { return &d.Log.Command },
			"What reads the output, with `sink = \"command\"`: run by superd as the program `NAME.logger`. `${X}` is expanded. See [A logger of your own](#a-logger-of-your-own)."),
		reading("`\"/run/systemd/journal/socket\"`, `\"/dev/log\"`", bind("program", "log.address", logAddress, func(d *draft) *string { return &d.Log.Address },
			"Where journald or syslog listens: the path of a socket, relative to this file; for syslog also `udp://HOST:PORT` or `tcp://HOST:PORT`.")),
		reading("the program's name", bind("program", "log.identifier", word, func(d *draft) *string { return &d.Log.Identifier },
			"What journald and syslog call the program.")),
		bind("program", "log.facility", choice(facilities...), func(d *draft) *Facility { return &d.Log.Facility },
			"syslog's facility, for journald, too."),

		reading("superd's own", bind("program", "limits.nofile", optional(integer[int64](1, 1<<30)), func(d *draft) **int64 { return &d.Limits.NoFile },
			"Open files of each of its processes; soft and hard limit.")),
		reading("superd's own", bind("program", "limits.core", optional(size(0)), func(d *draft) **int64 { return &d.Limits.Core },
			"Size of a core dump; soft and hard limit. 0: none is written.")),
		bind("program", "limits.memory", optional(size(1)), func(d *draft) **int64 { return &d.Limits.Memory },
			"Memory of all its processes together, by the cgroup v2 controller `memory`. When it is used up, the kernel kills them all; `reason` then says so."),
		bind("program", "limits.cpu", optional(number("from 0.001 to 1000", func(f float64) bool { return 0.001 <= f && f <= 1000 })), func(d *draft) **float64 { return &d.Limits.CPU },
			"CPUs that all its processes may use together, by the cgroup v2 controller `cpu`: 0.5 is half of one."),
		bind("program", "limits.tasks", optional(integer[int64](1, 1<<30)), func(d *draft) **int64 { return &d.Limits.Tasks },
			"Processes and threads, by the cgroup v2 controller `pids`. Where there are as many, the program's next fork fails."),
	}
})

// findKey returns the key of a table, nil where there is none.
func findKey(table, name string) *key {
	all := keys()
	i := slices.IndexFunc(all, func(k key) bool { return k.table == table && k.name == name })
	if i < 0 {
		return nil
	}
	return &all[i]
}

// subkeys returns the names of a table's keys directly below prefix ("" or "backoff."), tables among them.
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
