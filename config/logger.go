package config

import "slices"

// loggerSuffix is what the name of a program has more that reads another one's output.
const loggerSuffix = ".logger"

// LoggerName returns the name of the program that reads the output of a program with [SinkCommand].
func LoggerName(program string) string { return program + loggerSuffix }

// addLoggers adds a program for each log.command: a logger is a program like any other, which has the output as its standard input.
func (l *loader) addLoggers() {
	for _, d := range slices.Clone(l.programs) {
		if d.Log.Sink != SinkCommand || len(d.Log.Command) == 0 {
			continue
		}
		name := LoggerName(d.Name)
		if other := l.drafts[name]; other != nil { // written in the file
			d.blame("log.command").fail("its logger would be %q, which is another program: rename that", other.Name)
			continue
		}
		if err := checkName("program", name); err != nil {
			d.blame("log.command").fail("no name for its logger: %w", err)
			continue
		}
		logger := d.logger(name)
		l.drafts[name] = logger
		l.programs = append(l.programs, logger)
		d.After = append(slices.Clip(d.After), name)
	}
	slices.SortFunc(l.programs, func(a, b *draft) int { return compareNames(&a.Program, &b.Program) })
}

// logger returns the logger of a program: it runs where the program does, as the same user and in the same environment. Everything else is as by default.
func (d *draft) logger(name string) *draft {
	c := d.child(d.self)
	c.set["command"] = d.blame("log.command")
	c.Program = builtin().Program
	c.Name, c.File, c.Line, c.LoggerOf = name, d.File, d.Line, d.Name
	c.Command, c.Directory, c.StopTimeout = d.Log.Command, d.Directory, d.StopTimeout
	c.Environment, c.EnvFile, c.InheritEnvironment = d.Environment, d.EnvFile, d.InheritEnvironment
	c.User, c.SupplementaryGroups, c.Umask = d.User, d.SupplementaryGroups, d.Umask
	return c
}

// usesLogger reports whether a program has a logger, or is one.
func (p *Program) usesLogger() bool { return p.LoggerOf != "" || p.Log.Sink == SinkCommand }
