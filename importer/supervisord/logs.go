package supervisord

import (
	"path/filepath"
	"strings"

	"superd/importer/draft"
)

// A target is what a log file of supervisord leads to.
type target int

const (
	toFile target = iota
	toAuto
	toNone
	toStdout // of supervisord
	toStderr
)

func targetOf(file string) target {
	switch file {
	case logAuto:
		return toAuto
	case logNone, "/dev/null":
		return toNone
	case "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1":
		return toStdout
	case "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2":
		return toStderr
	}
	return toFile
}

// log sets the log of a program when the first key about it comes; the comments of the others go to
// that key, too. It returns the key.
func (b *builder) log(o *option) string {
	if b.logged {
		return ""
	}
	b.logged = true
	if o == nil {
		o = b.section.find("command")
	}
	p, t := b.process, b.table
	out, err := targetOf(p.StdoutLogfile), targetOf(p.StderrLogfile)
	one := p.RedirectStderr || out == err && (out != toAuto && out != toFile || out == toFile && p.StdoutLogfile == p.StderrLogfile)
	switch {
	case p.StdoutSyslog || p.StderrSyslog && out == toNone:
		b.syslog(o, out)
	case out == toStdout || out == toStderr:
		b.toOwnOutput(o, out, err, one)
	default:
		b.file("log.file", "stdout_logfile", out, p.StdoutLogfile)
		b.sizes(out, p.StdoutMaxbytes, p.StdoutBackups)
		if one {
			b.merged = true
			t.Set("log.stderr", "merge")
			break
		}
		b.separated = true
		if err == toStdout || err == toStderr {
			b.note(b.section, b.keyOf("stderr_logfile", o), "superd writes standard error to its own output only "+
				"together with standard output: it goes to %s.err.log in log_dir", b.nameOf())
			err = toAuto
		}
		b.file("log.stderr_file", "stderr_logfile", err, p.StderrLogfile)
		differs := p.StderrMaxbytes != p.StdoutMaxbytes || p.StderrBackups != p.StdoutBackups
		if differs && err != toNone && out != toNone {
			b.note(b.section, b.keyOf("stderr_logfile_maxbytes", b.keyOf("stderr_logfile_backups", o)),
				"superd rotates both files by the same keys: those of standard output hold")
		}
		if out == toNone && err != toNone {
			b.sizes(err, p.StderrMaxbytes, p.StderrBackups)
		}
	}
	if b.replicas > 1 && (out == toFile || err == toFile && !one) {
		b.note(b.section, b.keyOf("stdout_logfile", b.keyOf("stderr_logfile", o)),
			"each instance has a log of its own, which can't be named: %[1]s@1.log and so on in log_dir", b.nameOf())
	}
	if p.RedirectStderr {
		if o := b.section.find("stderr_logfile"); o != nil && targetOf(logfile(o.value)) != toNone && logfile(o.value) != logAuto {
			b.note(b.section, o, "supervisord ignores it, since redirect_stderr is true")
		}
	}
	if !t.Has("log.file") && !t.Has("log.sink") {
		return "log.stderr"
	}
	if t.Has("log.sink") {
		return "log.sink"
	}
	return "log.file"
}

func (b *builder) nameOf() string {
	_, name, _ := strings.Cut(b.section.name, ":")
	if b.replicas == 1 && b.process.count > 1 {
		name = b.process.Name
	}
	return draft.Name(pyStrip(name))
}

// keyOf returns an option of the section, or otherwise.
func (b *builder) keyOf(name string, otherwise *option) *option {
	if o := b.get(b.section.name, name); o != nil {
		return o
	}
	return otherwise
}

// file sets the name of a log file.
func (b *builder) file(key, source string, to target, path string) {
	o := b.section.find(source)
	switch to {
	case toNone:
		if b.replicas == 1 {
			b.table.Set(key, "/dev/null")
		} else if o != nil {
			b.note(b.section, o, "with replicas no log can be named: the output is kept in log_dir")
		}
	case toAuto, toStdout, toStderr: // the default name
	case toFile:
		if b.replicas > 1 {
			return
		}
		if o != nil {
			b.usedNow(b.section, o)
		}
		path = b.absolute(o, b.home(path))
		if other, taken := b.logs[path]; taken {
			if o != nil {
				b.note(b.section, o, "%q logs there, and superd has one writer for each file: this one "+
					"goes to a file of its own in log_dir", other)
			}
			return
		}
		b.logs[path] = b.nameOf()
		b.table.Set(key, path)
	}
}

// absolute returns the path of a log file, which superd would look for in log_dir. supervisord
// looks where it runs.
func (b *builder) absolute(o *option, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	dir := b.here
	if s := b.find("supervisord"); s != nil && b.get(s.name, "directory") != nil {
		given := b.home(b.concrete(s, "directory", ""))
		if !filepath.IsAbs(given) {
			given = filepath.Join(dir, given)
		}
		dir = given
	}
	path = filepath.Join(dir, path)
	if o != nil {
		b.note(b.section, o, "supervisord takes it from where it runs; now it is %s", path)
	}
	return path
}

// sizes sets the limits of a log.
func (b *builder) sizes(to target, maxbytes, backups int) {
	if to == toNone {
		return
	}
	if maxbytes == 50<<20 {
		b.sized = true
	} else if maxbytes >= 0 {
		b.table.Set("log.max_size", draft.Size(int64(maxbytes)))
	}
	if backups != 10 && backups >= 0 && maxbytes != 0 {
		b.table.Set("log.keep", backups)
	}
}

// toOwnOutput sends output to that of superd.
func (b *builder) toOwnOutput(o *option, out, err target, one bool) {
	p, t := b.process, b.table
	t.Set("log.sink", "stdout")
	t.Set("log.format", "raw")
	t.Set("log.stderr", "merge")
	b.merged = true
	if p.StdoutMaxbytes != 0 {
		b.note(b.section, b.keyOf("stdout_logfile", o), "supervisord can't rotate it, and fails unless "+
			"stdout_logfile_maxbytes is 0")
	}
	if out == toStderr {
		b.note(b.section, b.keyOf("stdout_logfile", o), "it goes to superd's standard output: "+
			"superd passes nothing on to its standard error")
	}
	if one || out == err {
		return
	}
	where := map[target]string{toStderr: "standard error", toNone: "nothing", toFile: p.StderrLogfile,
		toAuto: "a file of its own", toStdout: "standard output"}[err]
	b.note(b.section, b.keyOf("stderr_logfile", o), "standard error of the program goes to superd's standard "+
		"output, too; it went to %s", where)
}

// syslog sends output to syslog.
func (b *builder) syslog(o *option, out target) {
	p, t := b.process, b.table
	t.Set("log.sink", "syslog")
	b.merged = true
	if out != toNone {
		b.note(b.section, b.keyOf("stdout_syslog", o), "superd has one sink for a program: "+
			"the log file is no longer written")
	}
	if p.RedirectStderr || p.StdoutSyslog && p.StderrSyslog {
		t.Set("log.stderr", "merge")
		return
	}
	t.Set("log.stderr", "merge")
	b.note(b.section, b.keyOf("stderr_syslog", o), "both streams go to syslog")
}
