package systemd

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"superd/config"
	"superd/config/codec"
	"superd/config/directory"
	"superd/config/environ"
	"superd/exporter/manifest"
	"superd/internal/rlimit"
	"superd/internal/signame"
)

// notations return how systemd writes arguments, and what is no argument: in both it replaces
// specifiers, and variables in arguments only.
func notations(p *manifest.Program) (argument, text manifest.Notation) {
	specifiers := func(name string) (string, bool) {
		switch {
		case name == "SUPERD_REPLICA" && template(p):
			return "%i", true
		case name == "SUPERD_INSTANCE" && template(p):
			return specifier(p.Name) + "@%i", true
		}
		return "", false // also for HOME: %h is that of root in a unit of the system
	}
	text = manifest.Notation{Escape: specifier, Reference: specifiers, OfRun: true, Inherits: true}
	argument = text
	argument.Words = true
	argument.Escape = func(s string) string { return strings.ReplaceAll(specifier(s), "$", "$$") }
	argument.Reference = func(name string) (string, bool) {
		if written, ok := specifiers(name); ok {
			return written, true
		}
		known := len(p.EnvFiles) > 0 && !environ.IsOfRun(name) || environ.IsOfIdentity(name) && p.User != ""
		return "${" + name + "}", known
	}
	return argument, text
}

// service writes [Service].
func (e *exporting) service(p *manifest.Program, u *unit) {
	set := func(key, format string, args ...any) { u.set("Service", key, format, args...) }
	argument, text := notations(p)
	set("Type", "%s", kind(p))
	if p.Oneshot() && p.Schedule == "" {
		set("RemainAfterExit", "yes") // what requires it does not run it again
	}
	if p.Ready != nil && p.Ready.Notify || p.Watchdog > 0 {
		set("NotifyAccess", "all")
	}
	if p.PIDFile != "" {
		set("PIDFile", "%s", p.Text("pid_file", p.PIDFile, text))
	}
	user(p, set)
	if p.User != "" && p.Directory == "${HOME}" {
		set("WorkingDirectory", "~")
	} else {
		set("WorkingDirectory", "%s", p.Text("directory", p.Directory, text))
	}
	for _, v := range p.Variables(text) {
		if !name.MatchString(v.Name) {
			p.Note("environment", "systemd ignores a variable that is named %s: rename it", v.Name)
		}
		set("Environment", "%s", quote(v.Name+"="+v.Value))
	}
	for _, file := range p.EnvFiles {
		mark := ""
		if file.Optional {
			mark = "-"
		}
		set("EnvironmentFile", "%s%s", mark, specifier(file.Path))
	}
	commands(p, set, argument)
	restarts(p, set)
	stops(p, set)
	attributes(p, set)
	for k, d := range p.Directories {
		if len(d.Names) == 0 {
			continue
		}
		key := [directory.Kinds]string{"RuntimeDirectory", "StateDirectory", "CacheDirectory", "LogsDirectory"}[k]
		var names []string
		for _, name := range d.Names {
			names = append(names, p.Text(directory.Kind(k).Key(), name, text))
		}
		set(key, "%s", quoted(names))
		if d.Mode != nil {
			set(key+"Mode", "%04o", *d.Mode)
		}
	}
	if p.RuntimeDirectoryPreserve {
		set("RuntimeDirectoryPreserve", "yes")
	}
	e.output(p, set)
	limits(p, set)
	restrictions(p, set)
	e.passing(p, set)
}

// name matches the names of variables that systemd takes.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// A setter adds an assignment to [Service].
type setter func(key, format string, args ...any)

func kind(p *manifest.Program) string {
	switch {
	case p.Oneshot():
		return "oneshot"
	case p.Type == config.TypeForking:
		return "forking"
	case p.Ready != nil && p.Ready.Notify:
		return "notify"
	}
	return "exec"
}

func user(p *manifest.Program, set setter) {
	if p.User != "" {
		set("User", "%s", p.User)
	}
	if len(p.SupplementaryGroups) > 0 {
		set("SupplementaryGroups", "%s", strings.Join(p.SupplementaryGroups, " "))
	}
	if p.Umask != nil {
		set("UMask", "%04o", *p.Umask)
	}
}

