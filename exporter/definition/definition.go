// Package definition writes a configuration as one file: with what it includes, [defaults] filled
// in, and absolute paths.
package definition

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"superd/config"
	"superd/config/document"
	"superd/config/receiver"
)

// A Definition is a configuration without mistakes whose keys stand in the tables of the programs.
type Definition struct {
	// What [Definition.Text] says, with the places of what was read
	Config *config.Config
	// Keys that a table can't have itself, by dotted name: some programs get keys from [defaults]
	// that mean nothing for them
	meaningless map[string]bool
}

// New returns the definition of a configuration without mistakes.
func New(c *config.Config) (*Definition, error) {
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, err
	}
	d := &Definition{Config: c, meaningless: map[string]bool{}}
	for {
		read, err := config.ExamineEdited(path, path, d.Text(""))
		if err != nil {
			return nil, fmt.Errorf("write the configuration as one file: %w", err)
		}
		before := len(d.meaningless)
		for _, mistake := range read.Errors {
			if !strings.Contains(mistake.Err.Error(), "has no meaning") {
				return nil, fmt.Errorf("write the configuration as one file: %w", mistake)
			}
			d.meaningless[strings.ReplaceAll(mistake.Key, `"`, "")] = true
		}
		if len(d.meaningless) == before {
			d.Config = placed(read, c)
			return d, nil
		}
	}
}

// placed returns read with the places of the same programs, sockets and receivers in c.
func placed(read, c *config.Config) *config.Config {
	result := *c
	result.Programs = nil
	for _, p := range c.Programs {
		if now := read.Program(p.Name); now != nil {
			now = now.Clone()
			now.File, now.Line = p.File, p.Line
			result.Programs = append(result.Programs, now)
		}
	}
	return &result
}

// Keys returns the keys of a program that have not the built-in default and mean something for it.
func (d *Definition) Keys(p *config.Program) (all []config.SetKey) {
	for _, k := range p.SetKeys() {
		if k.Name == "after" {
			after := d.after(p)
			if len(after) == 0 {
				continue
			}
			k.Value = list(after)
		}
		if k.Value != "" && !d.meaningless["program."+p.Name+"."+k.Name] {
			all = append(all, k)
		}
	}
	return all
}

// after returns what a program is after, without the loggers that superd adds.
func (d *Definition) after(p *config.Program) []string {
	return slices.DeleteFunc(slices.Clone(p.After), func(name string) bool {
		other := d.Config.Program(name)
		return other != nil && other.LoggerOf != ""
	})
}

// Text returns the file. With logDir, log files are there, and the runtime directory is not set:
// whoever starts superd names it.
func (d *Definition) Text(logDir string) string {
	var b strings.Builder
	c, table, values := d.Config, "", d.Config.SetKeys()
	if logDir != "" {
		values = slices.DeleteFunc(values, func(k config.SetKey) bool {
			return k.Table == "superd" && (k.Name == "runtime_dir" || k.Name == "log_dir")
		})
		values = slices.Insert(values, 0, config.SetKey{Table: "superd", Name: "log_dir", Value: document.String(logDir)})
	}
	for _, k := range values {
		if k.Table != table {
			table = k.Table
			header(&b, table)
		}
		assign(&b, k.Name, k.Value)
	}
	for _, s := range c.Sockets {
		header(&b, "socket."+name(s.Name))
		for _, k := range s.SetKeys() {
			if k.Name != "fdname" || s.FDName != s.Name {
				assign(&b, k.Name, k.Value)
			}
		}
	}
	for _, p := range c.Programs {
		if p.LoggerOf == "" {
			d.program(&b, p)
		}
	}
	for _, r := range c.Receivers {
		header(&b, receiver.Table+"."+name(r.Name))
		for _, k := range r.SetKeys() {
			assign(&b, k.Name, k.Value)
		}
	}
	return b.String()
}

func (d *Definition) program(b *strings.Builder, p *config.Program) {
	header(b, "program."+name(p.Name))
	rolling := false
	for _, k := range d.Keys(p) {
		rolling = rolling || strings.HasPrefix(k.Name, "rolling.")
		assign(b, k.Name, k.Value)
	}
	if p.Rolling != nil && !rolling {
		assign(b, "rolling", "{}") // a table has a meaning, also an empty one
	}
}

func header(b *strings.Builder, name string) {
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "[%s]\n", name)
}

func assign(b *strings.Builder, name, value string) {
	fmt.Fprintf(b, "%s = %s\n", name, escapes(value))
}

// name returns the name of a program, a socket or a receiver as part of a header.
func name(s string) string {
	if strings.Contains(s, ".") {
		return document.String(s)
	}
	return s
}

func list(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = document.String(n)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// escapes returns a value with the escapes of TOML in place of those that only Go has.
func escapes(value string) string {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' || i+1 == len(value) {
			b.WriteByte(value[i])
			continue
		}
		i++
		switch value[i] {
		case 'x':
			b.WriteString(`\u00`)
		case 'a':
			b.WriteString(`\u0007`)
		case 'v':
			b.WriteString(`\u000b`)
		default:
			b.WriteString(value[i-1 : i+1])
		}
	}
	return b.String()
}
