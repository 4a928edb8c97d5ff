package systemd

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/importer/draft"
)

// Import reads a unit, or all services in a directory. dir is as in [draft.Document], although
// units have no relative paths.
func Import(system draft.System, path, dir string) (*draft.Document, error) {
	doc := draft.New(dir)
	services := []string{path}
	if system.IsDir(path) {
		var err error
		if services, err = system.Glob(filepath.Join(escapeGlob(path), "*.service")); err != nil {
			return nil, err
		}
		if len(services) == 0 {
			return nil, fmt.Errorf("read %s: there is no file *.service", path)
		}
	}
	i := importing{system: system, doc: doc, units: map[string]*draft.Table{}}
	defaults(doc.Defaults)
	for _, service := range services {
		if err := i.file(service); err != nil {
			return nil, err
		}
	}
	for _, s := range i.services {
		s.dependencies(i.units)
	}
	return doc, nil
}

// defaults sets what systemd does unless a unit says otherwise, as far as superd can.
func defaults(t *draft.Table) {
	t.Comments = []string{
		"What systemd does unless a unit says otherwise. Three things differ: start_limit counts the",
		"failures, where systemd counts all starts; output goes to files below log_dir, where systemd",
		`has the journal (log.sink = "journald"); and LANG of /etc/locale.conf is not set.`,
	}
	t.Set("directory", "/")
	t.Set("environment", draft.Vars{{Name: "PATH", Value: "${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin}"}})
	t.Set("inherit_environment", false)
	t.Set("umask", "0022")
	t.Set("start_timeout", draft.Seconds(90))
	t.Set("stop_timeout", draft.Seconds(90))
	t.Set("kill_mode", "tree")
	pause(t, draft.Seconds(0.1))
	t.Set("start_limit.failures", defaultBurst)
	t.Set("start_limit.within", draft.Seconds(defaultInterval))
	t.Set("start_limit.retry_after", draft.Seconds(0))
}

// What systemd has for StartLimitBurst= and, in seconds, StartLimitIntervalSec=.
const (
	defaultBurst    = 5
	defaultInterval = 10
)

// pause sets a constant pause between starts.
func pause(t *draft.Table, d time.Duration) {
	t.Set("backoff.initial", d)
	t.Set("backoff.max", d)
	t.Set("backoff.jitter", 0.0)
}

// An importing holds what is shared by the units of one import.
type importing struct {
	system   draft.System
	doc      *draft.Document
	units    map[string]*draft.Table // by the names of units
	services []*service
}

// A service is one that is being imported.
type service struct {
	*importing
	*unit
	table  *draft.Table
	kind   string // Type=
	starts [][]string
	reload [][]string
	stops  [][]string // what ExecStop= runs

	privileged  []assignment // commands beside the main one that run as root
	hooksOfUser bool         // some run as the user
}

