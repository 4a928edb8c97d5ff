package report

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"superd/control"
	"superd/internal/terminal"
)

// maxUnchanged is how many unchanged programs may have a row each.
const maxUnchanged = 20

// Differs reports whether a reload changes anything.
func Differs(r *control.ReloadResult) bool {
	return len(r.Added)+len(r.Removed)+len(r.Changed)+len(r.Superd)+len(r.Sockets) > 0
}

// Reload prints what a reload has done, or would do.
func Reload(w io.Writer, r *control.ReloadResult) error {
	if Differs(r) {
		if err := Table(w, reloadTable(r)); err != nil {
			return err
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "note: %s\n", OneLine(note))
	}
	last := ""
	switch {
	case !Differs(r):
		last = "nothing has changed"
	case r.DryRun:
		last = "dry run: nothing was done"
	default:
		return nil
	}
	_, err := fmt.Fprintln(w, last)
	return err
}

// reloadTable returns the change of each program and its reason. If more than maxUnchanged programs
// are unchanged, they share one row.
func reloadTable(r *control.ReloadResult) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{{Title: "PROGRAM"}, {Title: "CHANGE"}, {Title: "WHY"}}}
	add := func(name, change string, keys []control.KeyChange) {
		t.Add(terminal.Cell{Text: terminal.Sanitize(name)}, terminal.Cell{Text: change, Colour: changeColour(change)},
			terminal.Cell{Text: terminal.Sanitize(why(keys, change == control.ChangeRestart))})
	}
	if len(r.Superd) > 0 {
		add("[superd]", control.ChangeLive, r.Superd)
	}
	for _, c := range r.Sockets {
		text := why(c.Keys, c.Change == control.ChangeRestart)
		for _, part := range []struct {
			does      string
			addresses []string
		}{{"opens ", c.Opened}, {"closes ", c.Closed}} {
			if len(part.addresses) == 0 {
				continue
			}
			if text != "" {
				text += "; "
			}
			text += part.does + strings.Join(part.addresses, ", ")
		}
		t.Add(terminal.Cell{Text: "[socket." + c.Socket + "]"}, terminal.Cell{Text: c.Change, Colour: changeColour(c.Change)},
			terminal.Cell{Text: terminal.Sanitize(text)})
	}
	unchanged := 0
	for _, c := range r.Programs {
		if c.Change == control.ChangeUnchanged {
			unchanged++
		}
	}
	for _, c := range r.Programs {
		if c.Change != control.ChangeUnchanged || unchanged <= maxUnchanged {
			add(c.Program, c.Change, c.Keys)
		}
	}
	if unchanged > maxUnchanged {
		add(fmt.Sprintf("(%d others)", unchanged), control.ChangeUnchanged, nil)
	}
	return t
}

// why lists the keys that cause a change. In a restart, keys that would apply live are in brackets.
func why(keys []control.KeyChange, restart bool) string {
	keys = slices.SortedStableFunc(slices.Values(keys), func(a, b control.KeyChange) int {
		return cmp.Compare(rank(a), rank(b))
	})
	var text strings.Builder
	for _, k := range keys {
		if restart && !k.Restart && slices.ContainsFunc(keys, func(other control.KeyChange) bool { return other.Restart && other.Key == k.Key }) {
			continue // such as the new value of a corrected mistake
		}
		if text.Len() > 0 {
			text.WriteString("; ")
		}
		if restart && !k.Restart {
			text.WriteString("(live: " + k.Text + ")")
		} else {
			text.WriteString(k.Text)
		}
	}
	return text.String()
}

func rank(k control.KeyChange) int {
	if k.Restart {
		return 0
	}
	return 1
}

func changeColour(change string) terminal.Colour {
	switch change {
	case control.ChangeRestart, control.ChangeRemoved:
		return terminal.Yellow
	case control.ChangeAdded, control.ChangeLive:
		return terminal.Green
	}
	return terminal.Dim
}

// Diff prints the keys that differ, below the table that has them.
func Diff(w io.Writer, r *control.ReloadResult) error {
	colour := terminal.Detect(w, os.Getenv).Colour
	var text strings.Builder
	line := func(c terminal.Colour, format string, args ...any) {
		s := terminal.Sanitize(fmt.Sprintf(format, args...))
		if colour {
			s = c.Paint(s)
		}
		text.WriteString(s + "\n")
	}
	table := func(name, change string, keys []control.KeyChange) {
		line(terminal.Bold, "[%s] %s", name, change)
		for _, k := range keys {
			if k.Old == nil && k.New == nil {
				line(terminal.Yellow, "~ %s", k.Text)
			}
			if k.Old != nil {
				line(terminal.Red, "- %s = %s", k.Key, *k.Old)
			}
			if k.New != nil {
				line(terminal.Green, "+ %s = %s", k.Key, *k.New)
			}
		}
	}
	if len(r.Superd) > 0 {
		table("superd", control.ChangeLive, r.Superd)
	}
	for _, c := range r.Sockets {
		table("socket."+c.Socket, c.Change, c.Keys)
	}
	for _, c := range r.Programs {
		if c.Change != control.ChangeUnchanged {
			table("program."+c.Program, c.Change, c.Keys)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
