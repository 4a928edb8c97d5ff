package systemd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/importer/draft"
)

// processKey imports the keys about a process, its end and its restart, and reports whether a is
// one.
func (s *service) processKey(a assignment) bool {
	t := s.table
	switch a.key {
	case "Type", "BusName", "ReloadSignal": // see finish
	case "RemainAfterExit":
		if boolean(a.value) && s.kind != "oneshot" {
			s.note(a, "superd shows a service that has ended as exited")
		}
	case "PIDFile":
		path := a.value
		if !strings.HasPrefix(path, "/") {
			path = "/run/" + path
		}
		if s.kind == "forking" {
			t.Set("pid_file", path)
		}
	case "GuessMainPID":
	case "Restart":
		s.restart(a)
	case "RestartSec":
		if d, ok := s.span(a); ok {
			pause(t, max(d, time.Millisecond)) // superd's pause is never nothing
		}
	case "RestartPreventExitStatus":
		s.exitCodes(a, "no_restart_exit_codes")
	case "SuccessExitStatus":
		s.exitCodes(a, "success_exit_codes")
	case "StartLimitBurst", "StartLimitInterval", "StartLimitIntervalSec":
		s.startLimit()
	case "TimeoutSec":
		s.timeout(a, "start_timeout")
		s.timeout(a, "stop_timeout")
	case "TimeoutStartSec":
		s.timeout(a, "start_timeout")
	case "TimeoutStopSec":
		s.timeout(a, "stop_timeout")
	case "WatchdogSec":
		if d, ok := s.span(a); ok && d > 0 {
			t.Set("watchdog", d)
		}
	case "NotifyAccess": // superd accepts what comes from any process of the program
	case "KillMode":
		switch a.value {
		case "control-group":
			t.Set("kill_mode", "tree")
		case "mixed", "process":
			t.Set("kill_mode", a.value)
		case "none":
			t.Set("kill_mode", "process")
			s.note(a, `superd has no "none": the main process is still stopped`)
		default:
			s.note(a, "systemd ignores it: %q is no mode", a.value)
		}
	case "KillSignal":
		t.Set("stop_signal", signal(a.value))
	case "FinalKillSignal":
		t.Set("kill_signal", signal(a.value))
	case "SendSIGKILL":
		if !boolean(a.value) {
			t.Set("final_kill", false)
		}
	case "User":
		t.Set("user", a.value)
	case "Group":
		if a.value != s.get("Service", "User") {
			s.note(a, "superd has no key for the group: the program has the one of its user in /etc/passwd")
		}
	case "SupplementaryGroups":
		t.Append("supplementary_groups", words(a.value)...)
		if s.get("Service", "User") != "" {
			s.note(a, "systemd adds them to the groups of the user in /etc/group, and superd has these only: "+
				"add those that it needs")
		}
	case "UMask":
		t.Set("umask", a.value)
	case "PermissionsStartOnly":
		if boolean(a.value) {
			t.Set("hooks_user", "root")
		}
	case "Environment":
		for _, word := range words(a.value) {
			name, value, ok := strings.Cut(word, "=")
			if !ok || !draft.IsName(name) {
				s.note(a, "systemd ignores %q: it is not of the form NAME=VALUE", word)
				continue
			}
			t.Env(name, s.unlessInFile(a, name, value))
		}
	case "EnvironmentFile":
		t.Append("env_file", a.value)
		if strings.ContainsAny(a.value, "*?[") {
			s.note(a, "superd takes no pattern: name the files")
		}
	case "PassEnvironment":
		t.Set("inherit_environment", true)
		s.note(a, "superd passes its whole environment on, not these variables only")
	case "WorkingDirectory":
		path := strings.TrimPrefix(a.value, "-")
		if path == "~" {
			path = "${HOME}"
		}
		t.Set("directory", path)
		if path != a.value && path != "${HOME}" {
			s.note(a, "superd starts it only if the directory is there")
		}
	case "StandardOutput", "StandardError":
		s.output(a)
	case "StandardInput":
		switch a.value {
		case "null":
		case "socket": // see socket
		default:
			s.note(a, "the input is /dev/null")
		}
	case "SyslogIdentifier", "SyslogFacility":
		s.note(a, `output goes to a file; with log.sink = "journald" or "syslog" there are log.identifier and log.facility`)
	case "Sockets": // see file
	case "Slice", "Delegate":
		s.note(a, "superd has a cgroup of its own for each program, and limits for it in `limits`")
	default:
		for _, d := range directories {
			if a.key == d.key {
				for _, name := range words(a.value) {
					name, _, _ = strings.Cut(name, ":") // what follows is a link to make
					all, _ := t.Get(d.name).([]string)
					if slices.ContainsFunc(all, func(other string) bool { return strings.HasPrefix(name, other+"/") }) {
						s.note(a, "%s is in a directory that belongs to the program, which is to make it", name)
						continue
					}
					t.Append(d.name, name)
				}
				return true
			}
			if a.key == d.key+"Mode" {
				t.Set(d.name+"_mode", fmt.Sprintf("%04s", a.value))
				return true
			}
		}
		if a.key == "RuntimeDirectoryPreserve" {
			if a.value != "no" {
				t.Set("runtime_directory_preserve", true)
			}
			return true
		}
		return false
	}
	return true
}

