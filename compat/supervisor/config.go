package supervisor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"superd/internal/signame"
)

// A table is what supervisord tells of the configuration of a program, from its table in TOML.
type table struct {
	Command   []string
	Directory string
	Autostart *bool
	Stop      string                 `toml:"stop_signal"`
	StopWait  string                 `toml:"stop_timeout"`
	Limit     struct{ Failures int } `toml:"start_limit"`
	Groups    []string
	Success   []int `toml:"success_exit_codes"`
}

// A Program is what is told of a program in the events about its processes.
type Program struct {
	Group   string
	Removed bool // it is not in the configuration any more

	success []int // exit statuses; empty: 0
}

// NewProgram returns a program of a group. success are the exit statuses that mean success; none:
// only 0.
func NewProgram(group string, success []int) Program { return Program{Group: group, success: success} }

// Succeeds reports whether an exit status means success.
func (p Program) Succeeds(code int) bool {
	return code == 0 && len(p.success) == 0 || slices.Contains(p.success, code)
}

// Programs returns the programs of the configuration in force by name.
func (s *Supervisor) Programs(ctx context.Context) (map[string]Program, error) {
	tables, err := s.tables(ctx)
	if err != nil {
		return nil, err
	}
	programs := make(map[string]Program, len(tables))
	for name, t := range tables {
		group := name
		if len(t.Groups) > 0 {
			group = t.Groups[0]
		}
		programs[name] = NewProgram(group, t.Success)
	}
	return programs, nil
}

// autostart reports whether the program starts with superd.
func (t *table) autostart() bool { return t.Autostart == nil || *t.Autostart }

// tables returns the tables of all programs.
func (s *Supervisor) tables(ctx context.Context) (map[string]table, error) {
	all, err := s.api.Config(ctx, nil)
	if err != nil {
		return nil, asFault(err)
	}
	tables := map[string]table{}
	for _, c := range all {
		var file struct{ Program map[string]table }
		if _, err := toml.Decode(c.Text, &file); err != nil {
			return nil, fault(Failed, "read the configuration of "+c.Program+": "+err.Error())
		}
		tables[c.Program] = file.Program[c.Program]
	}
	return tables, nil
}

// A Configured is what the configuration says of a process.
type Configured struct {
	Process
	InUse     bool // it is not removed
	Autostart bool

	table table
}

// Priority is the default of supervisord. superd orders programs by what they require.
const Priority = 999

// Configs returns what the configuration says of all processes, by name.
func (s *Supervisor) Configs(ctx context.Context) ([]Configured, error) {
	statuses, err := s.api.Status(ctx, nil)
	if err != nil {
		return nil, asFault(err)
	}
	tables, err := s.tables(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Configured, 0, len(statuses))
	for i := range statuses {
		c := Configured{Process: processOf(&statuses[i], time.Time{})}
		c.table = tables[c.program]
		c.InUse, c.Autostart = !s.active.isRemoved(c.Group), c.table.autostart()
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b Configured) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Defaults of superd that its tables do not show.
const (
	defaultStopSignal  = "SIGTERM"
	defaultStopTimeout = 10 * time.Second
)

// info returns the configuration as getAllConfigInfo does. What superd has no counterpart of has
// the default of supervisord.
func (c *Configured) info() map[string]any {
	stop := c.table.Stop
	if stop == "" {
		stop = defaultStopSignal
	}
	signal, _ := signame.Parse(stop) // 0: what can't be is not in a configuration in force
	wait := defaultStopTimeout
	if d, err := time.ParseDuration(c.table.StopWait); err == nil {
		wait = d
	}
	info := map[string]any{
		"autostart": c.Autostart, "command": strings.Join(c.table.Command, " "), "directory": c.table.Directory,
		"exitcodes": []any{0}, "group": c.Group, "group_prio": Priority, "inuse": c.InUse,
		"killasgroup": true, "name": c.Name, "process_prio": Priority,
		"redirect_stderr": c.ErrorFile == "", "serverurl": "auto", "startretries": c.table.Limit.Failures,
		"startsecs": 0, "stopsignal": int(signal), "stopwaitsecs": int(wait / time.Second), "uid": "none",
	}
	for stream, file := range map[string]string{"stdout": c.LogFile, "stderr": c.ErrorFile} {
		for key, value := range map[string]any{
			"capture_maxbytes": 0, "events_enabled": false, "logfile": file, "logfile_backups": 0,
			"logfile_maxbytes": 0, "syslog": false,
		} {
			info[stream+"_"+key] = value
		}
	}
	return info
}