// file imports a service, or the service of a socket or timer.
func (i *importing) file(path string) error {
	ext := filepath.Ext(path)
	base := strings.TrimSuffix(path, ext)
	var socket, timer string
	switch ext {
	case ".socket":
		socket, path = path, base+".service"
		if _, err := i.system.ReadFile(path); err != nil { // Accept=yes has a template
			path = base + "@.service"
		}
	case ".timer":
		timer, path = path, base+".service"
	}
	u, err := load(i.system, i.doc, path)
	if err != nil {
		return err
	}
	if !u.has("Service") {
		return fmt.Errorf("read %s: there is no section [Service]", path)
	}
	accepts := false // a socket beside it starts an instance for each connection
	if strings.HasSuffix(u.name, "@.service") && ext == ".service" {
		_, err := i.system.ReadFile(strings.TrimSuffix(base, "@") + ".socket")
		accepts = err == nil
	}
	if strings.HasSuffix(u.name, "@.service") && ext == ".service" && !accepts {
		i.doc.Note(draft.Place{File: path}, "", "it is a template: name an instance of it, such as %s1.service",
			strings.TrimSuffix(path, ".service"))
	}
	s := &service{importing: i, unit: u, kind: cmpOr(u.get("Service", "Type"), "simple")}
	if u.get("Service", "Type") == "" && u.get("Service", "BusName") != "" {
		s.kind = "dbus"
	}
	s.table = i.doc.Program(strings.TrimSuffix(strings.TrimSuffix(u.name, ".service"), "@"))
	i.units[u.name] = s.table
	i.services = append(i.services, s)
	s.table.Comments = u.head
	for _, a := range u.effective() {
		s.assignment(a)
	}
	s.table.Flush()
	s.finish()
	s.temporary()

	static := !u.has("Install")
	for _, beside := range []struct {
		ext string
		own *string
	}{{".socket", &socket}, {".timer", &timer}} {
		file := base + beside.ext
		if accepts && beside.ext == ".socket" {
			file = strings.TrimSuffix(base, "@") + beside.ext
		}
		if *beside.own != "" || ext == beside.ext {
			continue
		}
		if _, err := i.system.ReadFile(file); err != nil {
			continue
		}
		needed := static || strings.Contains(u.get("Service", "Sockets")+" "+u.get("Unit", "Requires"), filepath.Base(file))
		if needed {
			*beside.own = file
		} else {
			i.doc.Note(draft.Place{File: path}, "", "%s is beside it and not imported, since the service also "+
				"starts by itself: import that file to have both", filepath.Base(file))
		}
	}
	if socket != "" {
		if err := s.socket(socket); err != nil {
			return err
		}
	}
	if timer != "" {
		return s.timer(timer)
	}
	return nil
}

func (s *service) note(a assignment, format string, args ...any) {
	s.doc.Note(a.at, a.name(), format, args...)
}

// assignment imports one line.
func (s *service) assignment(a assignment) {
	value, unknown := s.specifiers(s.system, a.value)
	for _, u := range unknown {
		s.note(a, "superd has no %s: write what it stands for", u)
	}
	if strings.Contains(a.value, "%H") || strings.Contains(a.value, "%l") {
		s.note(a, "it got the name of this host")
	}
	a.value = value
	s.table.Comment(a.comments...)
	switch a.section {
	case "Unit":
		s.unitKey(a)
	case "Install":
		if a.key != "WantedBy" && a.key != "RequiredBy" {
			s.note(a, "superd starts what is in its configuration, and knows no other names for it")
		}
	case "Service":
		if !s.execKey(a) && !s.processKey(a) && !s.limitKey(a) && !s.sandboxKey(a) {
			s.otherKey(a)
		}
	default:
		if !strings.HasPrefix(a.section, "X-") {
			s.note(a, "systemd ignores the section in a service")
		}
	}
}

// unitKey imports a key of [Unit]. Dependencies come later.
func (s *service) unitKey(a assignment) {
	switch {
	case a.key == "Description":
		s.table.Comments = append(s.table.Comments, a.value)
	case a.key == "Documentation":
		s.table.Comments = append(s.table.Comments, "See "+strings.Join(words(a.value), " "))
	case slices.Contains(orders, a.key):
	case a.key == "StartLimitBurst", a.key == "StartLimitIntervalSec", a.key == "StartLimitInterval":
		s.startLimit()
	case a.key == "DefaultDependencies" && !boolean(a.value):
	case strings.HasPrefix(a.key, "Condition"), strings.HasPrefix(a.key, "Assert"):
		s.note(a, "superd starts it without this condition: set autostart = false where it does not hold")
	case a.key == "RequiresMountsFor", a.key == "RequiresMountsForOptional":
		s.note(a, "superd does not wait for mounts: start it when they are there")
	case a.key == "OnFailure", a.key == "OnSuccess", a.key == "FailureAction", a.key == "SuccessAction":
		s.note(a, "superd starts nothing then: `superd ctl events -f` prints it for a program of your own")
	default:
		s.note(a, "superd has no such key")
	}
}