// unlessInFile returns the template of a variable. In systemd a variable of EnvironmentFile= counts
// rather than this one, in superd this one: so it is the default.
func (s *service) unlessInFile(a assignment, name, value string) string {
	switch {
	case s.get("Service", "EnvironmentFile") == "":
	case strings.ContainsAny(value, "$}"):
		s.note(a, "in systemd %s of an EnvironmentFile= counts rather than this one; in superd `environment` does: "+
			"remove it if the file has it", name)
	default:
		return "${" + name + ":-" + value + "}"
	}
	return draft.Literal(value)
}

var directories = []struct{ key, name string }{
	{"RuntimeDirectory", "runtime_directory"},
	{"StateDirectory", "state_directory"},
	{"CacheDirectory", "cache_directory"},
	{"LogsDirectory", "logs_directory"},
}

func (s *service) restart(a assignment) {
	t := s.table
	oneshot := s.kind == "oneshot"
	switch a.value {
	case "no":
	case "on-failure":
		t.Set("restart", "on-failure")
	case "always":
		if oneshot {
			t.Set("restart", "on-failure")
			s.note(a, "superd restarts a one-shot after failures only; `schedule` runs it again")
			return
		}
		t.Set("restart", "always")
	case "on-success":
		t.Set("restart", "never")
		s.note(a, "superd has no such policy: it is not restarted")
	case "on-abnormal", "on-abort", "on-watchdog":
		t.Set("restart", "on-failure")
		s.note(a, "superd also restarts it after other failures; no_restart_exit_codes excludes some")
	default:
		s.note(a, "systemd ignores it: %q is no policy", a.value)
	}
}

// sysexits are names of exit codes that systemd knows. Source: systemd.exec(5).
var sysexits = map[string]int{"SUCCESS": 0, "FAILURE": 1, "INVALIDARGUMENT": 2, "NOTIMPLEMENTED": 3,
	"NOPERMISSION": 4, "NOTINSTALLED": 5, "NOTCONFIGURED": 6, "NOTRUNNING": 7, "USAGE": 64,
	"DATAERR": 65, "NOINPUT": 66, "NOUSER": 67, "NOHOST": 68, "UNAVAILABLE": 69, "SOFTWARE": 70,
	"OSERR": 71, "OSFILE": 72, "CANTCREAT": 73, "IOERR": 74, "TEMPFAIL": 75, "PROTOCOL": 76,
	"NOPERM": 77, "CONFIG": 78}

// exitCodes adds exit codes. Only no_restart_exit_codes may have signals.
func (s *service) exitCodes(a assignment, key string) {
	codes, _ := s.table.Get(key).([]any)
	if key == "success_exit_codes" && len(codes) == 0 {
		codes = []any{0}
	}
	for _, word := range words(a.value) {
		n, err := strconv.Atoi(word)
		named, known := sysexits[word]
		switch {
		case err == nil && n >= 0 && n <= 255:
			codes = append(codes, n)
		case known:
			codes = append(codes, named)
		case key == "no_restart_exit_codes":
			codes = append(codes, signal(word))
		default:
			s.note(a, "only exit codes can count as success, not %s; an end by superd's own stop signal does anyway", word)
		}
	}
	if len(codes) > 1 || key != "success_exit_codes" && len(codes) > 0 {
		s.table.Set(key, codes)
	}
}

