// Package plan makes the configuration with which a project is run for development: one that
// extends the project's own, and changes which programs start, how many of each, their ports and
// where they log. It reads env files, and writes nothing.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"superd/config"
	"superd/config/document"
	"superd/importer/draft"
	"superd/internal/words"
)

// Options say how a project is run. Programs are selected by name, group or glob.
type Options struct {
	Names     []string       // programs to run; none: those that start by themselves
	Scale     map[string]int // replicas, by program
	ExitWith  []string       // programs whose end ends all
	PTY       []string       // programs that get a terminal
	Watch     []string       // programs that are restarted when files change
	EnvFiles  []string       // of each program; a "-" before a path makes the file optional
	DotEnv    string         // the project's env file, in whose place EnvFiles are
	Ports     Ports          // which programs get a PORT
	FirstPort int            // PORT of the first program
	LogDir    string
}

// Ports says which programs get a PORT.
type Ports int

// Values of Ports.
const (
	NoPorts      Ports = iota
	MissingPorts       // those that have none of their own
	AllPorts
)

const (
	// DefaultPort is the PORT of the first program.
	DefaultPort = 5000
	// Between the ports of two programs. Source: Foreman::Engine#port_for of foreman.
	portStep = 100
	lastPort = 65535
)

// A Plan is how a project is run.
type Plan struct {
	Text  string // the configuration
	Ports []Port // that are needed
}

// A Port is a port of TCP that a program or superd is expected to listen on.
type Port struct {
	Of     string // such as "PORT of web@2" or "of the socket api"
	Number int
}

// Make makes the plan for a configuration.
func Make(c *config.Config, o Options) (*Plan, error) {
	m := &maker{options: o, doc: draft.New(""), programs: inOrder(c)}
	m.doc.Head = []string{"Made by superd up. It changes this file:"}
	m.doc.Extends = c.Path
	m.doc.Superd.Set("log_dir", o.LogDir)
	for _, p := range m.programs {
		m.doc.Program(p.Name)
	}
	for _, step := range []func() error{m.choose, m.scale, m.setExits, m.setTerminals, m.setWatches, m.setPorts} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	m.setEnvFiles()
	m.addSockets(c)
	m.doc.Programs = slices.DeleteFunc(m.doc.Programs, (*draft.Table).Empty)
	m.plan.Text = m.doc.TOML()
	return &m.plan, nil
}

// inOrder returns the programs in the order of the files. Loggers are left out: they follow their
// programs.
func inOrder(c *config.Config) []*config.Program {
	all := slices.DeleteFunc(slices.Clone(c.Programs), func(p *config.Program) bool { return p.LoggerOf != "" })
	slices.SortStableFunc(all, func(a, b *config.Program) int {
		return cmp.Or(cmp.Compare(slices.Index(c.Files, a.File), slices.Index(c.Files, b.File)), cmp.Compare(a.Line, b.Line))
	})
	return all
}

type maker struct {
	options  Options
	doc      *draft.Document
	programs []*config.Program
	chosen   []*config.Program // that start
	plan     Plan
}

// table returns what the plan changes of a program.
func (m *maker) table(p *config.Program) *draft.Table {
	i := slices.IndexFunc(m.doc.Programs, func(t *draft.Table) bool { return t.Name == p.Name })
	return m.doc.Programs[i]
}

// choose decides which programs start: those that are named and what they require, or else those
// that start by themselves.
func (m *maker) choose() error {
	if len(m.options.Names) == 0 {
		for _, p := range m.programs {
			if p.Autostart {
				m.chosen = append(m.chosen, p)
			}
		}
		return nil
	}
	wanted, err := m.named(m.options.Names)
	if err != nil {
		return err
	}
	for i := 0; i < len(wanted); i++ {
		for _, p := range m.programs {
			if slices.Contains(wanted[i].Requires, p.Name) && !slices.Contains(wanted, p) {
				wanted = append(wanted, p)
			}
		}
	}
	for _, p := range m.programs {
		starts := slices.Contains(wanted, p)
		if starts {
			m.chosen = append(m.chosen, p)
		}
		// A connection starts it, if there is one
		if onConnect := p.Sockets != nil && p.Sockets.OnConnect; starts != p.Autostart && !onConnect {
			m.table(p).Set("autostart", starts)
		}
	}
	return nil
}

