package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"superd/config/codec"
	"superd/config/cycle"
	"superd/config/document"
	"superd/config/environ"
	"superd/internal/signame"
	"superd/internal/words"
)

// maxName leaves room in a file name (255 bytes) for suffixes: instance, ".log", the time of a
// rotation.
const maxName = 100

// checkName returns an error for an invalid name of a program or group. Names become file names and
// words of a command line, where glob characters and the @ of instances have another meaning.
func checkName(what, name string) error {
	bad := strings.IndexFunc(name, func(r rune) bool { return !isNameLetter(r) })
	switch {
	case name == "":
		return fmt.Errorf("the name of a %s must not be empty", what)
	case strings.Contains(name, "@"):
		return fmt.Errorf("the %s name %s must not contain @, which names instances: web@2",
			what, document.Quote(name))
	case bad >= 0:
		return fmt.Errorf("the %s name %s may consist of letters, digits, '.', '_' and '-' only",
			what, document.Quote(name))
	case name[0] == '.' || name[0] == '-':
		return fmt.Errorf("the %s name %s must not begin with %q",
			what, document.Quote(name), name[0])
	case len(name) > maxName:
		return fmt.Errorf("the %s name %s is longer than %d bytes, too long for the files named after it",
			what, document.Quote(name), maxName)
	}
	return nil
}

func isNameLetter(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-",
		r)
}

// check checks the keys of one program in combination.
func (d *builder) check() {
	if _, isTable := d.self.Raw.(map[string]any); !isTable {
		return
	}
	if len(d.Command) == 0 && !d.anySet("command") && !slices.Contains(d.meant, "command") {
		d.self.FailKey(`has no command: write command = ["/path/to/program", "argument"]`)
	}
	if d.Backoff.Max < d.Backoff.Initial {
		d.mistakeAt("backoff.max", "backoff.initial").Fail("backoff.max (%s) must not be less than backoff.initial (%s)",
			words.Duration(d.Backoff.Max), words.Duration(d.Backoff.Initial))
	}
	if d.Type == TypeOneshot && d.Restart == RestartAlways {
		d.mistakeAt("restart").Fail(`a one-shot can't be restarted always: write "on-failure" or "never", or a schedule`)
	}
	if d.Type != TypeOneshot && d.Schedule != "" {
		d.mistakeAt("schedule", "type").Fail(`only one-shots have a schedule: write type = "oneshot", too, or remove the schedule`)
	}
	for _, name := range []string{"schedule_jitter", "schedule_missed"} {
		if d.isSet(name) && !d.anySet("schedule") {
			d.set[name].FailKey("has no meaning without a schedule: add one, or remove it")
		}
	}
	if d.Replicas > 1 && d.Log.File != "" {
		d.mistakeAt("log.file", "replicas").Fail("%q would be the log file of %d instances (%s to %s): remove it, and each has <instance>.log",
			d.Log.File, d.Replicas, d.Instances()[0], d.Instances()[d.Replicas-1])
	}
	d.checkKill()
	d.checkReload()
	d.checkStderr()
	d.checkSink()
	if log := d.Log; log.MaxTotal > 0 && (log.MaxSize == 0 || log.MaxTotal < log.MaxSize) {
		d.mistakeAt("log.max_total", "log.max_size").Fail("log.max_total (%s) must not be less than log.max_size (%s), which must not be 0 then",
			codec.ShowSize(log.MaxTotal), codec.ShowSize(log.MaxSize))
	}
	if d.Log.Format == LogDirect && d.Log.Sink == SinkFile {
		d.checkDirect()
	}
	if l := d.Limits; l.Memory != nil && l.MemoryHigh != nil && *l.MemoryHigh >= *l.Memory {
		d.mistakeAt("limits.memory_high", "limits.memory").Fail("limits.memory_high (%s) has no effect unless it is less than limits.memory (%s): lower it, or remove it",
			codec.ShowSize(*l.MemoryHigh), codec.ShowSize(*l.Memory))
	}
	if d.checkProbe("ready", readyChecks) {
		ready := d.ready
		d.Ready = &ready
	}
	if d.Type == TypeOneshot && d.Ready != nil {
		// Readiness checks in [defaults] are meant for services.
		if d.Ready = nil; d.isSet(readyChecks...) {
			d.mistakeAt(readyChecks...).FailKey("is for services: a one-shot is ready when it has succeeded: remove it")
		}
	}
	d.checkForking()
	if d.checkProbe("health", healthChecks) {
		health := d.health
		d.Health = &health
	}
	d.checkPTY()
	d.checkSandbox()
	d.checkRolling()
	d.checkWatch()
	d.checkPIDFilePlace()
}