// span reads a time span that is not infinite.
func (s *service) span(a assignment) (d time.Duration, ok bool) {
	d, infinite, err := timeSpan(a.value)
	if err != nil {
		s.note(a, "systemd ignores it: %v", err)
	}
	return d, err == nil && !infinite
}

func (s *service) timeout(a assignment, key string) {
	d, infinite, err := timeSpan(a.value)
	switch {
	case err != nil:
		s.note(a, "systemd ignores it: %v", err)
	case infinite || d == 0:
		s.table.Set(key, draft.Seconds(24*3600))
		s.note(a, "superd has no infinite time-out: it is a day")
	default:
		s.table.Set(key, d)
	}
}

// output imports StandardOutput= and StandardError=.
func (s *service) output(a assignment) {
	t := s.table
	kind, path, _ := strings.Cut(a.value, ":")
	isError := a.key == "StandardError"
	key := "log.file"
	if isError {
		key = "log.stderr_file"
	}
	if plain, console := strings.CutSuffix(kind, "+console"); console {
		s.note(a, "superd does not write to the console, too")
		kind = plain
	}
	switch {
	case isError && (a.value == "inherit" || a.value == s.get("Service", "StandardOutput")):
	case kind == "append" || kind == "file" || kind == "truncate":
		t.Set(key, path)
		if isError {
			t.Set("log.stderr", "separate")
		}
		if kind != "append" {
			s.note(a, "superd appends to the file")
		}
	case a.value == "null":
		t.Set(key, "/dev/null")
		if isError {
			t.Set("log.stderr", "separate")
		}
	case kind == "syslog" && !isError:
		t.Set("log.sink", "syslog")
	case kind == "journal" && !isError:
		t.Set("log.sink", "journald")
	case kind == "journal" || a.value == "inherit":
		if isError && t.Has("log.file") {
			t.Set("log.stderr", "separate")
		}
	case kind == "socket" && s.get("Service", "StandardInput") == "socket": // see socket
	default:
		s.note(a, "superd has the output in %s.log; log.sink has other places", t.Name)
	}
}

// limitKey imports Limit* and the keys of cgroups and scheduling.
func (s *service) limitKey(a assignment) bool {
	t := s.table
	number := func(key string) {
		if n, err := strconv.Atoi(a.value); err == nil {
			t.Set(key, n)
		} else {
			s.note(a, "%q is no number", a.value)
		}
	}
	bytes := func(key string) {
		if a.value == "infinity" {
			return
		}
		n, err := size(a.value)
		if err != nil {
			s.note(a, "superd takes a number of bytes only, not %q", a.value)
			return
		}
		t.Set(key, draft.Size(n))
	}
	switch a.key {
	case "Nice":
		number("nice")
	case "OOMScoreAdjust":
		number("oom_score_adj")
	case "IOSchedulingClass", "IOSchedulingPriority":
		class := cmpOr(s.get("Service", "IOSchedulingClass"), "best-effort")
		level := cmpOr(s.get("Service", "IOSchedulingPriority"), "4")
		if i := slices.Index([]string{"none", "realtime", "best-effort", "idle"}, class); i < 0 {
			n, _ := strconv.Atoi(class)
			class = []string{"none", "realtime", "best-effort", "idle"}[n&3]
		}
		switch class {
		case "idle":
			t.Set("ionice", "idle")
		case "realtime", "best-effort":
			t.Set("ionice", class+":"+level)
		}
	case "CPUSchedulingPolicy", "CPUSchedulingPriority":
		policy := cmpOr(s.get("Service", "CPUSchedulingPolicy"), "other")
		if policy == "fifo" || policy == "rr" {
			policy += ":" + cmpOr(s.get("Service", "CPUSchedulingPriority"), "1")
		}
		t.Set("scheduling", policy)
	case "CPUAffinity":
		before, _ := t.Get("cpu_affinity").(string)
		list := strings.Join(strings.FieldsFunc(a.value, func(r rune) bool { return r == ' ' || r == ',' }), ",")
		t.Set("cpu_affinity", strings.TrimPrefix(before+","+list, ","))
	case "MemoryMax", "MemoryLimit":
		bytes("limits.memory")
	case "MemoryHigh":
		bytes("limits.memory_high")
	case "MemorySwapMax":
		bytes("limits.swap")
	case "TasksMax":
		if a.value != "infinity" {
			number("limits.tasks")
		}
	case "CPUWeight":
		number("limits.cpu_weight")
	case "CPUQuota":
		if n, err := strconv.ParseFloat(strings.TrimSuffix(a.value, "%"), 64); err == nil {
			t.Set("limits.cpu", n/100)
		} else {
			s.note(a, "systemd ignores it: %q is no percentage", a.value)
		}
	case "MemoryAccounting", "CPUAccounting", "TasksAccounting", "IOAccounting":
	case "LimitRSS", "LimitLOCKS":
		s.note(a, "it has no effect on Linux")
	default:
		name, ok := strings.CutPrefix(a.key, "Limit")
		key, known := rlimits[name]
		if !ok || !known {
			return false
		}
		s.rlimit(a, "limits."+key, name)
	}
	return true
}

