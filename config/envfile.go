package config

import (
	"errors"
	"io/fs"
	"maps"

	"superd/config/codec"
	"superd/config/document"
)

// ReadEnvFiles returns the variables of the program's env files and their [document.CombinedSum],
// 0 without one. It reads each file with read. A later file overrides an earlier one.
func (p *Program) ReadEnvFiles(read func(path string) (map[string]string, error)) (
	vars map[string]string, sum uint64, err error,
) {
	if len(p.EnvFiles) == 0 {
		return nil, 0, nil
	}
	vars, sums := map[string]string{}, make([]uint64, 0, len(p.EnvFiles))
	for _, file := range p.EnvFiles {
		own, err := read(file.Path)
		if err != nil && !(file.Optional && errors.Is(err, fs.ErrNotExist)) {
			return nil, 0, err
		}
		maps.Copy(vars, own)
		sum := document.EnvSum(own)
		if err != nil {
			sum = document.MissingSum
		}
		sums = append(sums, sum)
	}
	return vars, document.CombinedSum(sums), nil
}

// EnvFileSum returns the [document.CombinedSum] of the program's env files at the time when c was
// loaded. ok is false if the program has none, or if one that it needs could not be read.
func (c *Config) EnvFileSum(p *Program) (sum uint64, ok bool) {
	var sums []uint64
	for _, file := range p.EnvFiles {
		sum, known := c.envSums[file.Path]
		if !known || sum == document.MissingSum && !file.Optional {
			return 0, false
		}
		sums = append(sums, sum)
	}
	return document.CombinedSum(sums), len(sums) > 0
}

// checkEnvFiles returns the variables of the program's env files and reports their mistakes. known
// is false if a file can't be read: it may exist, or be readable, when the program starts. complete
// is also false if a file is optional: an administrator may set variables there, or not.
func (d *builder) checkEnvFiles(r *document.Reader) (vars map[string]string, known, complete bool) {
	vars, known, complete = map[string]string{}, true, true
	for _, file := range d.EnvFiles {
		own, mistakes := r.EnvFile(file.Path)
		complete = complete && !file.Optional
		if file.Optional && errors.Is(mistakes, fs.ErrNotExist) {
			continue
		}
		maps.Copy(vars, own)
		if d.reportEnvFile(file, mistakes) {
			known = false
		}
	}
	return vars, known, complete && known
}

// reportEnvFile reports the malformed lines of an env file. An unreadable file only causes a
// warning.
func (d *builder) reportEnvFile(file codec.EnvFile, mistakes Errors) (unreadable bool) {
	v := d.mistakeAt("env_file")
	for _, e := range mistakes {
		if e.Line == 0 {
			v.Warn("read %s: %w", document.Quote(file.Path), errors.Unwrap(e.Err))
			return true
		}
		named := *e
		named.Key = document.Dotted(v.Key)
		v.Add(&named)
	}
	return false
}
