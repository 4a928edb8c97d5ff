package config

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"superd/config/codec"
	"superd/config/document"
	"superd/config/enablement"
)

// RefuseEnablement returns why an operator can't decide whether the program starts with superd;
// empty if he can.
func (p *Program) RefuseEnablement() string {
	switch {
	case p.LoggerOf != "":
		return "it is the logger of " + p.LoggerOf + ", and starts with that"
	case p.Sockets != nil && p.Sockets.OnConnect:
		return `connections start it, not superd: remove start = "on-connect", or stop it`
	}
	return ""
}

// startsByFile reports what the configuration says about the start with superd.
func (p *Program) startsByFile() bool { return p.Autostart != (p.Enablement != "") }

// WithEnablements returns c with other decisions, by program, and a function that writes them into
// the file beside the configuration, which may block. The programs that have them already stay the
// same. Nothing is read.
func (c *Config) WithEnablements(changes map[string]bool) (next *Config, save func() error, err error) {
	path, overrides := enablement.File(c.Path), c.overrides(changes)
	text, err := c.sources.Files().ReadEnv(path)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		text, err = enablement.Edit(path, text, overrides)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	next = new(*c)
	next.sources = c.sources.With(path, text)
	next.Programs = slices.Clone(c.Programs)
	for i, p := range next.Programs {
		if starts, ok := changes[p.Name]; ok {
			next.Programs[i] = p.enabled(starts)
		}
	}
	return next, func() error { return enablement.Save(path, overrides) }, nil
}

// enabled returns p as an operator wants it.
func (p *Program) enabled(starts bool) *Program {
	before := p.startsByFile()
	if p.Autostart == starts && (p.Enablement == "" || starts != before) {
		return p
	}
	p = p.Clone()
	p.Autostart, p.Enablement = starts, ""
	if starts != before {
		p.Enablement = enablement.Of(starts)
	}
	return p
}

// overrides returns what the file has to say for changes, by program; nil: nothing, since the
// configuration says the same.
func (c *Config) overrides(changes map[string]bool) enablement.Changes {
	overrides := enablement.Changes{}
	for name, starts := range changes {
		overrides[name] = &starts
		if p := c.Program(name); p != nil && p.startsByFile() == starts {
			overrides[name] = nil
		}
	}
	return overrides
}

// readEnablements reads the file beside the configuration, if there is one, and applies what
// operators have decided. It comes after all checks of autostart.
func (l *loader) readEnablements(path string) {
	file, mistake := l.reader.OpenOptional(enablement.File(path))
	if mistake != nil {
		l.report.Errors = append(l.report.Errors, mistake)
	}
	if file == nil {
		return
	}
	all := l.fileValue(file)
	for _, name := range all.Keys() {
		entry := all.Entry(name)
		entry.Owner = new(document.Errors) // a mistake here does not keep superd from starting
		starts, ok := codec.Boolean.Read(entry)
		if !ok {
			continue
		}
		d := l.builders[name]
		switch {
		case d == nil:
			entry.Warn("no program has this name: remove the line")
		case d.RefuseEnablement() != "":
			entry.Warn("has no effect: %s", d.RefuseEnablement())
		case d.Autostart != starts:
			d.Autostart, d.Enablement = starts, enablement.Of(starts)
		}
	}
}
