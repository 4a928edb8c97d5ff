package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"superd/config/codec"
	"superd/config/document"
	"superd/config/filewatch"
	"superd/config/pages"
	"superd/config/receiver"
	"superd/internal/words"
	"superd/sandbox"
)

// builtin returns a builder with the built-in defaults.
func builtin() *builder {
	d := &builder{superd: Superd{ExitWhen: ExitNever}, web: pages.Settings{Listen: pages.DefaultListen}}
	d.Program = Program{
		Settings: &Settings{
			InheritEnvironment: true,
			Replicas:           1,
			Type:               TypeService,
			ScheduleMissed:     MissedOnce,
			Autostart:          true,
			Restart:            RestartAlways,
			SuccessExitCodes:   []int{0},
			Backoff: Backoff{
				Initial: 100 * time.Millisecond, Max: time.Minute, Factor: 2, Jitter: 0.1, ResetAfter: 10 * time.Second,
			},
			StartLimit:   StartLimit{Failures: 0, Within: time.Minute, RetryAfter: 10 * time.Minute},
			StartTimeout: 30 * time.Second,
			StopSignal:   syscall.SIGTERM,
			StopTimeout:  10 * time.Second,
			KillMode:     KillMainFirst,
			Log: Log{
				Format: LogRaw, MaxSize: 10_000_000, Keep: 10, Stderr: StderrMerge, Overflow: OverflowBlock, Sink: SinkFile, Facility: "daemon",
			},
		},
	}
	d.ready = Ready{Interval: time.Second, Timeout: 2 * time.Second}
	d.health = Health{Interval: 10 * time.Second, Timeout: 2 * time.Second, Failures: 3, Action: HealthRestart}
	d.sandbox = sandbox.Settings{Preset: sandbox.PresetNone}
	d.rolling = defaultRolling
	d.watch = filewatch.Default()
	d.sockets = ProgramSockets{Pass: PassSystemd, MaxConnections: defaultMaxConnections}
	d.socket.Backlog = defaultBacklog
	return d
}

// DefaultProgram returns a program of that name with the built-in defaults.
func DefaultProgram(name string) *Program {
	p := builtin().Program
	p.Name = name
	return &p
}

// A builder is a program or socket (or [defaults], or the top of the file) while it is read.
type builder struct {
	Program
	ready   Ready
	health  Health
	sandbox sandbox.Settings // without its preset filled in
	rolling Rolling
	watch   filewatch.Settings // its paths are those written
	sockets ProgramSockets
	socket  socketBuilder // of a [socket.NAME] table
	superd  Superd
	control Control
	compat  Compat
	web     pages.Settings
	include []string
	extends string // absolute

	parent *builder               // has the values not set here; nil for the built-in one
	self   codec.Value            // the table itself
	set    map[string]codec.Value // values set here, by dotted name
	meant  []string               // known keys that unknown keys were probably meant to be
}

// child returns a builder with the values of d, in which nothing is set yet.
func (d *builder) child(self codec.Value) *builder {
	c := *d
	c.Program = *d.Program.Clone()
	c.parent, c.self, c.set, c.meant, c.Invalid = d, self, map[string]codec.Value{}, slices.Clip(d.meant), nil
	return &c
}

// isSet reports whether the table itself sets one of the keys.
func (d *builder) isSet(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := d.set[name]; return ok })
}

// mistakeAt returns the position to report for a mistake: the first of the keys that the table
// itself sets, else the first that [defaults] sets, else the table.
func (d *builder) mistakeAt(names ...string) codec.Value {
	for from := d; from != nil; from = from.parent {
		for _, name := range names {
			if v, ok := from.set[name]; ok {
				return v
			}
		}
	}
	return d.self
}

// decode reads a table of a file into d. prefix is "", or that of a subtable, such as "backoff.".
func (d *builder) decode(v codec.Value, table, prefix string) {
	entries, ok := v.Raw.(map[string]any)
	if !ok {
		v.Fail("must be a table, got %s", v.Describe())
		return
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry, full := v.Entry(name), prefix+name
		k := findKey(table, full)
		switch {
		case strings.Contains(name, ".") && k != nil:
			entry.FailKey("unknown key %s: write %s without quotes", document.Quote(name), name)
		case k != nil:
			d.decodeKey(entry, k)
		case len(subkeys(table, full+".")) > 0:
			d.set[full] = entry
			d.dropProbe(full, entry)
			d.decode(entry, table, full+".")
		default:
			d.meant = append(d.meant, prefix+unknownKey(entry, table, prefix))
		}
	}
}

func (d *builder) decodeKey(v codec.Value, k *key) {
	d.set[k.name] = v
	k.set(d, v)
}