// named returns the programs that names select.
func (m *maker) named(names []string) (found []*config.Program, err error) {
	var known []string
	for _, p := range m.programs {
		known = append(append(known, p.Name), p.Groups...)
	}
	for _, name := range names {
		matches := func(what string) bool {
			ok, err := path.Match(name, what)
			return what == name || ok && err == nil
		}
		any := false
		for _, p := range m.programs {
			if !matches(p.Name) && !slices.ContainsFunc(p.Groups, matches) {
				continue
			}
			any = true
			if !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
		if any {
			continue
		}
		slices.Sort(known)
		if nearest := words.Nearest(name, known); nearest != "" {
			return nil, fmt.Errorf("no program or group is named %q: did you mean %q?", name, nearest)
		}
		return nil, fmt.Errorf("no program or group is named %q: there are %s", name, strings.Join(slices.Compact(known), ", "))
	}
	return found, nil
}

func (m *maker) scale() error {
	for _, name := range slices.Sorted(maps.Keys(m.options.Scale)) {
		n := m.options.Scale[name]
		programs, err := m.named([]string{name})
		if err != nil {
			return fmt.Errorf("read --scale: %w", err)
		}
		if n < 0 || n > config.MaxReplicas {
			return fmt.Errorf("read --scale: %s=%d: want a number from 0 to %d", name, n, config.MaxReplicas)
		}
		for _, p := range programs {
			m.table(p).Set("replicas", n)
		}
	}
	return nil
}

// replicas returns how many instances of a program there are.
func (m *maker) replicas(p *config.Program) int {
	if n, ok := m.table(p).Get("replicas").(int); ok {
		return n
	}
	return p.Replicas
}

func (m *maker) setExits() error {
	programs, err := m.named(m.options.ExitWith)
	if err != nil {
		return fmt.Errorf("read --exit-with: %w", err)
	}
	for _, p := range programs {
		if !slices.Contains(m.chosen, p) {
			return fmt.Errorf("read --exit-with: %s is not started: name it among the programs to run, too", p.Name)
		}
		t := m.table(p)
		t.Set("restart", string(config.RestartNever))
		t.Set("essential", true)
	}
	return nil
}

func (m *maker) setTerminals() error {
	programs, err := m.named(m.options.PTY)
	if err != nil {
		return fmt.Errorf("read --pty: %w", err)
	}
	for _, p := range programs {
		m.table(p).Set("pty", true)
	}
	return nil
}

// setWatches watches the directories of programs. One that has a table watch keeps it.
func (m *maker) setWatches() error {
	programs, err := m.named(m.options.Watch)
	if err != nil {
		return fmt.Errorf("read --watch: %w", err)
	}
	for _, p := range programs {
		if p.Watch == nil {
			m.table(p).Set("watch.paths", []string{p.Directory})
		}
	}
	return nil
}

// setPorts gives each program a PORT: foreman's rule counts all programs of the file, whether they
// start or not, and adds 1 for each further replica. A PORT that the program has of its own stays.
func (m *maker) setPorts() error {
	if m.options.Ports == NoPorts {
		return nil
	}
	for i, p := range m.programs {
		first := m.options.FirstPort + i*portStep
		replicas := m.replicas(p)
		if m.options.Ports == MissingPorts && hasPort(p) {
			continue
		}
		if last := first + max(replicas, 1) - 1; last > lastPort {
			return fmt.Errorf("set PORT of %s: %d is above the last port, %d: begin at a lower one with --port", p.Name, last, lastPort)
		}
		m.table(p).Env("PORT", fmt.Sprintf("${%d+SUPERD_REPLICA}", first-1))
		if m.options.Ports == AllPorts {
			m.table(p).Env("PS", p.Name+".${SUPERD_REPLICA}") // as foreman and overmind do
		}
		if !slices.Contains(m.chosen, p) {
			continue
		}
		for n, instance := range config.InstanceNames(p.Name, replicas) {
			m.plan.Ports = append(m.plan.Ports, Port{"PORT of " + instance, first + n})
		}
	}
	return nil
}

// addSockets adds the ports that superd listens on for the programs.
func (m *maker) addSockets(c *config.Config) {
	for _, s := range c.Sockets {
		for _, a := range s.Listen {
			_, text, err := net.SplitHostPort(a.Address)
			if port, _ := strconv.Atoi(text); err == nil && a.Network.IsTCP() && port > 0 {
				m.plan.Ports = append(m.plan.Ports, Port{"of the socket " + s.Name, port})
			}
		}
	}
}

// hasPort reports whether a program has a PORT by its own environment or its env files.
func hasPort(p *config.Program) bool {
	_, has := p.Environment["PORT"]
	reader := document.NewReader(p.File, document.FileSystem())
	for _, file := range p.EnvFiles {
		vars, _ := reader.EnvFile(file.Path) // mistakes are told when it starts
		_, found := vars["PORT"]
		has = has || found
	}
	return has
}

// setEnvFiles adds the env files of the project before those of each program, which count more.
func (m *maker) setEnvFiles() {
	if len(m.options.EnvFiles) == 0 {
		return
	}
	for _, p := range m.programs {
		files := slices.Clone(m.options.EnvFiles)
		for _, own := range p.EnvFiles {
			switch {
			case own.Path == m.options.DotEnv:
			case own.Optional:
				files = append(files, "-"+own.Path)
			default:
				files = append(files, own.Path)
			}
		}
		m.table(p).Set("env_file", files)
	}
}
