package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"superd/config/enablement"
	"superd/config/receiver"
)

// A Diff holds the differences between two configurations.
type Diff struct {
	Programs []Change       // all programs of either configuration, sorted by name
	Sockets  []SocketChange // likewise
	Superd   []KeyChange    // changes of the other tables: [superd], [control] and so on
}

// A Change holds what changes for one program.
type Change struct {
	Name string
	Kind ChangeKind
	// The keys that differ, in the order of the reference; empty for a program added or removed
	Keys []KeyChange
	// The program of the new configuration; of the old one for a program removed
	Program *Program
}

// ChangeKind is what applying a change requires.
type ChangeKind string

// The kinds of changes.
const (
	Unchanged      ChangeKind = "unchanged"
	AppliedLive    ChangeKind = "applied live"   // takes effect while the program runs
	RestartNeeded  ChangeKind = "restart needed" // takes effect with the next run
	ProgramAdded   ChangeKind = "added"
	ProgramRemoved ChangeKind = "removed"
)

// A KeyChange is one key whose meaning differs.
type KeyChange struct {
	Key      string // dotted below its table: "backoff.initial", "environment.PORT"
	Old, New string // values as TOML, "" for none; both "" if they must not be shown
	What     string // what happened to the key, if the values don't show it

	Corrected bool // a mistake in the key is gone
	// Takes effect with the next run; for [superd], with the next start of superd
	Restart bool
}

// String returns the change as text: `stop_timeout "5s" -> "10s"`.
func (k KeyChange) String() string {
	switch {
	case k.What != "":
		return k.Key + " " + k.What
	case k.Old == "":
		return k.Key + " = " + k.New
	case k.New == "":
		return k.Key + " " + k.Old + " removed"
	}
	return k.Key + " " + k.Old + " -> " + k.New
}

// Key returns the change of the key with that name, nil if its meaning is the same.
func (c *Change) Key(name string) *KeyChange {
	i := slices.IndexFunc(c.Keys, func(k KeyChange) bool { return k.Key == name })
	if i < 0 {
		return nil
	}
	return &c.Keys[i]
}

// Restarts reports whether a changed key takes effect only with a new run of the instances that
// stay. A change of replicas does not count, although it may rename instances.
func (c *Change) Restarts() bool {
	return slices.ContainsFunc(c.Keys, func(k KeyChange) bool { return k.Restart && k.Key != "replicas" })
}

// RestartsRun reports whether the change restarts an instance with a run of that definition; nil:
// it has no run.
func (c *Change) RestartsRun(run *Program) bool {
	if run == nil {
		return c.Restarts()
	}
	of := CompareProgram(run, c.Program)
	return of.Restarts()
}

// Differs reports whether the two configurations differ in meaning.
func (d *Diff) Differs() bool {
	return len(d.Superd) > 0 || slices.ContainsFunc(d.Programs, func(c Change) bool { return c.Kind != Unchanged }) ||
		slices.ContainsFunc(d.Sockets, func(c SocketChange) bool { return c.Kind != Unchanged })
}

// Of returns the change of the program with that name, nil if neither configuration has it.
func (d *Diff) Of(program string) *Change {
	i, ok := slices.BinarySearchFunc(d.Programs, program, func(c Change, name string) int { return strings.Compare(c.Name, name) })
	if !ok {
		return nil
	}
	return &d.Programs[i]
}

// Names returns the names of the programs with changes of these kinds, sorted.
func (d *Diff) Names(kinds ...ChangeKind) []string {
	var names []string
	for i := range d.Programs {
		if slices.Contains(kinds, d.Programs[i].Kind) {
			names = append(names, d.Programs[i].Name)
		}
	}
	return names
}

// An effect says when a new value of a key takes effect.
type effect uint8

const (
	atOnce effect = iota // at once, or at its next use
	// With a new run: the key shapes the process at its spawn, or where its output goes
	withNextRun
	counted // replicas: the difference is started or stopped
)

