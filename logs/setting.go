package logs

import "sync"

// A setting is the complete options of one capture, or of one of its files. What others are likely to have as well they share: a program
// of its own name and path has little else that is its own.
type setting struct {
	*Options                  // never changed, but replaced; without what follows
	Program, Path, StderrPath string
}

// settings remembers options that were used of late, to have those share them that are the same.
type settings struct {
	mu     sync.Mutex
	recent [8]*Options // the newest first
}

// setting returns a setting for complete options, which it shares with nobody.
func (o Options) setting() setting {
	own := setting{Program: o.Program, Path: o.Path, StderrPath: o.StderrPath, Options: &o}
	o.Program, o.Path, o.StderrPath = "", "", ""
	return own
}

// of returns a setting for complete options.
func (s *settings) of(o Options) setting {
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

// same reports whether nothing differs.
func (s *setting) same(other *setting) bool {
	return s.Program == other.Program && s.Path == other.Path && s.StderrPath == other.StderrPath && *s.Options == *other.Options
}

// ofStderr returns the setting of the file that standard error has of its own, nil if it has none.
func (s *setting) ofStderr() *setting {
	if !s.Split || s.StderrPath == "" || s.StderrPath == s.Path {
		return nil
	}
	return &setting{Options: s.Options, Program: s.Program, Path: s.StderrPath, StderrPath: s.StderrPath}
}

// files returns the paths of the log files.
func (s *setting) files() []string {
	if s.Sink != "" {
		return nil
	}
	if own := s.ofStderr(); own != nil {
		return []string{s.Path, own.Path}
	}
	return []string{s.Path}
}

// identifier is what sinks call the program.
func (s *setting) identifier() string {
	if s.Identifier != "" {
		return s.Identifier
	}
	return s.Program
}
