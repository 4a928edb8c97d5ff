package supervisor

import (
	"maps"
	"slices"
	"strings"
)

// Versions that clients compare: of supervisord, whose behaviour this is, and of its interface.
const (
	Version          = "4.2.5"
	interfaceVersion = "3.0"
)

// methods returns the methods by name. Old names of a method are here, too.
func methods() map[string]method {
	all := map[string]method{
		"getAPIVersion":        text(interfaceVersion),
		"getVersion":           text(interfaceVersion),
		"getSupervisorVersion": text(Version),
		"getIdentification":    text("superd"),
		"getState": {call: func(c *call, _ arguments) (any, error) {
			if _, err := c.Supervisor.api.Version(c.ctx); err != nil {
				return nil, err
			}
			return map[string]any{"statecode": 1, "statename": "RUNNING"}, nil
		}},
		"getPID":            {call: func(c *call, _ arguments) (any, error) { return c.Pid, nil }},
		"getProcessInfo":    {most: 1, least: 1, call: processInfo},
		"getAllProcessInfo": {call: allProcessInfo},
		"getAllConfigInfo":  {call: allConfigInfo},

		"startProcess":        {needs: Operator, most: 2, least: 1, call: startProcess},
		"startProcessGroup":   {needs: Operator, most: 2, least: 1, call: startGroup},
		"startAllProcesses":   {needs: Operator, most: 1, call: startAll},
		"stopProcess":         {needs: Operator, most: 2, least: 1, call: stopProcess},
		"stopProcessGroup":    {needs: Operator, most: 2, least: 1, call: stopGroup},
		"stopAllProcesses":    {needs: Operator, most: 1, call: stopAll},
		"signalProcess":       {needs: Operator, most: 2, least: 2, call: signalProcess},
		"signalProcessGroup":  {needs: Operator, most: 2, least: 2, call: signalGroup},
		"signalAllProcesses":  {needs: Operator, most: 1, least: 1, call: signalAll},
		"reloadConfig":        {needs: Operator, call: reloadConfig},
		"addProcessGroup":     {needs: Operator, most: 1, least: 1, call: addGroup},
		"removeProcessGroup":  {needs: Operator, most: 1, least: 1, call: removeGroup},
		"restart":             {needs: Operator, call: restart},
		"shutdown":            {needs: Owner, call: shutdown},
		"readLog":             {most: 2, least: 2, call: noLog},
		"clearLog":            {needs: Operator, call: noLog},
		"clearProcessLogs":    {needs: Operator, most: 1, least: 1, call: clearLogs},
		"clearAllProcessLogs": {needs: Operator, call: clearAllLogs},
		"sendProcessStdin":    {needs: Operator, most: 2, least: 2, call: sendStdin},
		"sendRemoteCommEvent": {needs: Operator, most: 2, least: 2, call: sendRemote},

		"readProcessStdoutLog": {most: 3, least: 3, call: readLog(Stdout)},
		"readProcessStderrLog": {most: 3, least: 3, call: readLog(Stderr)},
		"tailProcessStdoutLog": {most: 3, least: 3, call: tailLog(Stdout)},
		"tailProcessStderrLog": {most: 3, least: 3, call: tailLog(Stderr)},
	}
	for old, name := range map[string]string{
		"readMainLog": "readLog", "readProcessLog": "readProcessStdoutLog",
		"tailProcessLog": "tailProcessStdoutLog", "clearProcessLog": "clearProcessLogs",
	} {
		all[old] = all[name]
	}
	named := make(map[string]method, len(all)+1)
	for name, m := range all {
		named["supervisor."+name] = m
	}
	named["system.listMethods"] = method{call: func(*call, arguments) (any, error) {
		var names []any
		for _, name := range slices.Sorted(maps.Keys(methods())) {
			names = append(names, name)
		}
		return append(names, "system.multicall"), nil
	}}
	return named
}

func text(t string) method {
	return method{call: func(*call, arguments) (any, error) { return t, nil }}
}

// succeeded returns true, or the error.
func succeeded(err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return true, nil
}

// listed returns results, or the error.
func listed(all []Result, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return results(all), nil
}

func processInfo(c *call, a arguments) (any, error) {
	p, err := c.Supervisor.Process(c.ctx, a.text(0))
	if err != nil {
		return nil, err
	}
	return p.info(), nil
}

func allProcessInfo(c *call, _ arguments) (any, error) {
	all, err := c.Supervisor.Processes(c.ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]any, len(all))
	for i := range all {
		infos[i] = all[i].info()
	}
	return infos, nil
}

func allConfigInfo(c *call, _ arguments) (any, error) {
	all, err := c.Supervisor.Configs(c.ctx)
	if err != nil {
		return nil, err
	}
	infos := make([]any, len(all))
	for i := range all {
		infos[i] = all[i].info()
	}
	return infos, nil
}

func startProcess(c *call, a arguments) (any, error) {
	spec, wait := a.text(0), a.wait(1)
	if *a.bad {
		return nil, nil
	}
	if group, name := Split(spec); name == "" {
		return listed(c.Supervisor.StartAll(c.ctx, group, wait))
	}
	return succeeded(c.Supervisor.Start(c.ctx, spec, wait))
}

func startGroup(c *call, a arguments) (any, error) {
	group, wait := a.text(0), a.wait(1)
	if *a.bad {
		return nil, nil
	}
	if group == "" {
		return nil, fault(BadName, "")
	}
	return listed(c.Supervisor.StartAll(c.ctx, group, wait))
}

