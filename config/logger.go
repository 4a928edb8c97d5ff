package config

import "slices"

// loggerSuffix is appended to a program's name to form that of its logger.
const loggerSuffix = ".logger"

// LoggerName returns the name of the logger of a program with [SinkCommand].
func LoggerName(program string) string { return program + loggerSuffix }

// addLoggers adds a program for each log.command. A logger is a program like any other, whose
// standard input is the output of the first.
func (l *loader) addLoggers() {
	for _, d := range slices.Clone(l.programs) {
		if d.Log.Sink != SinkCommand || len(d.Log.Command) == 0 {
			continue
		}
		name := LoggerName(d.Name)
		if other := l.builders[name]; other != nil { // defined in the file
			d.mistakeAt("log.command").Fail("its logger would be %q, which is another program: rename that", other.Name)
			continue
		}
		if err := checkName("program", name); err != nil {
			d.mistakeAt("log.command").Fail("no name for its logger: %w", err)
			continue
		}
		logger := d.logger(name)
		l.builders[name] = logger
		l.programs = append(l.programs, logger)
		d.After = append(slices.Clip(d.After), name)
	}
	slices.SortFunc(l.programs, func(a, b *builder) int { return compareNames(&a.Program, &b.Program) })
}

// logger returns the logger of a program. It runs in the same directory and environment and as the
// same user; all else is the default.
func (d *builder) logger(name string) *builder {
	c := d.child(d.self)
	c.set["command"] = d.mistakeAt("log.command")
	c.Program = builtin().Program
	c.Name, c.File, c.Line, c.LoggerOf = name, d.File, d.Line, d.Name
	c.Command, c.Directory, c.StopTimeout = d.Log.Command, d.Directory, d.StopTimeout
	c.Environment, c.EnvFiles, c.InheritEnvironment = d.Environment, d.EnvFiles, d.InheritEnvironment
	c.User, c.SupplementaryGroups, c.Umask = d.User, d.SupplementaryGroups, d.Umask
	return c
}