// checkKill checks what follows the stop time-out.
func (d *builder) checkKill() {
	switch asks := slices.Contains(askingSignals, d.KillSignal); {
	case !d.NoFinalKill && !asks:
	case !d.NoFinalKill:
		d.mistakeAt("kill_signal").Warn("%s follows stop_timeout in place of SIGKILL, so a program that ignores it is never killed: to ask it to stop, write stop_signal = %q",
			signame.Name(d.KillSignal), signame.Name(d.KillSignal))
	case d.isSet("kill_signal"):
		d.set["kill_signal"].FailKey("has no meaning with final_kill = false, where no signal is sent: remove it")
	case d.KillMode == KillMixed:
		d.mistakeAt("final_kill", "kill_mode").Fail(`kill_mode = "mixed" kills what the main process leaves: write kill_mode = "main-first", or remove final_kill`)
	}
}

// checkReload checks how the program is reloaded, and commands that only services have.
func (d *builder) checkReload() {
	switch signal, command := d.isSet("reload_signal"), d.isSet("reload_command"); {
	case signal && command:
		d.set["reload_command"].FailKey("only one way to reload can be used, and reload_signal is set, too: keep one of them")
	case signal:
		d.ReloadCommand = nil // of [defaults]
	case command:
		d.ReloadSignal = 0
	case d.ReloadSignal != 0 && len(d.ReloadCommand) > 0: // both in [defaults]
		d.mistakeAt("reload_command").FailKey("only one way to reload can be used, and reload_signal is set, too: keep one of them")
	}
	if d.ReloadNotify && (d.ReloadSignal == 0 || !d.ready.Notify) {
		if d.ReloadNotify = false; d.isSet("reload_notify") {
			d.set["reload_notify"].FailKey(`needs reload_signal = "HUP" or the like, and ready.notify = true: add what is missing`)
		}
	}
	if d.Type == TypeOneshot && len(d.PostStart) > 0 {
		if d.PostStart = nil; d.isSet("post_start") {
			d.set["post_start"].FailKey("is for services: a one-shot has nothing to wait for: remove it")
		}
	}
}

// askingSignals are signals that programs commonly handle by an orderly end. Other supervisors have
// them under names such as KillSignal.
var askingSignals = []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2}

