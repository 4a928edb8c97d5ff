package supervisord

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// processesOf returns the processes of a section, by their order in the group.
//
// Source: _processes_from_section of options.py.
func (r *reader) processesOf(s *section, group string, groupPriority int) ([]*process, error) {
	kind, name, _ := strings.Cut(s.name, ":")
	name, err := processName(name)
	if err != nil {
		return nil, fmt.Errorf("[%s]: %w", s.name, err)
	}
	k := &keys{reader: r, section: s, names: map[string]value{
		"program_name": text(name), "group_name": text(group),
	}}
	base := process{Group: group, Kind: kind, section: s, GroupPriority: groupPriority}
	read(k, "priority", "999", integer, &base.Priority)
	read(k, "autostart", "true", boolean, &base.Autostart)
	read(k, "autorestart", "unexpected", autoRestart, &base.Autorestart)
	read(k, "startsecs", "1", integer, &base.Startsecs)
	read(k, "startretries", "3", integer, &base.Startretries)
	read(k, "stopsignal", "TERM", signalNumber, &base.Stopsignal)
	read(k, "stopwaitsecs", "10", integer, &base.Stopwaitsecs)
	read(k, "stopasgroup", "false", boolean, &base.Stopasgroup)
	read(k, "killasgroup", fmt.Sprint(base.Stopasgroup), boolean, &base.Killasgroup)
	read(k, "exitcodes", "0", exitCodes, &base.Exitcodes)
	read(k, "redirect_stderr", "false", boolean, &base.RedirectStderr)
	numprocs, start := 1, 0
	read(k, "numprocs", "1", integer, &numprocs)
	read(k, "numprocs_start", "0", integer, &start)
	read(k, "stdout_capture_maxbytes", "0", byteSize, &base.captureBytes)
	read(k, "stderr_capture_maxbytes", "0", byteSize, &base.captureStderrBytes)
	var events bool
	read(k, "stdout_events_enabled", "false", boolean, &events)
	read(k, "stderr_events_enabled", "false", boolean, &events)
	anyString := func(s string) (string, error) { return s, nil }
	read(k, "serverurl", "", anyString, new(string))
	if k.has("user") {
		read(k, "user", "", func(s string) (string, error) {
			if s == "" {
				return "", errors.New("it is empty")
			}
			return s, nil
		}, &base.User)
	}
	base.Umask = -1
	if k.has("umask") {
		read(k, "umask", "", octal, &base.Umask)
	}
	named := "%(program_name)s"
	if o := k.option("process_name"); o != nil {
		named = o.value
	}
	if named, err = processName(named); err != nil {
		k.fail("process_name", err)
	}
	if numprocs > 1 && !strings.Contains(named, "%(process_num)") {
		k.fail("process_name", errors.New("needs %(process_num)d, as numprocs is above 1"))
	}
	if base.Stopasgroup && !base.Killasgroup {
		k.fail("killasgroup", errors.New("can't be false if stopasgroup is true"))
	}
	if numprocs > maxProcesses {
		k.fail("numprocs", fmt.Errorf("more than %d processes", maxProcesses))
	}
	if len(k.errs) > 0 {
		return nil, errors.Join(k.errs...)
	}
	var all []*process
	for n := start; n < start+numprocs; n++ {
		p := base
		p.number, p.count = n, numprocs
		if err := r.processOf(k, &p, named); err != nil {
			return all, err
		}
		all = append(all, &p)
	}
	slices.SortStableFunc(all, func(a, b *process) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// maxProcesses is superd's limit for replicas.
const maxProcesses = 10_000

// processOf reads the keys that may have the number of the process.
func (r *reader) processOf(k *keys, p *process, named string) error {
	k.names[processNum] = number(p.number)
	k.names["numprocs"] = number(p.count)
	// supervisord keeps one map for the processes of a section: what an earlier one has set in its
	// environment stays, unless supervisord has that variable itself.
	maps.DeleteFunc(k.names, func(name string, _ value) bool {
		_, own := r.names(nil)(name)
		return own && strings.HasPrefix(name, "ENV_")
	})
	raw := ""
	if o := k.option("environment"); o != nil {
		raw = o.value
	}
	expanded, err := format(raw, k.lookup)
	if err != nil {
		return fmt.Errorf("%s.environment: %w", k.section.name, err)
	}
	names, values, err := environment(expanded)
	if err != nil {
		return fmt.Errorf("%s.environment: %w", k.section.name, err)
	}
	for variable, v := range values {
		k.names["ENV_"+variable] = text(v)
	}
	p.envNames = names
	p.Environment = maps.Clone(r.environ)
	maps.Copy(p.Environment, values)

	anyString := func(s string) (string, error) { return s, nil }
	read(k, "directory", "", anyString, &p.Directory)
	for _, stream := range []struct {
		name              string
		file              *string
		backups, maxbytes *int
		syslog            *bool
	}{
		{"stdout", &p.StdoutLogfile, &p.StdoutBackups, &p.StdoutMaxbytes, &p.StdoutSyslog},
		{"stderr", &p.StderrLogfile, &p.StderrBackups, &p.StderrMaxbytes, &p.StderrSyslog},
	} {
		// supervisord expands it twice.
		twice := func(s string) (string, error) {
			s, err := format(s, k.lookup)
			return logfile(s), err
		}
		read(k, stream.name+"_logfile", "auto", twice, stream.file)
		read(k, stream.name+"_logfile_backups", "10", integer, stream.backups)
		read(k, stream.name+"_logfile_maxbytes", "50MB", byteSize, stream.maxbytes)
		read(k, stream.name+"_syslog", "False", boolean, stream.syslog)
		if *stream.file == logSyslog {
			*stream.file, *stream.syslog = logNone, true
		}
	}
	if p.RedirectStderr {
		p.StderrLogfile = logNone
	}
	if !k.has("command") {
		return errMissing(k.section.name, "command")
	}
	read(k, "command", "", anyString, &p.Command)
	name, err := format(named, k.lookup)
	if err != nil {
		k.fail("process_name", err)
	}
	p.Name = name
	return errors.Join(k.errs...)
}

// keys reads the keys of a section.
type keys struct {
	*reader
	section *section
	names   map[string]value
	errs    []error
}

func (k *keys) option(name string) *option { return k.get(k.section.name, name) }
func (k *keys) has(name string) bool       { return k.option(name) != nil }

func (k *keys) lookup(name string) (value, bool) { return k.reader.names(k.names)(name) }

func (k *keys) fail(name string, err error) {
	k.errs = append(k.errs, fmt.Errorf("%s.%s: %w", k.section.name, name, err))
}

// read reads a key into to, or its default.
func read[T any](k *keys, name, otherwise string, parse func(string) (T, error), to *T) {
	s := otherwise
	if o := k.option(name); o != nil {
		var err error
		if s, err = format(o.value, k.lookup); err != nil {
			k.fail(name, err)
			return
		}
	}
	v, err := parse(s)
	if err != nil {
		k.fail(name, err)
		return
	}
	*to = v
}

// eventNames are those that a listener may name.
var eventNames = strings.Fields(`EVENT PROCESS_STATE PROCESS_STATE_STOPPED PROCESS_STATE_EXITED
	PROCESS_STATE_STARTING PROCESS_STATE_STOPPING PROCESS_STATE_BACKOFF PROCESS_STATE_FATAL
	PROCESS_STATE_RUNNING PROCESS_STATE_UNKNOWN PROCESS_COMMUNICATION PROCESS_COMMUNICATION_STDOUT
	PROCESS_COMMUNICATION_STDERR PROCESS_LOG PROCESS_LOG_STDOUT PROCESS_LOG_STDERR
	REMOTE_COMMUNICATION SUPERVISOR_STATE_CHANGE SUPERVISOR_STATE_CHANGE_RUNNING
	SUPERVISOR_STATE_CHANGE_STOPPING TICK TICK_5 TICK_60 TICK_3600 PROCESS_GROUP
	PROCESS_GROUP_ADDED PROCESS_GROUP_REMOVED`)

// checkListener checks the keys that only [eventlistener:x] has.
func (r *reader) checkListener(s *section) error {
	get := func(name, otherwise string) string {
		v := otherwise
		if o := r.get(s.name, name); o != nil {
			v = o.value
		}
		expanded, err := format(v, r.sectionNames(s))
		if err != nil {
			return v
		}
		return expanded
	}
	var errs []error
	if n, err := integer(get("buffer_size", "10")); err != nil || n < 1 {
		errs = append(errs, fmt.Errorf("%s.buffer_size: %q is no number above 0", s.name, get("buffer_size", "")))
	}
	names := list(get("events", ""))
	if len(names) == 0 {
		errs = append(errs, errMissing(s.name, "events"))
	}
	for _, name := range names {
		if !slices.Contains(eventNames, strings.ToUpper(name)) {
			errs = append(errs, fmt.Errorf("%s.events: there is no event %q", s.name, name))
		}
	}
	if on, err := boolean(get("redirect_stderr", "false")); err != nil || on {
		errs = append(errs, fmt.Errorf("%s.redirect_stderr: is not allowed for a listener", s.name))
	}
	return errors.Join(errs...)
}

// checkServers checks the sections of supervisord's own interfaces and those of sockets.
func (r *reader) checkServers() error {
	var errs []error
	for _, s := range r.sections {
		need := func(name string, valid func(string) error) {
			o := r.get(s.name, name)
			if o == nil {
				errs = append(errs, errMissing(s.name, name))
				return
			}
			v, err := format(o.value, r.variables(name == "file"))
			if err == nil {
				err = valid(v)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s.%s: %w", s.name, name, err))
			}
		}
		isAny := func(string) error { return nil }
		switch {
		case strings.HasPrefix(s.name, "inet_http_server"):
			need("port", port)
			errs = append(errs, r.checkPassword(s))
		case strings.HasPrefix(s.name, "unix_http_server"):
			need("file", isAny)
			errs = append(errs, r.checkPassword(s))
		case strings.HasPrefix(s.name, "rpcinterface:"):
			need("supervisor.rpcinterface_factory", isAny)
			for _, o := range s.options {
				if _, err := format(o.value, r.variables(false)); err != nil {
					errs = append(errs, fmt.Errorf("%s.%s: %w", s.name, o.name, err))
				}
			}
		case strings.HasPrefix(s.name, kindFastCGI+":"):
			if _, err := r.socketOf(s); err != nil {
				errs = append(errs, fmt.Errorf("[%s]: %w", s.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// variables are the names that keys of supervisord's own interfaces have: those of the environment.
func (r *reader) variables(here bool) func(string) (value, bool) {
	all := r.names(nil)
	return func(name string) (value, bool) {
		if name == "here" && !here || name == "host_node_name" {
			return value{}, false
		}
		return all(name)
	}
}

// port checks the address of [inet_http_server].
func port(s string) error {
	n, err := integer(s[strings.LastIndexByte(s, ':')+1:])
	if err != nil || n < 1 || n > 0xffff {
		return fmt.Errorf("%q is no port", s)
	}
	return nil
}

func (r *reader) checkPassword(s *section) error {
	if (r.get(s.name, "username") == nil) != (r.get(s.name, "password") == nil) {
		return fmt.Errorf("[%s]: username and password go together", s.name)
	}
	for _, name := range []string{"username", "password"} {
		if o := r.get(s.name, name); o != nil {
			if _, err := format(o.value, r.variables(false)); err != nil {
				return fmt.Errorf("%s.%s: %w", s.name, name, err)
			}
		}
	}
	return nil
}

// A socket is the one of [fcgi-program:x].
type socket struct {
	path        string // of a Unix socket
	host        string
	port        int
	owner, mode string
	backlog     int // 0: none given
}

var tcpSocket = regexp.MustCompile(`^tcp://([^\s:]+):(\d+)$`)

func (r *reader) socketOf(s *section) (socket, error) {
	_, name, _ := strings.Cut(s.name, ":")
	name, err := processName(name)
	if err != nil {
		return socket{}, err
	}
	get := func(key string) (string, bool, error) {
		o := r.get(s.name, key)
		if o == nil {
			return "", false, nil
		}
		all := r.sectionNames(s)
		v, err := format(o.value, func(key string) (value, bool) {
			if key == "program_name" {
				return text(name), true
			}
			return all(key)
		})
		return v, true, err
	}
	address, _, err := get("socket")
	if err != nil {
		return socket{}, fmt.Errorf("socket: %w", err)
	}
	var found socket
	var owned, hasMode, hasBacklog bool
	var backlog string
	if found.owner, owned, err = get("socket_owner"); err != nil {
		return socket{}, err
	}
	if found.mode, hasMode, err = get("socket_mode"); err != nil {
		return socket{}, err
	}
	if hasMode {
		if _, err := octal(found.mode); err != nil {
			return socket{}, fmt.Errorf("socket_mode: %w", err)
		}
	}
	if backlog, hasBacklog, err = get("socket_backlog"); err != nil {
		return socket{}, err
	}
	if hasBacklog {
		if found.backlog, err = integer(backlog); err != nil || found.backlog < 1 || found.backlog > 65535 {
			return socket{}, fmt.Errorf("socket_backlog: %q is not from 1 to 65535", backlog)
		}
	}
	path, isUnix := strings.CutPrefix(address, "unix://")
	tcp := tcpSocket.FindStringSubmatch(address)
	switch {
	case address == "":
		return socket{}, errors.New("there is no socket")
	case isUnix && !strings.HasPrefix(path, "/"):
		return socket{}, fmt.Errorf("socket: %q is no absolute path", path)
	case isUnix:
		found.path = path
		return found, nil
	case owned || hasMode:
		return socket{}, errors.New("socket_owner and socket_mode are for Unix sockets")
	case tcp == nil:
		return socket{}, fmt.Errorf("socket: %q is neither unix:///path nor tcp://host:port", address)
	}
	found.host = strings.ToLower(tcp[1])
	if found.port, err = integer(tcp[2]); err != nil || found.port < 1 || found.port > 0xffff {
		return socket{}, fmt.Errorf("socket: %q is no port", tcp[2])
	}
	return found, nil
}
