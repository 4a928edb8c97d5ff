package logs

import "sync"

// A setting is the complete options of one collector, or of one of its files. Options are shared
// between settings, as programs often differ only in name and path.
type setting struct {
	*Options                  // replaced, never modified; without the fields below
	Program, Path, StderrPath string
}

// settings caches options, so that equal ones are shared.
type settings struct {
	mu     sync.Mutex
	recent [8]*Options // the newest first
}

// setting returns a setting for complete options, with a copy of its own.
func (o Options) setting() setting {
	own := setting{Program: o.Program, Path: o.Path, StderrPath: o.StderrPath, Options: &o}
	o.Program, o.Path, o.StderrPath = "", "", ""
	return own
}

// share returns a setting for complete options. Equal options are shared.
func (s *settings) share(o Options) setting {
	own := o.setting()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := len(s.recent) - 1
	for i, known := range s.recent {
		if known != nil && *known == *own.Options {
			own.Options, at = known, i
			break
		}
	}
	copy(s.recent[1:at+1], s.recent[:at])
	s.recent[0] = own.Options
	return own
}

func (s *setting) same(other *setting) bool {
	return s.Program == other.Program && s.Path == other.Path && s.StderrPath == other.StderrPath && *s.Options == *other.Options
}

// stderrSetting returns the setting of standard error's own file, nil if it has none.
func (s *setting) stderrSetting() *setting {
	if !s.Split || s.StderrPath == "" || s.StderrPath == s.Path {
		return nil
	}
	return &setting{Options: s.Options, Program: s.Program, Path: s.StderrPath, StderrPath: s.StderrPath}
}

func (s *setting) files() []string {
	if s.Sink != "" {
		return nil
	}
	if own := s.stderrSetting(); own != nil {
		return []string{s.Path, own.Path}
	}
	return []string{s.Path}
}

// identifier returns the name of the program in sinks.
func (s *setting) identifier() string {
	if s.Identifier != "" {
		return s.Identifier
	}
	return s.Program
}