// startLimit sets the limit of starts.
func (s *service) startLimit() {
	get := func(key string) string { return cmpOr(s.get("Unit", key), s.get("Service", key)) }
	burst, interval := defaultBurst, draft.Seconds(defaultInterval)
	if n, err := strconv.Atoi(get("StartLimitBurst")); err == nil {
		burst = n
	}
	text := cmpOr(get("StartLimitIntervalSec"), get("StartLimitInterval"))
	if d, infinite, err := timeSpan(text); text != "" && err == nil && !infinite {
		interval = d
	}
	if burst <= 0 || interval <= 0 {
		s.table.Set("start_limit.failures", 0) // no limit
		return
	}
	s.table.Set("start_limit.failures", burst)
	s.table.Set("start_limit.within", interval)
	s.table.Set("start_limit.retry_after", draft.Seconds(0))
}

// orders are the keys of [Unit] that name other units.
var orders = []string{"Requires", "BindsTo", "Requisite", "Wants", "After", "Before", "PartOf",
	"Conflicts", "Upholds", "PropagatesReloadTo", "ReloadPropagatedFrom", "JoinsNamespaceOf"}

// dependencies sets what a program depends on, now that all units of the import are known.
func (s *service) dependencies(units map[string]*draft.Table) {
	after := map[string]bool{}
	for _, a := range s.effective() {
		if a.section == "Unit" && a.key == "After" {
			for _, name := range words(a.value) {
				after[name] = true
			}
		}
	}
	for _, a := range s.effective() {
		if a.section != "Unit" || !slices.Contains(orders, a.key) {
			continue
		}
		value, _ := s.specifiers(s.system, a.value)
		var missing, other []string
		for _, name := range words(value) {
			table := units[name]
			switch {
			case strings.HasSuffix(name, ".socket") && s.table.Has("sockets"):
			case a.key == "PartOf" && strings.HasSuffix(name, ".target") && s.isGroup(name):
				s.table.Append("groups", draft.Name(strings.TrimSuffix(name, ".target")))
			case table == nil && (strings.HasSuffix(name, ".target") || strings.HasSuffix(name, ".slice") ||
				name == "system.slice"):
				other = append(other, name)
			case table == nil:
				missing = append(missing, name)
			case table == s.table:
			case a.key == "After":
				if list, _ := s.table.Get("requires").([]string); !slices.Contains(list, table.Name) {
					s.table.Append("after", table.Name)
				}
			case a.key == "Before":
				table.Append("after", s.table.Name)
			case (a.key == "Requires" || a.key == "BindsTo" || a.key == "Requisite") && after[name]:
				s.table.Append("requires", table.Name)
				drop(s.table, "after", table.Name)
			case a.key == "Wants": // both start with superd, and After has the order
			default:
				s.note(a, "superd's nearest is `requires` or `after`; nothing is set for %s", table.Name)
			}
		}
		if len(missing) > 0 {
			s.note(a, "not in this configuration: %s. If superd runs it, too, add it to `requires` or "+
				"`after`; else order superd itself by it", strings.Join(missing, " "))
		}
		if a.key != "After" && slices.Contains(other, "network-online.target") {
			s.note(a, "superd does not wait for the network: order superd itself after network-online.target")
		}
	}
}

// isGroup reports whether a target is a file beside the unit, and wants it: it stands for a group.
func (s *service) isGroup(target string) bool {
	text, err := s.system.ReadFile(filepath.Join(filepath.Dir(s.path), target))
	return err == nil && slices.Contains(strings.FieldsFunc(string(text), func(r rune) bool {
		return r == ' ' || r == '=' || r == '\n'
	}), s.name)
}

func drop(t *draft.Table, key, value string) {
	list, _ := t.Get(key).([]string)
	if i := slices.Index(list, value); i >= 0 {
		list = slices.Delete(slices.Clone(list), i, i+1)
		if len(list) == 0 {
			t.Delete(key)
		} else {
			t.Set(key, list)
		}
	}
}