// checkSink reports keys that have no effect with the program's sink.
func (d *builder) checkSink() {
	log := d.Log
	refuse := func(why string, names ...string) {
		for _, name := range names {
			if v, ok := d.set[name]; ok {
				v.FailKey("%s: remove it", why)
			}
		}
	}
	ofFiles := []string{"log.file", "log.max_size", "log.max_age", "log.max_total", "log.keep", "log.compress", "log.min_free", "log.owner", "log.group", "log.mode",
		"log.stderr_file", "ready.line"}
	ofMessages := []string{"log.identifier", "log.facility"}
	if written, ok := d.set["log.sink"]; ok && written.Raw != string(log.Sink) {
		return // reported elsewhere
	}
	if log.Sink != SinkCommand {
		refuse(`has no meaning without log.sink = "command"`, "log.command")
	}
	if log.Sink == SinkFile {
		refuse(`has no meaning without log.sink = "journald" or "syslog"`, append(ofMessages, "log.address")...)
		return
	}
	for _, name := range ofFiles {
		if v, ok := d.set[name]; ok {
			v.FailKey(`has no meaning with log.sink = %q, which is not a file: remove it`, log.Sink)
		}
	}
	if log.Stderr == StderrSeparate {
		d.mistakeAt("log.stderr", "log.sink").Fail(`"separate" needs files: with log.sink = %q write stderr = "merge" or "label"`, log.Sink)
	}
	switch log.Sink {
	case SinkCommand:
		refuse(`has no meaning with log.sink = "command"`, append(ofMessages, "log.address")...)
		switch {
		case len(log.Command) == 0 && !d.anySet("log.command"):
			d.mistakeAt("log.sink").Fail(`"command" needs the command that reads the output: write log.command = ["/path/to/logger", "argument"], too`)
		case log.Format == LogDirect:
			d.mistakeAt("log.format", "log.sink").Fail(`"direct" is for files: with log.sink = "command" write format = "raw", "text" or "json"`)
		case log.Format == LogRaw && d.Replicas > 1:
			d.mistakeAt("log.format", "replicas").Warn(`%q does not record which of the %d instances with this logger wrote a line: write format = "text" or "json"`, log.Format, d.Replicas)
		}
	case SinkStdout:
		refuse(`has no meaning with log.sink = "stdout"`, append(ofMessages, "log.address")...)
		if log.Format == LogDirect {
			d.mistakeAt("log.format", "log.sink").Fail(`"direct" is for files: with log.sink = "stdout" write format = "raw", "text" or "json"`)
		}
	default:
		if v, ok := d.set["log.format"]; ok {
			v.FailKey("has no meaning with log.sink = %q, which has its own: remove it", log.Sink)
		}
		if log.Sink == SinkJournald && strings.Contains(log.Address, "://") {
			d.mistakeAt("log.address").Fail("%q is not the path of a socket, and journald has no other address: remove it, or write log.sink = \"syslog\"", log.Address)
		}
	}
}

// checkStderr checks the keys for the destination of standard error.
func (d *builder) checkStderr() {
	log := d.Log
	switch {
	case log.Stderr == StderrLabel && (log.Sink == SinkFile || log.Sink == SinkCommand || log.Sink == SinkStdout) && !(log.Format == LogText || log.Format == LogJSON):
		d.mistakeAt("log.stderr", "log.format").Fail(`"label" needs records that name the stream: write format = "text" or "json", too, or stderr = "separate"`)
	case log.StderrFile != "" && log.Stderr != StderrSeparate:
		d.mistakeAt("log.stderr_file").FailKey(`has no meaning without stderr = "separate": write that, too, or remove it`)
	case d.Replicas > 1 && log.StderrFile != "":
		d.mistakeAt("log.stderr_file", "replicas").Fail("%q would be the log file of %d instances (%s to %s): remove it, and each has <instance>%s",
			log.StderrFile, d.Replicas, d.Instances()[0], d.Instances()[d.Replicas-1], stderrSuffix)
	}
}

// checkDirect reports keys that superd can't apply if the program writes its log file itself.
func (d *builder) checkDirect() {
	for _, name := range []string{"log.max_size", "log.max_age", "log.max_total", "log.keep", "log.compress", "log.overflow", "log.min_free", "ready.line"} {
		if v, ok := d.set[name]; ok {
			v.FailKey(`has no meaning with log.format = "direct", where the program writes the file itself: remove it`)
		}
	}
}

// anySet reports whether the table or [defaults] sets the key.
func (d *builder) anySet(name string) bool {
	return d.isSet(name) || d.parent.isSet(name)
}