// effects has an entry for each key of [program.NAME].
var effects = sync.OnceValue(func() map[string]effect {
	return map[string]effect{
		"command": withNextRun, "directory": withNextRun, "environment": withNextRun, "env_file": withNextRun, "inherit_environment": withNextRun,
		"user": withNextRun, "supplementary_groups": withNextRun, "umask": withNextRun, "pty": withNextRun,
		"runtime_directory": withNextRun, "state_directory": withNextRun, "cache_directory": withNextRun, "logs_directory": withNextRun,
		"runtime_directory_mode": atOnce, "state_directory_mode": atOnce, "cache_directory_mode": atOnce, "logs_directory_mode": atOnce,
		"runtime_directory_preserve": atOnce,
		"nice":                       withNextRun, "ionice": withNextRun, "cpu_affinity": withNextRun, "scheduling": withNextRun, "oom_score_adj": withNextRun,
		"limits.nofile": withNextRun, "limits.core": withNextRun, "limits.as": withNextRun, "limits.cpu_time": withNextRun, "limits.data": withNextRun, "limits.fsize": withNextRun,
		"limits.memlock": withNextRun, "limits.msgqueue": withNextRun, "limits.nice": withNextRun, "limits.nproc": withNextRun, "limits.rtprio": withNextRun, "limits.rttime": withNextRun,
		"limits.sigpending": withNextRun, "limits.stack": withNextRun,
		"limits.memory": withNextRun, "limits.memory_high": withNextRun, "limits.swap": withNextRun, "limits.cpu": withNextRun, "limits.tasks": withNextRun, "limits.cpu_weight": withNextRun, "limits.io": withNextRun,
		"type": withNextRun, "ready.notify": withNextRun, "ready.fd": withNextRun, "watchdog": withNextRun,
		// Command of another program, the logger
		"log.file": withNextRun, "log.format": withNextRun, "log.stderr": withNextRun, "log.stderr_file": withNextRun, "log.sink": withNextRun, "log.command": atOnce,

		"sandbox.preset": withNextRun, "sandbox.best_effort": withNextRun,
		"sandbox.no_new_privileges": withNextRun, "sandbox.capabilities": withNextRun, "sandbox.ambient_capabilities": withNextRun,
		"sandbox.protect_system": withNextRun, "sandbox.read_only": withNextRun, "sandbox.read_write": withNextRun, "sandbox.inaccessible": withNextRun,
		"sandbox.private_tmp": withNextRun, "sandbox.private_devices": withNextRun, "sandbox.private_network": withNextRun, "sandbox.root_directory": withNextRun,
		"sandbox.landlock.read": withNextRun, "sandbox.landlock.write": withNextRun, "sandbox.landlock.execute": withNextRun,
		"sandbox.landlock.bind_tcp": withNextRun, "sandbox.landlock.connect_tcp": withNextRun,
		"sandbox.syscalls.allow": withNextRun, "sandbox.syscalls.deny": withNextRun, "sandbox.syscalls.errno": withNextRun,
		"sandbox.address_families": withNextRun, "sandbox.deny_write_execute": withNextRun,

		"replicas": counted,

		"groups": atOnce, "pid_file": atOnce, "schedule": atOnce, "schedule_jitter": atOnce, "schedule_missed": atOnce, "autostart": atOnce, "start": atOnce, "essential": atOnce, "requires": atOnce, "after": atOnce,
		"restart": atOnce, "success_exit_codes": atOnce, "no_restart_exit_codes": atOnce,
		"backoff.initial": atOnce, "backoff.max": atOnce, "backoff.factor": atOnce, "backoff.jitter": atOnce, "backoff.reset_after": atOnce,
		"start_limit.failures": atOnce, "start_limit.within": atOnce, "start_limit.retry_after": atOnce,
		"start_timeout": atOnce, "stop_signal": atOnce, "stop_timeout": atOnce, "kill_mode": atOnce,
		"kill_signal": atOnce, "final_kill": atOnce,
		"log.owner": atOnce, "log.group": atOnce, "log.mode": atOnce, "log.address": atOnce, "log.identifier": atOnce, "log.facility": atOnce,
		"ready.line": atOnce, "ready.tcp": atOnce, "ready.http": atOnce, "ready.exec": atOnce, "ready.interval": atOnce, "ready.timeout": atOnce,
		"health.tcp": atOnce, "health.http": atOnce, "health.exec": atOnce, "health.interval": atOnce, "health.timeout": atOnce, "health.failures": atOnce, "health.action": atOnce,
		"pre_start": atOnce, "post_stop": atOnce,
		"post_start": atOnce, "hooks_user": atOnce, "stop_command": atOnce,
		"reload_signal": atOnce, "reload_notify": atOnce, "reload_command": atOnce, "check_command": atOnce,
		"log.max_size": atOnce, "log.keep": atOnce, "log.max_age": atOnce, "log.max_total": atOnce, "log.compress": atOnce,
		"log.overflow": atOnce, "log.min_free": atOnce,
		"sockets": withNextRun, "socket_pass": withNextRun, "accept": withNextRun, "idle_timeout": atOnce, "max_connections": atOnce, "max_connections_per_source": atOnce,
		"rolling.surge": atOnce, "rolling.max_unavailable": atOnce, "rolling.pause": atOnce, "rolling.abort_on_failure": atOnce, "rolling.wait_timeout": atOnce, "drain_timeout": atOnce,
		"watch.paths": atOnce, "watch.ignore": atOnce, "watch.debounce": atOnce, "watch.signal": atOnce,
	}
})

