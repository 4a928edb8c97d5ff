package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"superd/control"
)

// An id names an instance: sources may have programs of the same name.
type id struct {
	source int // index in Options.Sources
	name   string
}

// A program is a row of the table.
type program struct {
	id
	host   string
	state  string // the newest; status may be older
	pid    int    // likewise; 0: none
	status control.Status
	readAt time.Time // when status was read; zero: not yet
	cpu    float64   // percent of one processor since the reading before; negative: unknown
	marked bool
}

// unhealthy reports whether the health check of a program has failed.
func (p *program) unhealthy() bool { return p.status.Healthy != nil && !*p.status.Healthy }

// memory returns its resident bytes, 0 if unknown.
func (p *program) memory() int64 {
	if p.status.RSS == nil {
		return 0
	}
	return *p.status.RSS
}

// since returns when it entered its state; zero: unknown.
func (p *program) since() time.Time {
	if p.status.Since == nil {
		return time.Time{}
	}
	return *p.status.Since
}

// An order is what the table is sorted by.
type order int

const (
	byName order = iota
	byState
	byCPU
	byMemory
	byRestarts
	bySince
	orderCount
)

// String returns the name shown in the header.
func (o order) String() string {
	return [...]string{"name", "state", "cpu", "memory", "restarts", "time"}[o]
}

// live reports whether an order depends on values of rows that are not visible.
func (o order) live() bool { return o != byName && o != byState }

// severity orders states: what needs attention comes first.
func severity(p *program) int {
	switch p.state {
	case control.StateFailed:
		return 0
	case control.StateBackoff:
		return 1
	case control.StateRunning:
		if p.unhealthy() {
			return 2
		}
		return 6
	case control.StateStopping:
		return 3
	case control.StateStarting:
		return 4
	case control.StateWaiting:
		return 5
	case control.StateExited:
		return 7
	}
	return 8
}

// compare orders two programs. Equal ones, and those of byName, are ordered by name.
func (o order) compare(a, b *program) int {
	switch o {
	case byState:
		return cmp.Compare(severity(a), severity(b))
	case byCPU:
		return cmp.Compare(b.cpu, a.cpu)
	case byMemory:
		return cmp.Compare(b.memory(), a.memory())
	case byRestarts:
		return cmp.Compare(b.status.Restarts, a.status.Restarts)
	case bySince:
		return b.since().Compare(a.since())
	default:
		return 0
	}
}

// A list holds all programs, and which of them are shown in which order.
type list struct {
	all      map[id]*program
	shown    []*program
	filter   string
	order    order
	reversed bool
}

func newList() *list { return &list{all: map[id]*program{}} }

// setBrief takes over the newest states of all programs of a source. It returns the names of those
// that are new or have changed. Programs that are missing are removed.
func (l *list) setBrief(source int, host string, all []control.Brief) (changed []string) {
	present := make(map[string]bool, len(all))
	for _, b := range all {
		present[b.Name] = true
		key := id{source, b.Name}
		pid := 0
		if b.Pid != nil {
			pid = *b.Pid
		}
		p := l.all[key]
		switch {
		case p == nil:
			l.all[key] = &program{id: key, host: host, state: b.State, pid: pid, cpu: -1}
		case p.state == b.State && p.pid == pid:
			continue
		default:
			if p.pid != pid {
				p.cpu = -1
			}
			p.state, p.pid = b.State, pid
		}
		changed = append(changed, b.Name)
	}
	for key := range l.all {
		if key.source == source && !present[key.name] {
			delete(l.all, key)
		}
	}
	return changed
}

// setStatus takes over statuses that were read at a time, and reports whether anything shown is
// different.
func (l *list) setStatus(source int, all []control.Status, at time.Time) (differs bool) {
	for i := range all {
		s := &all[i]
		p := l.all[id{source, s.Name}]
		if p == nil {
			continue // the watch has not told it yet, or no longer
		}
		cpu := -1.0
		old := &p.status
		if !p.readAt.IsZero() && s.CPU != nil && old.CPU != nil && samePid(s.Pid, old.Pid) {
			if d := at.Sub(p.readAt).Seconds(); d > 0 {
				cpu = max(0, (*s.CPU-*old.CPU)/d*100)
			}
		}
		differs = differs || p.readAt.IsZero() || int(cpu*10) != int(p.cpu*10) || !sameShown(s, old)
		p.cpu, p.status, p.readAt = cpu, *s, at
	}
	return differs
}

func samePid(a, b *int) bool { return a != nil && b != nil && *a == *b }

// sameShown reports whether two statuses of an instance look the same, but for the processor time.
func sameShown(a, b *control.Status) bool {
	return a.State == b.State && a.Restarts == b.Restarts && same(a.Pid, b.Pid) && same(a.RSS, b.RSS) &&
		same(a.Healthy, b.Healthy) && same(a.Reason, b.Reason) && same(a.LastLine, b.LastLine) &&
		same(a.StatusText, b.StatusText)
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// arrange filters and sorts the programs.
func (l *list) arrange() {
	words := strings.Fields(strings.ToLower(l.filter))
	l.shown = l.shown[:0]
	for _, p := range l.all {
		if p.matches(words) {
			l.shown = append(l.shown, p)
		}
	}
	slices.SortFunc(l.shown, func(a, b *program) int {
		first := l.order.compare(a, b)
		if l.order == byName {
			first = compareNames(a, b)
		}
		if l.reversed {
			first = -first
		}
		return cmp.Or(first, compareNames(a, b))
	})
}

func compareNames(a, b *program) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.source, b.source))
}

// matches reports whether each word is in the name, the groups, the state or the host of a program,
// or is a subsequence of its name.
func (p *program) matches(words []string) bool {
	for _, w := range words {
		isIn := func(text string) bool { return strings.Contains(strings.ToLower(text), w) }
		if !isIn(p.name) && !isIn(p.state) && !isIn(p.host) && !slices.ContainsFunc(p.status.Groups, isIn) &&
			!isSubsequence(w, strings.ToLower(p.name)) {
			return false
		}
	}
	return true
}

// isSubsequence reports whether text has the characters of word in their order.
func isSubsequence(word, text string) bool {
	rest := []rune(word)
	for _, c := range text {
		if len(rest) > 0 && rest[0] == c {
			rest = rest[1:]
		}
	}
	return len(rest) == 0
}

// marked returns the marked programs, by name.
func (l *list) marked() (all []*program) {
	for _, p := range l.all {
		if p.marked {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, compareNames)
	return all
}