// commands writes the commands of a program.
func commands(p *manifest.Program, set setter, n manifest.Notation) {
	prefix := ""
	if p.HooksUser == "root" || p.HooksUser == "0" {
		prefix = "+"
	}
	line := func(key, name, prefix string, command []string) {
		args := p.Arguments(name, command, n)
		if len(args) == 0 {
			return
		}
		if strings.ContainsRune("-@:+!|", rune(args[0][0])) {
			p.Note(name, "systemd takes the first character of %s for a prefix: write its whole path", args[0])
		}
		set(key, "%s%s", prefix, quoted(args))
	}
	for _, command := range p.PreStart {
		line("ExecStartPre", "pre_start", prefix, command)
	}
	line("ExecStart", "command", "", p.Command)
	for _, command := range p.PostStart {
		line("ExecStartPost", "post_start", prefix, command)
	}
	if p.CheckCommand != nil {
		line("ExecReload", "check_command", prefix, p.CheckCommand)
	}
	switch {
	case p.ReloadSignal != 0:
		set("ExecReload", "%s/bin/kill -s %s $MAINPID", prefix, signalName(p.ReloadSignal))
	case p.ReloadCommand != nil:
		line("ExecReload", "reload_command", prefix, p.ReloadCommand)
	}
	if p.StopCommand != nil {
		line("ExecStop", "stop_command", prefix, p.StopCommand)
	}
	for _, command := range p.PostStop {
		line("ExecStopPost", "post_stop", prefix, command)
	}
}

// signalName returns a signal as kill(1) has it.
func signalName(s syscall.Signal) string { return strings.TrimPrefix(signame.Name(s), "SIG") }

func restarts(p *manifest.Program, set setter) {
	policy := map[config.Restart]string{
		config.RestartAlways: "always", config.RestartOnFailure: "on-failure", config.RestartNever: "no",
	}[p.Restart]
	if p.Sockets != nil && p.Sockets.Accept {
		policy = "no" // a process for each connection, and no other
	}
	set("Restart", "%s", policy)
	if policy != "no" {
		set("RestartSec", "%s", span(p.Backoff.Initial))
	}
	var prevented []codec.ExitStatus
	prevented = append(prevented, p.NoRestartExitCodes...)
	if p.Restart == config.RestartOnFailure && !p.Oneshot() {
		var forced []string
		for _, s := range cleanSignals {
			if !slices.Contains(prevented, codec.KilledBy(s)) {
				forced = append(forced, signame.Name(s))
			}
		}
		if forced != nil {
			set("RestartForceExitStatus", "%s", strings.Join(forced, " "))
		}
	}
	if len(prevented) > 0 {
		set("RestartPreventExitStatus", "%s", statuses(prevented))
	}
	if !slices.Equal(p.SuccessExitCodes, []int{0}) {
		var codes []codec.ExitStatus
		for _, code := range p.SuccessExitCodes {
			codes = append(codes, codec.ExitStatus(code))
		}
		set("SuccessExitStatus", "%s", statuses(codes))
	}
	if p.Oneshot() {
		set("TimeoutStartSec", "infinity")
	} else {
		set("TimeoutStartSec", "%s", span(p.StartTimeout))
	}
	if p.Watchdog > 0 {
		set("WatchdogSec", "%s", span(p.Watchdog))
	}
}

func statuses(all []codec.ExitStatus) string {
	var words []string
	for _, s := range all {
		if s < 0 {
			words = append(words, signame.Name(syscall.Signal(-s)))
		} else {
			words = append(words, strconv.Itoa(int(s)))
		}
	}
	return strings.Join(words, " ")
}

func stops(p *manifest.Program, set setter) {
	// systemd's nearest to main-first is mixed: the main process alone gets the stop signal
	mode := map[config.KillMode]string{config.KillTree: "control-group", config.KillGroup: "control-group",
		config.KillProcess: "process"}[p.KillMode]
	if mode == "" {
		mode = "mixed"
	}
	set("KillMode", "%s", mode)
	if p.StopTimeout == 0 { // in systemd 0 is infinite
		set("KillSignal", "SIGKILL")
		set("TimeoutStopSec", "1s")
	} else {
		if p.StopSignal != syscall.SIGTERM {
			set("KillSignal", "%s", signame.Name(p.StopSignal))
		}
		set("TimeoutStopSec", "%s", span(p.StopTimeout))
	}
	if p.KillSignal != 0 {
		set("FinalKillSignal", "%s", signame.Name(p.KillSignal))
	}
	if p.NoFinalKill {
		set("SendSIGKILL", "no")
	}
}