// checkProbe reports whether a readiness or health check is configured. At most one of the keys
// checks may be set.
func (d *builder) checkProbe(table string, checks []string) bool {
	from := d
	if !d.isSet(checks...) {
		from = d.parent
	}
	var chosen []string
	off := false
	for _, check := range checks {
		v, ok := from.set[check]
		switch {
		case !ok:
		case v.Raw == false: // notify = false
			off = true
		default:
			chosen = append(chosen, check)
		}
	}
	switch {
	case len(chosen) > 1:
		from.mistakeAt(chosen[1]).FailKey("only one check can be used, and %s is set, too: keep one of them", strings.TrimPrefix(chosen[0], table+"."))
		return false
	case len(chosen) == 0:
		if _, isTable := d.set[table].Raw.(map[string]any); isTable && !off {
			names := make([]string, len(checks))
			for i, check := range checks {
				names[i] = strings.TrimPrefix(check, table+".")
			}
			d.set[table].Fail("names no check: add %s", words.OneOf(names))
		}
		return false
	}
	tried := slices.Contains([]string{"tcp", "http", "exec"}, strings.TrimPrefix(chosen[0], table+"."))
	for _, name := range []string{table + ".interval", table + ".timeout"} {
		if d.isSet(name) && !tried {
			d.set[name].FailKey("has no meaning with %s, which is not repeated: remove it", strings.TrimPrefix(chosen[0], table+"."))
		}
	}
	return true
}

// checkGroups reports groups that have the name of a program.
func (l *loader) checkGroups() {
	for _, d := range l.programs {
		groups := d.mistakeAt("groups")
		items, _ := groups.Items()
		for _, item := range items {
			if name, _ := item.Raw.(string); l.builders[name] != nil {
				item.Fail("a program is named %q, too: rename the group", name)
			}
		}
	}
}

// checkMaxTotal warns if a single log file may exceed the limit for all log files together. Then no
// rotated file of any program is kept.
func (l *loader) checkMaxTotal() {
	most := l.root.superd.LogMaxTotal
	if most == 0 {
		return
	}
	var worst *builder
	for _, d := range l.programs {
		if d.Log.Sink == SinkFile && d.Log.Format != LogDirect && d.Log.MaxSize > most && (worst == nil || d.Log.MaxSize > worst.Log.MaxSize) {
			worst = d
		}
	}
	if worst != nil {
		l.root.mistakeAt("log_max_total").Warn("log_max_total (%s) is less than log.max_size (%s) of %q: if its log alone exceeds that, no rotated file of any program is kept; raise it, or lower log.max_size",
			codec.ShowSize(most), codec.ShowSize(worst.Log.MaxSize), worst.Name)
	}
}

// checkLogs reports a log file that two instances or streams would share. The mistake is placed
// where the file is named, not at a program that uses it by default.
func (l *loader) checkLogs() {
	type user struct {
		*builder
		key string
	}
	users := map[string]user{}
	logDir := l.root.superd.LogDir
	use := func(u user, path, written string) {
		if path == os.DevNull { // it takes any number of writers
			return
		}
		named := u.anySet(u.key)
		if other := l.numberedLog(path); named && other != nil && other != u.builder {
			u.mistakeAt(u.key).Fail("%q is the log file of an instance of %q (%s): choose another name", written, other.Name, other.self.Position())
			return
		}
		first, taken := users[path]
		switch {
		case !taken:
			users[path] = u
		case first.builder == u.builder:
			u.mistakeAt("log.stderr_file", "log.file").Fail("%q is the file of both streams: give each its own, or write stderr = \"merge\"", written)
		default:
			u.mistakeAt(u.key).Fail("%q is the log file of %q (%s) and of %q: give each its own", written, first.Name, first.mistakeAt(first.key).Position(), u.Name)
		}
	}
	for _, named := range []bool{false, true} {
		for _, d := range l.programs {
			if d.Replicas != 1 || d.Log.Sink != SinkFile {
				continue
			}
			if d.anySet("log.file") == named {
				use(user{d, "log.file"}, d.LogPath(logDir, d.Name), cmp.Or(d.Log.File, d.Name+".log"))
			}
			if d.Log.Stderr == StderrSeparate && d.anySet("log.stderr_file") == named {
				use(user{d, "log.stderr_file"}, d.StderrPath(logDir, d.Name), cmp.Or(d.Log.StderrFile, d.Name+stderrSuffix))
			}
		}
	}
}

