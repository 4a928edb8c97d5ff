// Package enablement is the file beside a configuration that has what operators have decided by
// `superd ctl enable` and `superd ctl disable`: whether programs start with superd.
package enablement

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"unicode"

	"superd/config/document"
	"superd/internal/safepath"
)

// A Decision is what an operator has decided about the key autostart of a program. It outlives
// superd, the machine's boot and a change of the configuration.
type Decision string

// The decisions; empty: the configuration decides.
const (
	Enabled  Decision = "enabled"
	Disabled Decision = "disabled"
)

// Of returns the decision for which a program starts with superd, or does not.
func Of(starts bool) Decision {
	if starts {
		return Enabled
	}
	return Disabled
}

// Text says what a change of the decision means where the program starts with superd as before.
func Text(before, after Decision) string {
	if after == "" {
		return fmt.Sprintf("no longer needs that it is %s by the operator", before)
	}
	return fmt.Sprintf("stays as before, as it is %s by the operator", after)
}

// File returns the path of the file for the configuration at path. No usual pattern of include
// matches it.
func File(path string) string { return path + ".autostart" }

// header begins each file.
const header = `# Written by superd ctl enable and superd ctl disable: whether programs start with superd, whatever
# their key autostart says. Remove a line to have the configuration decide.
`

// Changes say by program what becomes of its line; nil: it has none any more.
type Changes = map[string]*bool

// Save changes the file at path, durably and at once or not at all. A file that says nothing more
// is removed. A link at path is replaced, and never followed. It may block.
func Save(path string, changes Changes) error {
	if err := save(path, changes); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func save(path string, changes Changes) error {
	before, err := document.FileSystem().ReadEnv(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := Edit(path, before, changes)
	switch {
	case err != nil || text == before:
		return err
	case text == "":
		return withoutPath(safepath.RemoveFile(path))
	}
	const mode = 0o644
	return withoutPath(safepath.WriteFile(path, []byte(text), mode))
}

// withoutPath returns the cause alone: the caller adds the path.
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Edit returns the text of the file at path after changes; empty: it says nothing more.
func Edit(path, text string, changes Changes) (string, error) {
	all := map[string]bool{}
	if strings.TrimSpace(text) != "" {
		file, mistake := document.Parse(path, text)
		if mistake != nil {
			return "", mistake
		}
		table, _ := file.Top().Raw.(map[string]any)
		for name, value := range table {
			starts, ok := value.(bool)
			if !ok {
				return "", fmt.Errorf("%s is not true or false: correct it, or remove the file", document.Quote(name))
			}
			all[name] = starts
		}
	}
	for name, starts := range changes {
		if delete(all, name); starts != nil {
			all[name] = *starts
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	var b strings.Builder
	b.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s = %t\n", quoted(name), all[name])
	}
	return b.String(), nil
}

// quoted returns a key as a basic string of TOML, which has fewer escapes than one of Go.
func quoted(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range name {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsControl(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