func attributes(p *manifest.Program, set setter) {
	a := p.Attributes
	if a.Nice != nil {
		set("Nice", "%d", *a.Nice)
	}
	if a.IONice != nil {
		set("IOSchedulingClass", "%s", a.IONice.Class)
		if a.IONice.Class != codec.IOIdle {
			set("IOSchedulingPriority", "%d", a.IONice.Level)
		}
	}
	if a.CPUAffinity != nil {
		set("CPUAffinity", "%s", strings.Trim(codec.ShowCPUs(a.CPUAffinity), `"`))
	}
	if a.Scheduling != nil {
		set("CPUSchedulingPolicy", "%s", a.Scheduling.Policy)
		if a.Scheduling.Policy.RealTime() {
			set("CPUSchedulingPriority", "%d", a.Scheduling.Priority)
		}
	}
	if a.OOMScoreAdj != nil {
		set("OOMScoreAdjust", "%d", *a.OOMScoreAdj)
	}
}

// output writes where the output goes: into the journal, unless the program has a file.
func (e *exporting) output(p *manifest.Program, set setter) {
	dir := e.Config.Superd.LogDir
	if dir == "" {
		dir = "/var/log/superd"
	}
	to := func(path string) string {
		if path == "/dev/null" {
			return "null"
		}
		return "append:" + specifier(path)
	}
	if p.Log.Sink == config.SinkJournald {
		set("StandardOutput", "journal")
	}
	if p.Log.Sink == config.SinkFile && p.Log.File != "" {
		set("StandardOutput", "%s", to(p.LogPath(dir, p.Name)))
	}
	if p.Log.Sink == config.SinkFile && p.Log.Stderr == config.StderrSeparate && p.Log.StderrFile != "" {
		set("StandardError", "%s", to(p.StderrPath(dir, p.Name)))
	}
	if p.Log.Identifier != "" {
		set("SyslogIdentifier", "%s", specifier(p.Log.Identifier))
	}
	if p.Log.Facility != "daemon" {
		set("SyslogFacility", "%s", p.Log.Facility)
	}
}

// rlimitKeys are the names that systemd has for limits of a process.
var rlimitKeys = map[rlimit.Resource]string{rlimit.NoFile: "NOFILE", rlimit.Core: "CORE", rlimit.AS: "AS",
	rlimit.CPUTime: "CPU", rlimit.Data: "DATA", rlimit.FSize: "FSIZE", rlimit.MemLock: "MEMLOCK",
	rlimit.MsgQueue: "MSGQUEUE", rlimit.Nice: "NICE", rlimit.NProc: "NPROC", rlimit.RTPrio: "RTPRIO",
	rlimit.RTTime: "RTTIME", rlimit.SigPending: "SIGPENDING", rlimit.Stack: "STACK"}

func limits(p *manifest.Program, set setter) {
	for _, l := range p.Limits.Rlimits {
		value := func(n uint64) string {
			if n == rlimit.Infinity {
				return "infinity"
			}
			return strconv.FormatUint(n, 10)
		}
		text := value(l.Soft)
		if l.Soft != l.Hard {
			text += ":" + value(l.Hard)
		}
		set("Limit"+rlimitKeys[l.Resource], "%s", text)
	}
	for _, l := range []struct {
		key   string
		value *int64
	}{{"MemoryMax", p.Limits.Memory}, {"MemoryHigh", p.Limits.MemoryHigh}, {"MemorySwapMax", p.Limits.Swap},
		{"CPUWeight", p.Limits.CPUWeight}, {"TasksMax", p.Limits.Tasks}} {
		if l.value != nil {
			set(l.key, "%d", *l.value)
		}
	}
	if p.Limits.CPU != nil {
		set("CPUQuota", "%s%%", strconv.FormatFloat(*p.Limits.CPU*100, 'f', -1, 64))
	}
	for _, io := range p.Limits.IO {
		for _, rate := range []struct {
			key   string
			value *int64
		}{{"IOReadBandwidthMax", io.Read}, {"IOWriteBandwidthMax", io.Write},
			{"IOReadIOPSMax", io.ReadOps}, {"IOWriteIOPSMax", io.WriteOps}} {
			if rate.value != nil {
				set(rate.key, "%s %d", quote(specifier(io.Path)), *rate.value)
			}
		}
	}
}