var rlimits = map[string]string{"NOFILE": "nofile", "CORE": "core", "AS": "as", "CPU": "cpu_time",
	"DATA": "data", "FSIZE": "fsize", "MEMLOCK": "memlock", "MSGQUEUE": "msgqueue", "NICE": "nice",
	"NPROC": "nproc", "RTPRIO": "rtprio", "RTTIME": "rttime", "SIGPENDING": "sigpending", "STACK": "stack"}

func (s *service) rlimit(a assignment, key, name string) {
	counts := slices.Contains([]string{"NOFILE", "NICE", "NPROC", "RTPRIO", "SIGPENDING"}, name)
	times := name == "CPU" || name == "RTTIME"
	var parts []string
	var single any
	for part := range strings.SplitSeq(a.value, ":") {
		if part == "infinity" {
			single, parts = part, append(parts, part)
			continue
		}
		var err error
		var n int64
		switch {
		case times:
			d, _, spanErr := timeSpan(part)
			if _, plain := strconv.Atoi(part); plain == nil && name == "RTTIME" {
				d /= 1e6 // microseconds
			}
			if spanErr != nil {
				s.note(a, "systemd ignores it: %v", spanErr)
				return
			}
			single = d
			parts = append(parts, draft.Duration(d))
			continue
		case name == "NICE" && strings.HasPrefix(part, "-") || name == "NICE" && strings.HasPrefix(part, "+"):
			var level int // as with nice(1): the limit is 20 less that
			level, err = strconv.Atoi(part)
			n = int64(20 - level)
			single = int(n)
		case counts:
			n, err = size(part)
			single = int(n)
		default:
			n, err = size(part)
			single = draft.Size(n)
		}
		if err != nil {
			s.note(a, "systemd ignores it: %v", err)
			return
		}
		parts = append(parts, fmt.Sprint(single))
	}
	if len(parts) == 2 {
		s.table.Set(key, strings.Join(parts, ":"))
		return
	}
	s.table.Set(key, single)
}

// dynamicUser sets what DynamicUser= implies, except for the user.
func (s *service) dynamicUser(a assignment) {
	t := s.table
	if s.get("Service", "User") == "" {
		s.note(a, "superd makes no users: make one, and set `user` to it. Until then it runs as superd's own user")
	} else {
		s.note(a, "superd makes no users: make this one")
	}
	t.Set("sandbox.no_new_privileges", true)
	t.Set("sandbox.private_tmp", true)
	t.Set("sandbox.protect_system", "strict")
	if s.get("Service", "ProtectHome") == "" {
		t.Append("sandbox.read_only", homes...)
	}
}

// otherKey notes a key without a counterpart.
func (s *service) otherKey(a assignment) {
	switch a.key {
	case "SendSIGHUP", "RestartForceExitStatus", "TimeoutStopFailureMode", "TimeoutStartFailureMode",
		"TimeoutAbortSec", "RuntimeMaxSec", "ExitType", "OOMPolicy", "TTYPath", "TTYReset", "TTYVHangup",
		"UnsetEnvironment", "IgnoreSIGPIPE", "UtmpIdentifier", "PAMName", "LogLevelMax", "LogRateLimitBurst",
		"LogRateLimitIntervalSec", "FileDescriptorStoreMax", "NonBlocking", "RootImage", "IPAddressAllow",
		"IPAddressDeny", "IOWeight", "CPUShares", "BlockIOWeight":
		s.note(a, "superd has no counterpart")
	case "DynamicUser":
		if boolean(a.value) {
			s.dynamicUser(a)
		}
	case "ConfigurationDirectory", "ConfigurationDirectoryMode":
		s.note(a, "superd makes no directory below /etc: make it once")
	default:
		s.note(a, "superd has no such key")
	}
}