// superdEffects has an entry for each key of [superd].
var superdEffects = map[string]effect{"runtime_dir": withNextRun, "log_dir": withNextRun, "exit_when": atOnce, "log_max_total": atOnce}

// controlEffects has an entry for each key of [control].
var controlEffects = map[string]effect{"operators": atOnce, "viewers": atOnce}

// compatEffects has an entry for each key of [compat].
var compatEffects = map[string]effect{"supervisor_socket": atOnce}

// Compare returns the differences between before and after. It compares what the tables mean,
// defaults included, and the mistakes of programs and sockets. Positions in the files and the
// contents of env files do not count.
func Compare(before, after *Config) Diff {
	diff := Diff{Programs: make([]Change, 0, len(after.Programs)), Sockets: compareSockets(before.Sockets, after.Sockets)}
	eachPair(before.Programs, after.Programs, func(p *Program) string { return p.Name }, func(old, next *Program) {
		switch {
		case next == nil:
			diff.Programs = append(diff.Programs, Change{Name: old.Name, Kind: ProgramRemoved, Program: old})
		case old == nil:
			diff.Programs = append(diff.Programs, Change{Name: next.Name, Kind: ProgramAdded, Program: next})
		default:
			diff.Programs = append(diff.Programs, CompareProgram(old, next))
		}
	})
	if before.Superd != after.Superd {
		diff.Superd = compareKeys("superd", superdEffects, &builder{superd: before.Superd}, &builder{superd: after.Superd})
	}
	old, next := &builder{control: before.Control, compat: before.Compat}, &builder{control: after.Control, compat: after.Compat}
	for _, table := range []string{"control", "compat"} {
		effects := controlEffects
		if table == "compat" {
			effects = compatEffects
		}
		for _, k := range compareKeys(table, effects, old, next) {
			k.Key = table + "." + k.Key
			diff.Superd = append(diff.Superd, k)
		}
	}
	for _, c := range receiver.Compare(before.Receivers, after.Receivers) {
		diff.Superd = append(diff.Superd, KeyChange{Key: receiver.Table + "." + c.Name, What: c.What})
	}
	return diff
}

// CompareProgram returns the changes of one program.
func CompareProgram(before, after *Program) Change {
	c := Change{Name: after.Name, Kind: Unchanged, Program: after}
	if before == after || before.equal(after) {
		return c
	}
	c.Keys = append(compareMistakes("program", before.Invalid, after.Invalid), compareKeys("program", effects(), before.builder(), after.builder())...)
	if before.LoggerOf != after.LoggerOf {
		c.Keys = append(c.Keys, KeyChange{Key: "log.command", What: "reads the output of another program", Restart: true})
	}
	if before.Enablement != after.Enablement && c.Key("autostart") == nil {
		c.Keys = append(c.Keys, KeyChange{Key: "autostart", What: enablement.Text(before.Enablement, after.Enablement)})
	}
	c.Keys = append(c.Keys, compareRolling(before.Rolling, after.Rolling)...)
	c.Keys = append(c.Keys, compareWatch(before.Watch, after.Watch)...)
	c.Kind = kindOf(c.Keys)
	return c
}