// restrictions writes the sandbox of a program.
func restrictions(p *manifest.Program, set setter) {
	box := p.Sandbox
	if box == nil {
		return
	}
	flag := func(key string, on bool) {
		if on {
			set(key, "yes")
		}
	}
	if box.NoNewPrivileges != nil {
		set("NoNewPrivileges", "%s", map[bool]string{true: "yes", false: "no"}[*box.NoNewPrivileges])
	}
	if box.Capabilities != nil {
		set("CapabilityBoundingSet", "%s", strings.Join(box.Capabilities, " "))
	}
	if len(box.AmbientCapabilities) > 0 {
		set("AmbientCapabilities", "%s", strings.Join(box.AmbientCapabilities, " "))
	}
	if box.ProtectSystem != "" {
		set("ProtectSystem", "%s", box.ProtectSystem)
	}
	for _, paths := range []struct {
		key  string
		list []string
	}{{"ReadOnlyPaths", box.ReadOnly}, {"ReadWritePaths", box.ReadWrite}, {"InaccessiblePaths", box.Inaccessible}} {
		if len(paths.list) > 0 {
			set(paths.key, "%s", specifier(quoted(paths.list)))
		}
	}
	flag("PrivateTmp", box.PrivateTmp)
	flag("PrivateDevices", box.PrivateDevices)
	flag("PrivateNetwork", box.PrivateNetwork)
	if box.RootDirectory != "" {
		set("RootDirectory", "%s", specifier(box.RootDirectory))
	}
	if box.AddressFamilies != nil {
		families := strings.Join(box.AddressFamilies, " ")
		if families == "" {
			families = "none"
		}
		set("RestrictAddressFamilies", "%s", families)
	}
	flag("MemoryDenyWriteExecute", box.DenyWriteExecute)
	if box.Syscalls.Allow != nil {
		allowed := strings.Join(box.Syscalls.Allow, " ")
		if allowed == "" {
			allowed = "@default" // which is always allowed
		}
		set("SystemCallFilter", "%s", allowed)
	}
	if len(box.Syscalls.Deny) > 0 {
		set("SystemCallFilter", "~%s", strings.Join(box.Syscalls.Deny, " "))
	}
	if box.Syscalls.Enabled() && box.Syscalls.Errno != "kill" {
		errno := box.Syscalls.Errno
		if errno == "" {
			errno = "EPERM"
		}
		set("SystemCallErrorNumber", "%s", errno)
	}
}

// passing writes how the service gets its sockets.
func (e *exporting) passing(p *manifest.Program, set setter) {
	if p.Sockets == nil {
		return
	}
	if p.Sockets.Pass == config.PassStdin {
		set("StandardInput", "socket")
		switch {
		case p.Sockets.Accept: // the connection is the output, too
			set("StandardError", "journal")
		case p.Log.Sink == config.SinkFile && p.Log.File == "":
			set("StandardOutput", "journal") // not the socket
		}
	}
	if !p.Sockets.Accept {
		var units []string
		for _, used := range p.Sockets.List {
			units = append(units, e.socketUnit(p, used.Name))
		}
		set("Sockets", "%s", strings.Join(units, " "))
	}
	for _, used := range p.Sockets.List {
		if e.Socket(used.Name).NonBlocking {
			set("NonBlocking", "yes")
			return
		}
	}
}

// socketUnit returns the unit of a socket. That of the first one has the name of its program.
func (e *exporting) socketUnit(_ *manifest.Program, socket string) string {
	owner := e.socketOwners[socket]
	if owner.Sockets.List[0].Name == socket {
		return owner.Name + ".socket"
	}
	return fmt.Sprintf("%s-%s.socket", owner.Name, socket)
}
