package receiver

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"superd/config/codec"
	"superd/config/document"
	"superd/internal/words"
)

// A Context is what the tables of receivers are checked against.
type Context struct {
	CheckName func(what, name string) error
	Names     []string // of programs and groups
	// Examines a file, which may block; nil: files are not examined
	Stat func(path string) (fs.FileInfo, error)
	// Warns of a user that is not on this machine; nil: users are not checked
	CheckUser func(v codec.Value, name string)
}

// Read reads the tables, in their order, and returns the receivers sorted by name. Those with an
// unusable name are left out.
func Read(tables []codec.Value, c Context) []*Receiver {
	all, places := map[string]*Receiver{}, map[string]codec.Value{}
	for _, table := range tables {
		name := table.Key[len(table.Key)-1]
		r := builtin()
		r.Name, r.Dir, r.File, r.Line = name, table.Dir, table.Document.Name, table.Line()
		if first := all[name]; first != nil {
			table.Owner = &first.Invalid
			table.FailKey("is already defined at %s: rename one of them",
				places[name].KeyMistake("").Position())
			continue
		}
		all[name], places[name] = r, table
		table.Owner = &r.Invalid
		if err := c.CheckName("receiver", name); err != nil {
			table.FailKey("%w", err)
			delete(all, name)
		}
		r.read(table, c)
	}
	return slices.SortedFunc(maps.Values(all),
		func(a, b *Receiver) int { return strings.Compare(a.Name, b.Name) })
}

// read reads one table into r.
func (r *Receiver) read(table codec.Value, c Context) {
	entries, isTable := table.Raw.(map[string]any)
	if !isTable {
		table.Fail("must be a table, got %s", table.Describe())
		return
	}
	known := Keys()
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.Name
	}
	set := map[string]codec.Value{}
	meant := map[string]bool{} // keys that unknown keys were probably meant to be
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry := table.Entry(name)
		i := slices.Index(names, name)
		if i < 0 {
			nearest := words.Nearest(name, names)
			meant[nearest] = true
			entry.FailKey("unknown key %s%s", document.Quote(name),
				words.DidYouMean(name, names, ": it can be "+words.OneOf(names)+" here"))
			continue
		}
		set[name] = entry
		known[i].set(r, entry)
	}
	r.checkTarget(table, set, meant)
	r.checkPrograms(set["programs"], c.Names)
	if at, ok := set["on"]; ok && len(r.On) == 0 {
		if items, isArray := at.Items(); isArray && len(items) == 0 {
			at.Fail("names no condition: write one such as %q, or remove the key", Failed)
		}
	}
	if r.User != "" && c.CheckUser != nil {
		c.CheckUser(set["user"], r.User)
	}
	r.checkSecret(set["secret_file"], c.Stat)
}

// checkTarget refuses both and none of exec and webhook, and keys that belong to the other one.
func (r *Receiver) checkTarget(table codec.Value, set map[string]codec.Value, meant map[string]bool) {
	exec, hasExec := set["exec"]
	_, hasURL := set["webhook"]
	switch {
	case hasExec && hasURL:
		exec.FailKey("excludes webhook: remove one of them, or make two receivers")
		return
	case !hasExec && !hasURL:
		if !meant["exec"] && !meant["webhook"] {
			table.FailKey(`has nobody to tell: write exec = ["COMMAND"], or webhook = "https://…"`)
		}
		return
	}
	if user, ok := set["user"]; ok && hasURL {
		user.FailKey("has no meaning without exec: remove it")
	}
	if secret, ok := set["secret_file"]; ok && hasExec {
		secret.FailKey("has no meaning without webhook: remove it")
	}
}

// checkPrograms refuses names that select nothing.
func (r *Receiver) checkPrograms(at codec.Value, names []string) {
	items, _ := at.Items()
	for i, name := range r.Programs {
		program, _, _ := strings.Cut(name, "@")
		switch {
		case i >= len(items) || slices.Contains(names, program):
		case IsGlob(name):
			if !slices.ContainsFunc(names, func(n string) bool { return Matches(name, n) }) {
				items[i].Warn("%s matches no program now", document.Quote(name))
			}
		default:
			items[i].Fail("there is no program, instance or group %s%s", document.Quote(name),
				words.DidYouMean(name, names, ": add it, or remove it here"))
		}
	}
}

// checkSecret warns of a secret that others may read, or that is missing.
func (r *Receiver) checkSecret(at codec.Value, stat func(string) (fs.FileInfo, error)) {
	if r.SecretFile == "" || stat == nil {
		return
	}
	if info, err := stat(r.SecretFile); err != nil {
		at.Warn("%s can't be examined on this machine: %w: make it, with mode 600", r.SecretFile, err)
	} else if err := CheckSecret(r.SecretFile, info); err != nil {
		at.Warn("%w", err)
	}
}

// MaxSecret is how many bytes a file with a secret may have.
const MaxSecret = 4 << 10

// CheckSecret returns why a secret must not be in a file with these properties; nil if it may. The
// file is to belong to superd's user or to root.
func CheckSecret(path string, info fs.FileInfo) error {
	mode := info.Mode()
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file: write the secret into one", path)
	case mode.Perm()&0o077 != 0:
		return fmt.Errorf("%s can be read by others (mode %04o): chmod 600 it", path, mode.Perm())
	case known && owner.Uid != 0 && int64(owner.Uid) != int64(os.Geteuid()):
		return fmt.Errorf("%s belongs to the user with the id %d: chown it to superd's user", path, owner.Uid)
	case info.Size() > MaxSecret:
		return fmt.Errorf("%s has %d bytes: a secret has at most %d", path, info.Size(), MaxSecret)
	}
	return nil
}

// IsGlob reports whether a name in programs is a glob.
func IsGlob(name string) bool { return strings.ContainsAny(name, `*?[\`) }

// Matches reports whether a glob matches a name.
func Matches(glob, name string) bool {
	ok, err := path.Match(glob, name)
	return ok && err == nil
}

// A Change is how a receiver differs between two configurations.
type Change struct {
	Name string
	What string // such as "added"
}

// Compare returns the differences between two sorted lists. It shows no values: a URL may be
// secret.
func Compare(before, after []*Receiver) (changes []Change) {
	find := func(all []*Receiver, name string) *Receiver {
		if i := slices.IndexFunc(all, func(r *Receiver) bool { return r.Name == name }); i >= 0 {
			return all[i]
		}
		return nil
	}
	for _, old := range before {
		next := find(after, old.Name)
		if next == nil {
			changes = append(changes, Change{old.Name, "removed"})
			continue
		}
		keys := differences(old, next)
		switch wrong := len(next.Invalid) > 0; {
		case wrong && len(old.Invalid) == 0:
			changes = append(changes, Change{old.Name, "has a mistake: " + next.Invalid[0].Err.Error()})
		case !wrong && len(old.Invalid) > 0:
			changes = append(changes, Change{old.Name, "corrected"})
		case len(keys) > 0:
			changes = append(changes, Change{old.Name, "changed: " + strings.Join(keys, ", ")})
		case old.Dir != next.Dir:
			changes = append(changes, Change{old.Name, "changed: in " + strconv.Quote(next.Dir)})
		}
	}
	for _, next := range after {
		if find(before, next.Name) == nil {
			changes = append(changes, Change{next.Name, "added"})
		}
	}
	return changes
}

// Same reports whether two receivers mean the same.
func Same(a, b *Receiver) bool {
	return len(Compare([]*Receiver{a}, []*Receiver{b})) == 0 && a.Dir == b.Dir
}
