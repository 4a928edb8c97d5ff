// Package systemd imports units of systemd: services with their sockets, timers and drop-ins.
//
// The keys are those of systemd 252.
package systemd

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"superd/importer/draft"
)

// An assignment is a line KEY=VALUE of a unit.
type assignment struct {
	section, key, value string
	at                  draft.Place
	comments            []string
}

func (a assignment) name() string { return a.section + "." + a.key }

// A unit is a unit file with its drop-ins, in the order in which systemd reads them.
type unit struct {
	name        string // with its suffix: "web.service"
	path        string
	assignments []assignment
	head        []string // comments above the first section
}

// load reads the unit at path and its drop-ins, which are beside it.
func load(system draft.System, doc *draft.Document, path string) (*unit, error) {
	file := path
	text, err := system.ReadFile(path)
	if prefix, instance, ok := strings.Cut(filepath.Base(path), "@"); ok && errors.Is(err, fs.ErrNotExist) {
		// An instance of a template.
		file = filepath.Join(filepath.Dir(path), prefix+"@"+filepath.Ext(instance))
		text, err = system.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	u := &unit{name: filepath.Base(path), path: path}
	u.read(doc, file, string(text))
	dropIns, err := u.dropIns(system)
	if err != nil {
		return nil, err
	}
	for _, file := range dropIns {
		text, err := system.ReadFile(file)
		if err != nil { // also a link to /dev/null, by which an administrator disables one
			doc.Note(draft.Place{File: file}, "", "it is left out: %v", err)
			continue
		}
		u.read(doc, file, string(text))
	}
	return u, nil
}

// unitDirs are the directories of the units of a machine. A file in an earlier one replaces those
// of its name in later ones.
var unitDirs = []string{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
	"/usr/lib/systemd/system", "/lib/systemd/system"}

// dropIns returns the drop-ins of a unit in their order: those beside it and, if it is one of the
// machine, those in all directories of units. Besides its own name, those of its template, of its
// prefixes ("a-b.service" has "a-.service.d") and of its type count.
//
// Source: systemd.unit(5).
func (u *unit) dropIns(system draft.System) (files []string, err error) {
	ext := filepath.Ext(u.name)
	names := []string{u.name}
	prefix := strings.TrimSuffix(u.name, ext)
	if before, _, ok := strings.Cut(prefix, "@"); ok {
		names, prefix = append(names, before+"@"+ext), before
	}
	for dash := strings.LastIndexByte(prefix, '-'); dash > 0; dash = strings.LastIndexByte(prefix[:dash], '-') {
		names = append(names, prefix[:dash+1]+ext)
	}
	names = append(names, ext[1:])

	dirs := []string{filepath.Dir(u.path)}
	if abs, err := filepath.Abs(dirs[0]); err == nil && slices.Contains(unitDirs, abs) {
		dirs = unitDirs
	}
	seen := map[string]bool{}
	for _, name := range names {
		for _, dir := range dirs {
			found, err := system.Glob(filepath.Join(escapeGlob(dir), escapeGlob(name)+".d", "*.conf"))
			if err != nil {
				return nil, err
			}
			for _, file := range found {
				if base := filepath.Base(file); !seen[base] {
					seen[base] = true
					files = append(files, file)
				}
			}
		}
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return files, nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer("[", `\[`, "*", `\*`, "?", `\?`).Replace(path)
}

// read adds the assignments of a file.
func (u *unit) read(doc *draft.Document, file, text string) {
	section := ""
	var comments []string
	text, _ = draft.CutMark([]byte(text))
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		at := draft.Place{File: file, Line: i + 1}
		line := strings.TrimSpace(lines[i])
		if line == "" {
			if section == "" && len(comments) > 0 {
				u.head = append(u.head, comments...)
				comments = nil
			}
			continue
		}
		if line[0] == '#' || line[0] == ';' {
			comments = append(comments, strings.TrimPrefix(strings.TrimLeft(line, "#;"), " "))
			continue
		}
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			next := strings.TrimSpace(lines[i])
			if next != "" && (next[0] == '#' || next[0] == ';') {
				continue // a comment within a line that is continued
			}
			line = strings.TrimSuffix(line, `\`) + " " + next
		}
		line = strings.TrimSpace(strings.TrimSuffix(line, `\`))
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = line[1 : len(line)-1]
			continue
		}
		if strings.HasPrefix(line, "[") {
			doc.Note(at, "", "systemd refuses the unit: %q does not end with ]", line)
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || section == "" {
			doc.Note(at, "", "systemd ignores the line: it is not of the form KEY=VALUE in a section")
			continue
		}
		u.assignments = append(u.assignments,
			assignment{section, strings.TrimSpace(key), strings.TrimSpace(value), at, comments})
		comments = nil
	}
}

// get returns the last value of a key that is one value.
func (u *unit) get(section, key string) string {
	value := ""
	for _, a := range u.assignments {
		if a.section == section && a.key == key {
			value = a.value
		}
	}
	return value
}

// has reports whether a section is there.
func (u *unit) has(section string) bool {
	return slices.ContainsFunc(u.assignments, func(a assignment) bool { return a.section == section })
}

// effective returns the assignments that count: of a list those behind its last reset, of another
// key the last one. An empty CapabilityBoundingSet= counts, too: it leaves none.
func (u *unit) effective() []assignment {
	var all []assignment
	for i, a := range u.assignments {
		later := slices.ContainsFunc(u.assignments[i+1:], func(b assignment) bool {
			return b.section == a.section && b.key == a.key && (b.value == "" || !isList(a.key))
		})
		if (a.value != "" || a.key == "CapabilityBoundingSet") && !later {
			all = append(all, a)
		}
	}
	return all
}

// isList reports whether several assignments of a key add up, which an empty one resets.
func isList(key string) bool {
	return strings.HasPrefix(key, "Exec") || strings.HasPrefix(key, "Condition") ||
		strings.HasPrefix(key, "Assert") || strings.HasPrefix(key, "Listen") || strings.HasPrefix(key, "On") ||
		slices.Contains(lists, key)
}

var lists = strings.Fields(`Environment EnvironmentFile PassEnvironment UnsetEnvironment Requires Wants
	BindsTo Requisite PartOf After Before Conflicts SupplementaryGroups CapabilityBoundingSet
	AmbientCapabilities ReadOnlyPaths ReadWritePaths InaccessiblePaths ExecPaths NoExecPaths BindPaths
	BindReadOnlyPaths TemporaryFileSystem SystemCallFilter SystemCallArchitectures
	RestrictAddressFamilies RuntimeDirectory StateDirectory CacheDirectory LogsDirectory
	ConfigurationDirectory SuccessExitStatus RestartPreventExitStatus RestartForceExitStatus
	Documentation WantedBy RequiredBy Also Alias CPUAffinity IOReadBandwidthMax IOWriteBandwidthMax
	IOReadIOPSMax IOWriteIOPSMax DeviceAllow Sockets Service LoadCredential SetCredential
	IPAddressAllow IPAddressDeny RestrictNamespaces`)
