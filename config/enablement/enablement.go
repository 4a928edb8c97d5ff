// Package enablement is the file beside a configuration that has what operators have decided by
// `superd ctl enable` and `superd ctl disable`: whether programs start with superd.
package enablement

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"superd/config/document"
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
// is removed. It may block.
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
		if err = os.Remove(path); err == nil {
			err = syncDirectory(filepath.Dir(path))
		}
		return withoutPath(err)
	}
	return withoutPath(replaceFile(path, text))
}

// replaceFile writes a file with that text in place of the one at path. A link is replaced, too,
// and never followed.
func replaceFile(path, text string) (err error) {
	const mode = 0o644
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	if _, err = file.WriteString(text); err != nil {
		return err
	}
	if err = errors.Join(file.Chmod(mode), file.Sync()); err != nil {
		return err
	}
	if err = file.Close(); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
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
		fmt.Fprintf(&b, "%q = %t\n", name, all[name])
	}
	return b.String(), nil
}