// numberedLog returns the program whose instance with a number, such as web@2, would have this log
// file for one of its streams; nil if there is none.
func (l *loader) numberedLog(path string) *builder {
	name, ofStderr := strings.CutSuffix(filepath.Base(path), stderrSuffix)
	if !ofStderr {
		name = strings.TrimSuffix(name, ".log")
	}
	program, number, _ := strings.Cut(name, "@")
	d := l.builders[program]
	if _, err := strconv.Atoi(number); err != nil || d == nil {
		return nil
	}
	logDir := l.root.superd.LogDir
	switch {
	case !ofStderr && d.Log.File == "" && d.LogPath(logDir, name) == path:
	case ofStderr && d.Log.Stderr == StderrSeparate && d.Log.StderrFile == "" && d.StderrPath(logDir, name) == path:
	default:
		return nil
	}
	return d
}

// checkVariables warns of references to variables that are not set, as far as this is known before
// a run.
func (l *loader) checkVariables() {
	surroundings := environ.Inherited(l.environ)
	for _, d := range l.programs {
		envFile, known, complete := d.checkEnvFiles(l.reader)
		if !known {
			continue
		}
		below := func(name string) bool {
			_, inherited := surroundings.Get(name)
			_, inFile := envFile[name]
			return inherited && d.InheritEnvironment || inFile ||
				d.User != "" && environ.IsOfIdentity(name) ||
				environ.IsOfRun(name) || d.setsDirectory(name) || d.setsSocket(name)
		}
		d.checkReferences(below)
		d.checkEndpoints(func(name string) bool {
			_, inherited := surroundings.Get(name)
			return inherited && d.InheritEnvironment || environ.IsOfRun(name)
		}, below)
		if complete {
			d.checkWords(below)
		}
	}
}

// checkReferences checks each ${X} of a program. below reports whether a variable is set outside
// the program's own environment.
func (d *builder) checkReferences(below func(name string) bool) {
	isSet := func(name string) bool { _, own := d.Environment[name]; return own || below(name) }
	warn := func(v codec.Value, template string, isSet func(string) bool) {
		_, needed := document.References(template)
		slices.Sort(needed)
		unset := slices.DeleteFunc(slices.Compact(needed), isSet)
		for _, name := range unset {
			if err := d.checkReference(name); err != nil {
				v.Fail("%w", err)
				return
			}
		}
		if len(unset) > 0 {
			v.Warn("%s", environ.UnsetMessage(unset, "environment or env_file"))
		}
	}
	for i, arg := range d.Command {
		warn(d.argument(i), arg, isSet)
	}
	warn(d.mistakeAt("directory"), d.Directory, isSet)

	names := slices.Sorted(maps.Keys(d.Environment))
	for _, name := range names {
		// In its own value a variable refers to the one below.
		warn(d.variable(name), d.Environment[name], func(other string) bool { return other != name && isSet(other) || below(other) })
	}
	refersTo := func(name string) []string {
		all, _ := document.References(d.Environment[name])
		return slices.DeleteFunc(all, func(other string) bool { return other == name })
	}
	cycles, _ := cycle.Find(names, refersTo)
	for _, variables := range cycles {
		d.variable(variables[0]).Fail("refers to itself: %s", cycle.Show(variables))
	}
}

// checkWords warns of arguments of the command that stand for the words of a variable that is not
// set. below is that of checkReferences.
func (d *builder) checkWords(below func(name string) bool) {
	for i, arg := range d.Command {
		name, ok := document.WordsOf(arg)
		if _, own := d.Environment[name]; ok && !own && !below(name) {
			d.argument(i).Warn("$%s is not set, and no argument takes its place: set it in environment or env_file, or write $$%s for a dollar sign", name, name)
		}
	}
}

// argument returns the position of an argument of the command.
func (d *builder) argument(i int) codec.Value {
	written := d.mistakeAt("command")
	if items, isArray := written.Items(); isArray {
		return items[i]
	}
	return written
}

// variable returns the position of a variable of the program's environment.
func (d *builder) variable(name string) codec.Value {
	for from := d; from != nil; from = from.parent {
		if table, ok := from.set["environment"]; ok {
			if entries, _ := table.Raw.(map[string]any); entries[name] != nil {
				return table.Entry(name)
			}
		}
	}
	return d.self
}
