package draft

import (
	"errors"
	"slices"
)

// Include turns the document into one for a file that another configuration includes: what its
// [defaults] sets, each program sets itself. Such a file has no [superd] and no [compat] table:
// their keys become notes, which name the source file from.
func (d *Document) Include(from string) error {
	if d.Text != "" {
		return errors.New("make a file for include: the source has a configuration as a whole")
	}
	for _, t := range []struct {
		name  string
		table *Table
	}{{"superd", d.Superd}, {"compat", d.Compat}} {
		t.table.Flush()
		for _, e := range t.table.entries {
			d.Note(Place{File: from}, t.name+"."+e.key,
				"an included file can't have it: write %s = %s into the table [%s] of the file that includes it",
				e.key, value(e.value), t.name)
		}
	}
	d.Defaults.Flush()
	d.Head = append(d.Head, d.Defaults.Comments...)
	for _, p := range d.Programs {
		p.inherit(d.Defaults)
	}
	d.Superd, d.Compat, d.Defaults = &Table{}, &Table{}, &Table{}
	return nil
}

// inherit sets what t would have of [defaults].
func (t *Table) inherit(defaults *Table) {
	t.Flush()
	for _, e := range defaults.entries {
		switch vars, isVars := e.value.(Vars); {
		case isVars:
			own, _ := t.Get(e.key).(Vars)
			all := slices.Clone(vars)
			for _, v := range own {
				all.Set(v.Name, v.Value)
			}
			t.Set(e.key, all)
		case t.excludes(e.key):
		case !t.Has(e.key):
			t.Set(e.key, e.value)
			t.Trailing(e.key, e.trailing)
		}
	}
}

// excludes reports whether superd refuses a key in a table with the other keys of t, where the same
// key of [defaults] has no effect.
func (t *Table) excludes(key string) bool {
	switch topOf(key) {
	case "restart":
		return t.Get("type") == "oneshot" || t.Has("accept")
	case "backoff", "start_limit":
		return t.Has("accept")
	case "log":
		return key == "log.max_size" && (t.Has("log.sink") || t.Get("log.format") == "direct")
	}
	return false
}