func startAll(c *call, a arguments) (any, error) {
	wait := a.wait(0)
	if *a.bad {
		return nil, nil
	}
	return listed(c.Supervisor.StartAll(c.ctx, "", wait))
}

func stopProcess(c *call, a arguments) (any, error) {
	spec, wait := a.text(0), a.wait(1)
	if *a.bad {
		return nil, nil
	}
	if group, name := Split(spec); name == "" {
		return listed(c.Supervisor.StopAll(c.ctx, group, wait))
	}
	return succeeded(c.Supervisor.Stop(c.ctx, spec, wait))
}

func stopGroup(c *call, a arguments) (any, error) {
	group, wait := a.text(0), a.wait(1)
	if *a.bad {
		return nil, nil
	}
	if group == "" {
		return nil, fault(BadName, "")
	}
	return listed(c.Supervisor.StopAll(c.ctx, group, wait))
}

func stopAll(c *call, a arguments) (any, error) {
	wait := a.wait(0)
	if *a.bad {
		return nil, nil
	}
	return listed(c.Supervisor.StopAll(c.ctx, "", wait))
}

func signalProcess(c *call, a arguments) (any, error) {
	spec, signal := a.text(0), a.text(1)
	if *a.bad {
		return nil, nil
	}
	if group, name := Split(spec); name == "" {
		return listed(c.Supervisor.SignalAll(c.ctx, group, signal))
	}
	return succeeded(c.Supervisor.Signal(c.ctx, spec, signal))
}

func signalGroup(c *call, a arguments) (any, error) {
	group, signal := a.text(0), a.text(1)
	if *a.bad {
		return nil, nil
	}
	if group == "" {
		return nil, fault(BadName, "")
	}
	return listed(c.Supervisor.SignalAll(c.ctx, group, signal))
}

func signalAll(c *call, a arguments) (any, error) {
	signal := a.text(0)
	if *a.bad {
		return nil, nil
	}
	return listed(c.Supervisor.SignalAll(c.ctx, "", signal))
}

func reloadConfig(c *call, _ arguments) (any, error) {
	changes, err := c.Supervisor.Reread(c.ctx)
	if err != nil {
		return nil, err
	}
	return []any{[]any{names(changes.Added), names(changes.Changed), names(changes.Removed)}}, nil
}

func names(all []string) []any {
	list := make([]any, len(all))
	for i, name := range all {
		list[i] = name
	}
	return list
}

func addGroup(c *call, a arguments) (any, error) {
	group := a.text(0)
	if *a.bad {
		return nil, nil
	}
	return succeeded(c.Supervisor.Add(c.ctx, group))
}

func removeGroup(c *call, a arguments) (any, error) {
	group := a.text(0)
	if *a.bad {
		return nil, nil
	}
	return succeeded(c.Supervisor.Remove(c.ctx, group))
}

func restart(c *call, _ arguments) (any, error) {
	return succeeded(c.Supervisor.Restart(c.ctx))
}

func shutdown(c *call, _ arguments) (any, error) {
	_, err := c.Supervisor.api.Shutdown(c.ctx)
	return succeeded(err)
}

// noLog answers what concerns the log of supervisord: superd writes its own to standard error.
func noLog(*call, arguments) (any, error) { return nil, fault(NoFile, "") }

func clearLogs(c *call, a arguments) (any, error) {
	spec := a.text(0)
	if *a.bad {
		return nil, nil
	}
	return succeeded(c.Supervisor.ClearLogs(c.ctx, spec))
}

func clearAllLogs(c *call, _ arguments) (any, error) {
	return listed(c.Supervisor.ClearAllLogs(c.ctx))
}

// sendStdin refuses: superd does not hold the standard input of programs.
func sendStdin(c *call, a arguments) (any, error) {
	spec, _ := a.text(0), a.text(1)
	if *a.bad {
		return nil, nil
	}
	p, err := c.Supervisor.Process(c.ctx, spec)
	switch {
	case err != nil:
		return nil, err
	case p.Pid == 0:
		return nil, fault(NotRunning, spec)
	}
	return nil, fault(NoFile, spec)
}

func readLog(of Stream) func(*call, arguments) (any, error) {
	return func(c *call, a arguments) (any, error) {
		spec, offset, length := a.text(0), a.number(1), a.number(2)
		if *a.bad {
			return nil, nil
		}
		if offset < 0 && length != 0 || length < 0 {
			return nil, fault(BadArguments, "")
		}
		if err := c.read(); err != nil {
			return nil, err
		}
		if length == 0 || length > c.text {
			length = c.text
		}
		text, err := c.Supervisor.ReadLog(c.ctx, c.Open, spec, of, offset, length)
		if err != nil {
			return nil, err
		}
		c.text -= len(text)
		return strings.ToValidUTF8(text, "\uFFFD"), nil
	}
}

func tailLog(of Stream) func(*call, arguments) (any, error) {
	return func(c *call, a arguments) (any, error) {
		spec, offset, length := a.text(0), a.number(1), a.number(2)
		if *a.bad {
			return nil, nil
		}
		if err := c.read(); err != nil {
			return nil, err
		}
		text, size, left, err := c.Supervisor.TailLog(c.ctx, c.Open, spec, of, offset, min(length, c.text))
		if err != nil {
			return nil, err
		}
		c.text -= len(text)
		return []any{strings.ToValidUTF8(text, "\uFFFD"), size, left}, nil
	}
}