// kindOf returns what applying changes of keys requires.
func kindOf(changes []KeyChange) ChangeKind {
	if slices.ContainsFunc(changes, func(k KeyChange) bool { return k.Restart }) {
		return RestartNeeded
	}
	return AppliedLive
}

func (p *Program) equal(other *Program) bool {
	if !slices.EqualFunc(p.Invalid, other.Invalid, sameMistake) {
		return false
	}
	a, b := *p, *other
	for _, program := range []*Program{&a, &b} {
		program.Invalid, program.File, program.Line = nil, "", 0
	}
	return reflect.DeepEqual(a, b)
}

func sameMistake(a, b *KeyError) bool { return a.Key == b.Key && a.Err.Error() == b.Err.Error() }

// builder returns a builder that holds the program's values.
func (p *Program) builder() *builder {
	d := builtin()
	d.Program = *p
	if p.Ready != nil {
		d.ready = *p.Ready
	}
	if p.Health != nil {
		d.health = *p.Health
	}
	if p.Sandbox != nil {
		d.sandbox = *p.Sandbox
	}
	if p.Sockets != nil {
		d.sockets = *p.Sockets
	}
	if p.Rolling != nil {
		d.rolling = *p.Rolling
	}
	if p.Watch != nil {
		d.watch = *p.Watch
	}
	return d
}

// compareKeys compares a table key by key.
func compareKeys(table string, effects map[string]effect, before, after *builder) (changes []KeyChange) {
	all := keys()
	for i := range all {
		k := &all[i]
		if k.table != table || reflect.DeepEqual(k.get(before), k.get(after)) {
			continue
		}
		restart := effects[k.name] == withNextRun
		if k.name == "environment" { // values may be secrets
			changes = append(changes, compareEnvironments(before.Environment, after.Environment)...)
			continue
		}
		if effects[k.name] == counted {
			// The name web becomes web@1.
			restart = (before.Replicas == 1) != (after.Replicas == 1) && before.Replicas*after.Replicas > 0
		}
		c := KeyChange{Key: k.name, Old: k.shown(before), New: k.shown(after), Restart: restart}
		if c.Old == c.New {
			c.Old, c.New, c.What = "", "", "changed"
		}
		changes = append(changes, c)
	}
	return changes
}

// compareEnvironments returns which variables differ, without their values.
func compareEnvironments(before, after map[string]string) (changes []KeyChange) {
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, both := before[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		was, had := before[name]
		is, has := after[name]
		what := "changed"
		switch {
		case had && has && was == is:
			continue
		case !had:
			what = "added"
		case !has:
			what = "removed"
		}
		changes = append(changes, KeyChange{Key: "environment." + name, What: what, Restart: true})
	}
	return changes
}

// compareMistakes returns the mistakes that a program or socket, of that table, has gained or lost.
// Both kinds need a restart.
func compareMistakes(table string, before, after Errors) (changes []KeyChange) {
	addMissing := func(these, others Errors, change func(*KeyError) KeyChange) {
		for _, mistake := range these {
			if slices.ContainsFunc(others, func(other *KeyError) bool { return sameMistake(mistake, other) }) {
				continue
			}
			key := mistake.Key
			if of, inTable, _ := strings.Cut(key, "."); of == table {
				name, own, _ := strings.Cut(inTable, ".")
				key = cmp.Or(own, name)
			}
			c := change(mistake)
			c.Key, c.Restart = key, true
			changes = append(changes, c)
		}
	}
	addMissing(before, after, func(*KeyError) KeyChange {
		return KeyChange{What: "corrected", Corrected: true}
	})
	addMissing(after, before, func(mistake *KeyError) KeyChange {
		return KeyChange{What: "has a mistake: " + mistake.Err.Error()}
	})
	return changes
}
