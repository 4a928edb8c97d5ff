package logs

import (
	"os"
	"sync"
	"time"

	"superd/logs/frame"
	"superd/logs/segment"
	"superd/logs/sink"
)

// A setting is the complete options of one collector, or of one of its files. Options are shared
// between settings, as programs often differ only in name and path.
type setting struct {
	*sharedOptions            // replaced, never modified
	Program, Path, StderrPath string
}

// sharedOptions are options without the fields that a setting has itself, and what of them concerns
// files.
type sharedOptions struct {
	Options
	fileOptions segment.Options
}

// settings caches options, so that equal ones are shared.
type settings struct {
	mu     sync.Mutex
	recent [8]*sharedOptions // the newest first
}

// setting returns a setting for complete options, with a copy of its own.
func (o Options) setting() setting {
	own := setting{Program: o.Program, Path: o.Path, StderrPath: o.StderrPath}
	o.Program, o.Path, o.StderrPath = "", "", ""
	own.sharedOptions = &sharedOptions{o, segment.Options{
		User: o.User, Owner: o.Owner, Group: o.Group, Mode: o.Mode, Format: o.Format,
		MaxSize: o.MaxSize, MaxAge: o.MaxAge, Keep: o.Keep, MaxTotal: o.MaxTotal,
		Compression: o.Compression, MinFree: o.MinFree,
	}}
	return own
}

// An output is a log file with the setting by which it is written.
type output struct {
	segment.File
	set *setting // replaced, never modified
}

// open returns o, which is zero, as the output of a setting.
func (o *output) open(s *setting, now func() time.Time, a *segment.Archive) *output {
	o.set = s
	o.Init(s.Path, &s.fileOptions, now, a)
	return o
}

// share returns a setting for complete options. Equal options are shared.
func (s *settings) share(o Options) setting {
	own := o.setting()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := len(s.recent) - 1
	for i, known := range s.recent {
		if known != nil && *known == *own.sharedOptions {
			own.sharedOptions, at = known, i
			break
		}
	}
	copy(s.recent[1:at+1], s.recent[:at])
	s.recent[0] = own.sharedOptions
	return own
}

func (s *setting) same(other *setting) bool {
	return s.Program == other.Program && s.Path == other.Path && s.StderrPath == other.StderrPath && *s.sharedOptions == *other.sharedOptions
}

// stderrSetting returns the setting of standard error's own file, nil if it has none.
func (s *setting) stderrSetting() *setting {
	if !s.Split || s.StderrPath == "" || s.StderrPath == s.Path {
		return nil
	}
	return &setting{sharedOptions: s.sharedOptions, Program: s.Program, Path: s.StderrPath, StderrPath: s.StderrPath}
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

// destination returns the name of the sink or file for log messages.
func (s *setting) destination() string {
	if s.Sink != "" {
		return s.Sink.Destination(s.Address)
	}
	return s.Path
}

// header returns what the records of a run have in common.
func (s *setting) header(instance, run string) frame.Header {
	return frame.Header{
		Format: s.Format, Program: s.Program, Instance: instance, Run: run,
		Identifier: s.identifier(), Host: s.host, Facility: s.Facility,
		Shared: s.Sink == sink.OwnStdout || s.Sink == sink.Command,
	}
}

// identifier returns the name of the program in sinks.
func (s *setting) identifier() string {
	if s.Identifier != "" {
		return s.Identifier
	}
	return s.Program
}

// Options are where the output of a program goes, and how.
type Options struct {
	Program string // its name, for records
	Path    string // log file; the first write makes it and its directory

	Sink sink.Kind // where the output goes instead of a file
	// Address of journald or syslog is the path of a datagram socket, udp://HOST:PORT or
	// tcp://HOST:PORT; "" is the usual one. That of a logger is the path of its FIFO.
	Address    string
	Identifier string // name of the program there; "": Program
	Facility   int    // of syslog; 0 to 23
	host       string // name of this machine, for syslog

	// User of the program, by name or number; "" is superd's. Files in a directory where this user
	// may write may belong to the user.
	User string

	// The file's owners, by name or number, and its mode; "" and 0: superd's own, and 0640.
	Owner, Group string

	// With Split the program has another FIFO for standard error. Its output goes into the file
	// StderrPath, or into that of standard output if StderrPath is empty.
	StderrPath string

	Format frame.Format // "" is raw

	// The file is rotated before it exceeds MaxSize bytes (0: never), and when output comes and it
	// is MaxAge old (0: never).
	MaxSize int64
	MaxAge  time.Duration

	// The oldest rotated files are removed: those beyond the number Keep, and those by which all of
	// them and a full current one would exceed MaxTotal bytes (0: no limit).
	Keep        int
	MaxTotal    int64
	Compression segment.Compression // of rotated files

	// While the file can't be written, output waits in the program's pipe or, with Drop, is dropped
	// and counted. The file system counts as full when fewer than MinFree bytes are free for all
	// users.
	MinFree int64
	Drop    bool
	Split   bool   // see StderrPath
	Mode    uint32 // see Owner
}

// complete returns o with defaults filled in.
func (o Options) complete() Options {
	if o.Format == "" {
		o.Format = frame.Raw
	}
	switch o.Sink {
	case sink.Journald:
		o.Format = frame.Journal
	case sink.Syslog:
		o.Format = frame.Syslog
		o.host, _ = os.Hostname() // on an error it stays empty
	case sink.OwnStdout, sink.Command: // the format is the one configured
	}
	if o.Sink != "" {
		o.Path, o.StderrPath, o.MaxSize, o.MaxAge, o.MaxTotal, o.Compression, o.MinFree = "", "", 0, 0, 0, "", 0
		if o.Address == "" {
			o.Address = sink.DefaultAddress(o.Sink)
		}
	}
	if o.Format == frame.Direct {
		o.MaxSize, o.MaxAge, o.MaxTotal, o.Compression, o.Drop, o.MinFree = 0, 0, 0, "", false, 0
	}
	return o
}

// Files returns the paths of the log files.
func (o Options) Files() []string {
	own := o.setting()
	return own.files()
}

// byLine reports whether output is written by lines instead of bytes. Drop needs that, too, as it
// drops whole lines.
func (o Options) byLine() bool { return o.Format.Records() || o.Drop || o.Sink != "" }