// Keys of a ready or health table that select the kind of check.
var (
	readyChecks  = []string{"ready.notify", "ready.fd", "ready.line", "ready.tcp", "ready.http", "ready.exec"}
	healthChecks = []string{"health.tcp", "health.http", "health.exec"}
)

// dropProbe removes the check that an earlier table selects, such as [defaults], if this table
// selects one.
func (d *builder) dropProbe(name string, table codec.Value) {
	entries, _ := table.Raw.(map[string]any)
	chooses := func(checks []string) bool {
		return slices.ContainsFunc(checks, func(check string) bool {
			_, ok := entries[strings.TrimPrefix(check, name+".")]
			return ok
		})
	}
	forget := func(checks []string) {
		maps.DeleteFunc(d.set, func(key string, _ codec.Value) bool { return slices.Contains(checks, key) })
	}
	switch {
	case name == "ready" && chooses(readyChecks):
		forget(readyChecks)
		d.ready = Ready{Interval: d.ready.Interval, Timeout: d.ready.Timeout}
	case name == "health" && chooses(healthChecks):
		forget(healthChecks)
		d.health = Health{Interval: d.health.Interval, Timeout: d.health.Timeout, Failures: d.health.Failures, Action: d.health.Action}
	}
}

// complete sets what depends on several keys, after the table of a program was read.
func (d *builder) complete() {
	if own := d.Environment; d.isSet("environment") {
		d.Environment = maps.Clone(d.parent.Environment)
		if d.Environment == nil {
			d.Environment = own
		} else {
			maps.Copy(d.Environment, own)
		}
	}
	if len(d.Environment) == 0 {
		d.Environment = nil
	}
	if d.Type == TypeOneshot && !d.isSet("restart") {
		d.Restart = RestartNever
	}
	if d.Directory == "" && d.sandbox.RootDirectory != "" {
		d.Directory = "/"
	}
	if d.Directory == "" {
		d.Directory = document.EscapeDollars(d.self.Dir)
	}
	if d.Log.File == d.Name+".log" && d.Replicas == 1 {
		d.Log.File = "" // the default
	}
	if d.Log.Sink == SinkStdout && !d.anySet("log.format") {
		d.Log.Format = LogText
	}
	d.SuccessExitCodes = sortedSet(d.SuccessExitCodes)
	d.NoRestartExitCodes = sortedSet(d.NoRestartExitCodes)
}

// unknownKey reports a key that its table does not have, and suggests the most similar one. It
// returns the suggestion if that is a key of the same table.
func unknownKey(v codec.Value, table, prefix string) (meant string) {
	name := v.Key[len(v.Key)-1]
	here := subkeys(table, prefix)
	if table == "" {
		here = append(here, "superd", "control", "compat", "web", "defaults", "program", "socket", receiver.Table)
	}
	for _, k := range keys() {
		if k.name == name && k.table != table {
			v.FailKey("unknown key %s: it belongs %s", document.Quote(name), tableHint(k.table))
			return ""
		}
	}
	if nearest := words.Nearest(name, here); nearest != "" {
		v.FailKey("unknown key %s: did you mean %q?", document.Quote(name), nearest)
		return nearest
	}
	// Second, keys of other tables, by full name or last part.
	var names []string
	at := map[string]key{}
	for _, k := range keys() {
		for _, n := range []string{k.name[strings.LastIndexByte(k.name, '.')+1:], k.name} {
			if _, ok := at[n]; !ok || n == k.name {
				at[n] = k
				names = append(names, n)
			}
		}
	}
	for _, k := range keys() {
		if first, _, nested := strings.Cut(k.name, "."); nested && at[first].name == "" {
			at[first] = key{table: k.table, name: first}
			names = append(names, first)
		}
	}
	const few = 12
	nearest := words.Nearest(name, names)
	switch k := at[nearest]; {
	case nearest != "" && k.name == name:
		v.FailKey("unknown key %s: it belongs %s", document.Quote(name), tableHint(k.table))
	case nearest != "":
		v.FailKey("unknown key %s: did you mean %q %s?",
			document.Quote(name), k.name, tableHint(k.table))
	case len(here) > few:
		v.FailKey("unknown key %s: see the reference for all keys", document.Quote(name))
	default:
		quoted := make([]string, len(here))
		for i, known := range here {
			quoted[i] = strconv.Quote(known)
		}
		v.FailKey("unknown key %s: it can be %s here", document.Quote(name), words.OneOf(quoted))
	}
	return ""
}

// tableHint returns text that says where to write the keys of a table.
func tableHint(table string) string {
	switch table {
	case "":
		return "at the top of the file"
	case "superd":
		return "in [superd]"
	case "control", "compat", "web":
		return "in [" + table + "]"
	case "socket":
		return "in [socket.NAME]"
	}
	return "in [program.NAME] or [defaults]"
}
