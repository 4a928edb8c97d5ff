package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// builtin returns what holds where the file says nothing.
func builtin() *draft {
	d := &draft{superd: Superd{ExitWhen: ExitNever}}
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
			KillMode:     KillTree,
			Log: Log{
				Format: LogRaw, MaxSize: 10_000_000, Keep: 10, Stderr: StderrMerge, Overflow: OverflowBlock, Sink: SinkFile, Facility: "daemon",
			},
		},
	}
	d.ready = Ready{Interval: time.Second, Timeout: 2 * time.Second}
	d.health = Health{Interval: 10 * time.Second, Timeout: 2 * time.Second, Failures: 3, Action: HealthRestart}
	return d
}

// DefaultProgram returns a program of that name of which the file says nothing.
func DefaultProgram(name string) *Program {
	p := builtin().Program
	p.Name = name
	return &p
}

// A draft is a program (or [defaults], or the top of the file) while it is read.
type draft struct {
	Program
	ready   Ready
	health  Health
	superd  Superd
	include []string

	parent *draft           // holds what is not set here; nil for the built-in one
	self   value            // the table
	set    map[string]value // what is set here, by dotted name
	meant  []string         // keys that unknown ones were probably meant to be
}

// child returns a draft in which all is as in d until something is set.
func (d *draft) child(self value) *draft {
	c := *d
	c.Program = *d.Program.Clone()
	c.parent, c.self, c.set, c.meant, c.Invalid = d, self, map[string]value{}, slices.Clip(d.meant), nil
	return &c
}

// isSet reports whether the table itself sets one of the keys.
func (d *draft) isSet(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := d.set[name]; return ok })
}

// blame returns where a mistake is to be shown: at the first of the keys that the table itself sets, else at the first
// that [defaults] set, else at the table.
func (d *draft) blame(names ...string) value {
	for from := d; from != nil; from = from.parent {
		for _, name := range names {
			if v, ok := from.set[name]; ok {
				return v
			}
		}
	}
	return d.self
}

// decode reads a table of a file into d. prefix is "" or that of a table within the table, as in "backoff.".
func (v value) decode(d *draft, table, prefix string) {
	entries, ok := v.raw.(map[string]any)
	if !ok {
		v.fail("must be a table, got %s", v.describe())
		return
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry, full := v.kid(name), prefix+name
		k := findKey(table, full)
		switch {
		case strings.Contains(name, ".") && k != nil:
			entry.failKey("unknown key %s: write %s without quotes", shorten(name), name)
		case k != nil:
			entry.decodeKey(d, k)
		case len(subkeys(table, full+".")) > 0:
			d.set[full] = entry
			d.dropProbe(full, entry)
			entry.decode(d, table, full+".")
		default:
			d.meant = append(d.meant, prefix+entry.unknown(table, prefix))
		}
	}
}

func (v value) decodeKey(d *draft, k *key) {
	d.set[k.name] = v
	k.set(d, v)
}

// The keys of a ready or health table of which one says how to check.
var (
	readyChecks  = []string{"ready.notify", "ready.fd", "ready.line", "ready.tcp", "ready.http", "ready.exec"}
	healthChecks = []string{"health.tcp", "health.http", "health.exec"}
)

// dropProbe drops the check that [defaults] chose where the table of the program chooses one.
func (d *draft) dropProbe(name string, table value) {
	entries, _ := table.raw.(map[string]any)
	chooses := func(checks []string) bool {
		return slices.ContainsFunc(checks, func(check string) bool {
			_, ok := entries[strings.TrimPrefix(check, name+".")]
			return ok
		})
	}
	switch {
	case name == "ready" && chooses(readyChecks):
		d.ready = Ready{Interval: d.ready.Interval, Timeout: d.ready.Timeout}
	case name == "health" && chooses(healthChecks):
		d.health = Health{Interval: d.health.Interval, Timeout: d.health.Timeout, Failures: d.health.Failures, Action: d.health.Action}
	}
}

// settle completes a program once its table is read.
func (d *draft) settle() {
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
	if d.Directory == "" {
		d.Directory = escapeDollars(d.self.src.dir)
	}
	if d.Log.File == d.Name+".log" && d.Replicas == 1 {
		d.Log.File = "" // as it is anyway
	}
	if d.Log.Sink == SinkStdout && !d.anySet("log.format") {
		d.Log.Format = LogText
	}
	d.SuccessExitCodes = slices.Compact(slices.Sorted(slices.Values(d.SuccessExitCodes)))
}

// unknown reports a key that its table doesn't have, with the nearest one that exists, and returns that if it is one of
// the same table.
func (v value) unknown(table, prefix string) (meant string) {
	name := v.key[len(v.key)-1]
	here := subkeys(table, prefix)
	if table == "" {
		here = append(here, "superd", "defaults", "program")
	}
	if nearest := Nearest(name, here); nearest != "" {
		v.failKey("unknown key %s: did you mean %q?", shorten(name), nearest)
		return nearest
	}
	// Then one that belongs elsewhere, by its full name or the last part of it.
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
	nearest := Nearest(name, names)
	switch k := at[nearest]; {
	case nearest != "" && k.name == name:
		v.failKey("unknown key %s: it belongs %s", shorten(name), home(k.table))
	case nearest != "":
		v.failKey("unknown key %s: did you mean %q %s?", shorten(name), k.name, home(k.table))
	case len(here) > few:
		v.failKey("unknown key %s: see the reference for those that exist", shorten(name))
	default:
		quoted := make([]string, len(here))
		for i, known := range here {
			quoted[i] = strconv.Quote(known)
		}
		v.failKey("unknown key %s: it can be %s here", shorten(name), oneOf(quoted))
	}
	return ""
}

// home says where the keys of a table are written.
func home(table string) string {
	switch table {
	case "":
		return "at the top of the file"
	case "superd":
		return "in [superd]"
	}
	return "in [program.NAME] or [defaults]"
}
