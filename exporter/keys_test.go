package exporter_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"superd/config"
	"superd/exporter"
	"superd/exporter/manifest"
	"superd/tests/golden"
)

// options are those of all tests.
var options = manifest.Options{
	Name: "shop", TimeZone: "Europe/Berlin", Binary: "/usr/bin/superd",
	Images: map[string]string{"": "registry.example/shop:1"},
}

// loadText loads a configuration that must have no mistakes, as superd.toml of a directory, which
// an export may name.
func loadText(t testing.TB, dir, text string) *config.Config {
	t.Helper()
	path := filepath.Join(dir, "superd.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return loadFile(t, path)
}

func loadFile(t testing.TB, path string) *config.Config {
	t.Helper()
	c, err := config.Load(path)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, mistake := range c.Errors {
		// What this machine lacks is no mistake of the file
		if !strings.Contains(mistake.Error(), "unknown user") && !strings.Contains(mistake.Error(), "unknown group") {
			t.Fatalf("%v", mistake)
		}
	}
	return c
}

// TestRules: each format has a rule for each key of a program and of a socket, and for no other.
func TestRules(t *testing.T) {
	var known []string
	for _, k := range config.Describe() {
		switch k.Table {
		case "program":
			known = append(known, k.Name)
		case "socket":
			known = append(known, "socket."+k.Name)
		}
	}
	for _, f := range exporter.Formats() {
		rules := f.Rules()
		for _, key := range known {
			if rules[key] == nil {
				t.Errorf("%s has no rule for %s", f.Name, key)
			}
		}
		for key := range rules {
			if !slices.Contains(known, key) {
				t.Errorf("%s has a rule for %s, which is no key", f.Name, key)
			}
		}
	}
}

// A sample sets a key of the program p. Without what stands in base the key would be refused, or
// mean nothing.
type sample struct{ base, set string }

// samples have each key of a program and of a socket with a value that is not its default.
var samples = map[string]sample{
	"command":                    {set: `command = ["/bin/other", "-x"]`},
	"directory":                  {set: `directory = "/srv/p"`},
	"environment":                {set: `environment = { A = "b" }`},
	"env_file":                   {set: `env_file = "-/etc/default/p"`},
	"inherit_environment":        {set: `inherit_environment = false`},
	"user":                       {set: `user = "65534"`},
	"groups":                     {set: `groups = ["g"]`},
	"supplementary_groups":       {set: `supplementary_groups = ["0"]`},
	"pty":                        {set: `pty = true`},
	"umask":                      {set: `umask = "077"`},
	"nice":                       {set: `nice = 5`},
	"ionice":                     {set: `ionice = "best-effort:6"`},
	"cpu_affinity":               {set: `cpu_affinity = "0"`},
	"scheduling":                 {set: `scheduling = "batch"`},
	"oom_score_adj":              {set: `oom_score_adj = 500`},
	"runtime_directory":          {set: `runtime_directory = "p"`},
	"state_directory":            {set: `state_directory = "p"`},
	"cache_directory":            {set: `cache_directory = "p"`},
	"logs_directory":             {set: `logs_directory = "p"`},
	"runtime_directory_mode":     {`runtime_directory = "p"`, `runtime_directory_mode = "0700"`},
	"state_directory_mode":       {`state_directory = "p"`, `state_directory_mode = "0700"`},
	"cache_directory_mode":       {`cache_directory = "p"`, `cache_directory_mode = "0700"`},
	"logs_directory_mode":        {`logs_directory = "p"`, `logs_directory_mode = "0700"`},
	"runtime_directory_preserve": {`runtime_directory = "p"`, `runtime_directory_preserve = true`},
	"replicas":                   {set: `replicas = 3`},
	"type":                       {set: `type = "oneshot"`},
	"pid_file":                   {`type = "forking"`, `pid_file = "/run/p.pid"`},
	"schedule":                   {`type = "oneshot"`, `schedule = "30 4 * * mon-fri"`},
	"schedule_jitter":            {"type = \"oneshot\"\nschedule = \"@daily\"", `schedule_jitter = "1m"`},
	"schedule_missed":            {"type = \"oneshot\"\nschedule = \"@daily\"", `schedule_missed = "skip"`},
	"autostart":                  {set: `autostart = false`},
	"start":                      {`sockets = ["s"]`, `start = "on-connect"`},
	"essential":                  {set: `essential = true`},
	"requires":                   {set: `requires = ["q"]`},
	"after":                      {set: `after = ["q"]`},
	"restart":                    {set: `restart = "on-failure"`},
	"success_exit_codes":         {set: `success_exit_codes = [0, 3]`},
	"no_restart_exit_codes":      {set: `no_restart_exit_codes = [4, "SIGTERM"]`},
	"backoff.initial":            {set: `backoff.initial = "1s"`},
	"backoff.max":                {set: `backoff.max = "2m"`},
	"backoff.factor":             {set: `backoff.factor = 3.0`},
	"backoff.jitter":             {set: `backoff.jitter = 0.5`},
	"backoff.reset_after":        {set: `backoff.reset_after = "1m"`},
	"start_limit.failures":       {set: `start_limit.failures = 5`},
	"start_limit.within":         {`start_limit.failures = 5`, `start_limit.within = "2m"`},
	"start_limit.retry_after":    {`start_limit.failures = 5`, `start_limit.retry_after = "1h"`},
	"start_timeout":              {set: `start_timeout = "1m"`},
	"watch.paths":                {set: `watch.paths = ["/srv/app"]`},
	"watch.ignore":               {set: `watch.ignore = ["*.log"]`},
	"watch.debounce":             {set: `watch.debounce = "1s"`},
	"watch.signal":               {set: `watch.signal = "SIGHUP"`},
	"watchdog":                   {`ready.notify = true`, `watchdog = "10s"`},
	"stop_signal":                {set: `stop_signal = "SIGINT"`},
	"stop_timeout":               {set: `stop_timeout = "20s"`},
	"kill_mode":                  {set: `kill_mode = "tree"`},
	"kill_signal":                {set: `kill_signal = "SIGABRT"`},
	"final_kill":                 {set: `final_kill = false`},
	"ready.notify":               {set: `ready.notify = true`},
	"ready.fd":                   {set: `ready.fd = 3`},
	"ready.line":                 {set: `ready.line = "up"`},
	"ready.tcp":                  {set: `ready.tcp = "127.0.0.1:80"`},
	"ready.http":                 {set: `ready.http = "http://127.0.0.1:80/up"`},
	"ready.exec":                 {set: `ready.exec = ["/bin/true"]`},
	"ready.interval":             {`ready.exec = ["/bin/true"]`, `ready.interval = "3s"`},
	"ready.timeout":              {`ready.exec = ["/bin/true"]`, `ready.timeout = "3s"`},
	"health.tcp":                 {set: `health.tcp = "127.0.0.1:80"`},
	"health.http":                {set: `health.http = "http://127.0.0.1:80/up"`},
	"health.exec":                {set: `health.exec = ["/bin/true"]`},
	"health.interval":            {`health.tcp = "127.0.0.1:80"`, `health.interval = "3s"`},
	"health.timeout":             {`health.tcp = "127.0.0.1:80"`, `health.timeout = "3s"`},
	"health.failures":            {`health.tcp = "127.0.0.1:80"`, `health.failures = 5`},
	"health.action":              {`health.tcp = "127.0.0.1:80"`, `health.action = "none"`},
	"pre_start":                  {set: `pre_start = [["/bin/a"], ["/bin/b"]]`},
	"post_start":                 {set: `post_start = [["/bin/a"]]`},
	"post_stop":                  {set: `post_stop = [["/bin/a"]]`},
	"hooks_user":                 {"user = \"65534\"\npre_start = [[\"/bin/a\"]]", `hooks_user = "root"`},
	"stop_command":               {set: `stop_command = ["/bin/a"]`},
	"reload_signal":              {set: `reload_signal = "SIGHUP"`},
	"reload_notify":              {"ready.notify = true\nreload_signal = \"SIGHUP\"", `reload_notify = true`},
	"reload_command":             {set: `reload_command = ["/bin/a"]`},
	"check_command":              {set: `check_command = ["/bin/a"]`},
	"log.file":                   {set: `log.file = "/var/log/p.txt"`},
	"log.format":                 {set: `log.format = "json"`},
	"log.max_size":               {set: `log.max_size = "50MB"`},
	"log.keep":                   {set: `log.keep = 3`},
	"log.max_age":                {set: `log.max_age = "24h"`},
	"log.max_total":              {set: `log.max_total = "1GB"`},
	"log.compress":               {set: `log.compress = true`},
	"log.stderr":                 {set: `log.stderr = "separate"`},
	"log.stderr_file":            {`log.stderr = "separate"`, `log.stderr_file = "/var/log/p.err"`},
	"log.overflow":               {set: `log.overflow = "drop"`},
	"log.min_free":               {set: `log.min_free = "1GB"`},
	"log.owner":                  {set: `log.owner = "root"`},
	"log.group":                  {set: `log.group = "root"`},
	"log.mode":                   {set: `log.mode = "0600"`},
	"log.sink":                   {set: `log.sink = "journald"`},
	"log.command":                {set: "log.sink = \"command\"\nlog.command = [\"/bin/a\"]"},
	"log.address":                {`log.sink = "syslog"`, `log.address = "/run/log.sock"`},
	"log.identifier":             {`log.sink = "syslog"`, `log.identifier = "x"`},
	"log.facility":               {`log.sink = "syslog"`, `log.facility = "local3"`},
	"limits.nofile":              {set: `limits.nofile = "512:1024"`},
	"limits.core":                {set: `limits.core = 0`},
	"limits.as":                  {set: `limits.as = "1GB"`},
	"limits.cpu_time":            {set: `limits.cpu_time = "1h"`},
	"limits.data":                {set: `limits.data = "1GB"`},
	"limits.fsize":               {set: `limits.fsize = "1GB"`},
	"limits.memlock":             {set: `limits.memlock = "1KB"`},
	"limits.msgqueue":            {set: `limits.msgqueue = "1KB"`},
	"limits.nice":                {set: `limits.nice = 0`},
	"limits.nproc":               {set: `limits.nproc = 100`},
	"limits.rtprio":              {set: `limits.rtprio = 0`},
	"limits.rttime":              {set: `limits.rttime = "1s"`},
	"limits.sigpending":          {set: `limits.sigpending = 100`},
	"limits.stack":               {set: `limits.stack = "8MiB"`},
	"limits.memory":              {set: `limits.memory = "512MB"`},
	"limits.memory_high":         {set: `limits.memory_high = "400MB"`},
	"limits.swap":                {set: `limits.swap = "100MB"`},
	"limits.cpu":                 {set: `limits.cpu = 0.5`},
	"limits.cpu_weight":          {set: `limits.cpu_weight = 50`},
	"limits.io":                  {set: `limits.io = { "/dev/sda" = { read = "10MB", write_ops = 5 } }`},
	"limits.tasks":               {set: `limits.tasks = 50`},

	"sandbox.preset":               {set: `sandbox.preset = "strict"`},
	"sandbox.best_effort":          {`sandbox.private_tmp = true`, `sandbox.best_effort = true`},
	"sandbox.no_new_privileges":    {set: `sandbox.no_new_privileges = true`},
	"sandbox.capabilities":         {set: `sandbox.capabilities = ["CAP_KILL"]`},
	"sandbox.ambient_capabilities": {set: `sandbox.ambient_capabilities = ["CAP_KILL"]`},
	"sandbox.protect_system":       {set: `sandbox.protect_system = "full"`},
	"sandbox.read_only":            {set: `sandbox.read_only = ["-/opt"]`},
	"sandbox.read_write":           {set: `sandbox.read_write = ["/srv"]`},
	"sandbox.inaccessible":         {set: `sandbox.inaccessible = ["/home"]`},
	"sandbox.private_tmp":          {set: `sandbox.private_tmp = true`},
	"sandbox.private_devices":      {set: `sandbox.private_devices = true`},
	"sandbox.private_network":      {set: `sandbox.private_network = true`},
	"sandbox.root_directory":       {set: `sandbox.root_directory = "/srv/root"`},
	"sandbox.landlock.read":        {set: `sandbox.landlock.read = ["/usr"]`},
	"sandbox.landlock.write":       {set: `sandbox.landlock.write = ["/srv"]`},
	"sandbox.landlock.execute":     {set: `sandbox.landlock.execute = ["/usr"]`},
	"sandbox.landlock.bind_tcp":    {set: `sandbox.landlock.bind_tcp = [80]`},
	"sandbox.landlock.connect_tcp": {set: `sandbox.landlock.connect_tcp = [80]`},
	"sandbox.syscalls.allow":       {set: `sandbox.syscalls.allow = ["@system-service"]`},
	"sandbox.syscalls.deny":        {set: `sandbox.syscalls.deny = ["@mount"]`},
	"sandbox.syscalls.errno":       {`sandbox.syscalls.deny = ["@mount"]`, `sandbox.syscalls.errno = "ENOSYS"`},
	"sandbox.address_families":     {set: `sandbox.address_families = ["AF_UNIX"]`},
	"sandbox.deny_write_execute":   {set: `sandbox.deny_write_execute = true`},
	"sockets":                      {set: `sockets = ["s"]`},
	"socket_pass":                  {`sockets = ["s"]`, `socket_pass = "fd"`},
	"idle_timeout":                 {"sockets = [\"s\"]\nstart = \"on-connect\"", `idle_timeout = "1m"`},
	"accept":                       {"sockets = [\"s\"]\nstart = \"on-connect\"\nsocket_pass = \"stdin\"", `accept = true`},
	"max_connections":              {"sockets = [\"s\"]\nstart = \"on-connect\"\naccept = true", `max_connections = 5`},
	"max_connections_per_source":   {"sockets = [\"s\"]\nstart = \"on-connect\"\naccept = true", `max_connections_per_source = 5`},
	"rolling.surge":                {"replicas = 3\nrolling.max_unavailable = 1", `rolling.surge = 2`},
	"rolling.max_unavailable":      {"replicas = 3\nrolling.surge = 1", `rolling.max_unavailable = 2`},
	"rolling.pause":                {`rolling.surge = 1`, `rolling.pause = "2s"`},
	"rolling.abort_on_failure":     {`rolling.surge = 1`, `rolling.abort_on_failure = false`},
	"rolling.wait_timeout":         {`rolling.surge = 1`, `rolling.wait_timeout = "1m"`},
	"drain_timeout":                {`rolling.surge = 1`, `drain_timeout = "1m"`},
	"socket.listen":                {`sockets = ["s"]`, `[socket.s] listen = [":82", "udp::83"]`},
	"socket.backlog":               {`sockets = ["s"]`, `[socket.s] backlog = 5`},
	"socket.mode":                  {`sockets = ["u"]`, `[socket.u] mode = "0600"`},
	"socket.user":                  {`sockets = ["u"]`, `[socket.u] user = "root"`},
	"socket.group":                 {`sockets = ["u"]`, `[socket.u] group = "root"`},
	"socket.fdname":                {`sockets = ["s"]`, `[socket.s] fdname = "x"`},
	"socket.reuse_port":            {`sockets = ["s"]`, `[socket.s] reuse_port = true`},
	"socket.free_bind":             {`sockets = ["s"]`, `[socket.s] free_bind = true`},
	"socket.device":                {`sockets = ["s"]`, `[socket.s] device = "lo"`},
	"socket.no_delay":              {`sockets = ["s"]`, `[socket.s] no_delay = true`},
	"socket.keep_alive":            {`sockets = ["s"]`, `[socket.s] keep_alive = true`},
	"socket.non_blocking":          {`sockets = ["s"]`, `[socket.s] non_blocking = true`},
}

// configuration returns one with the program p, without or with the key.
func (s sample) configuration(with bool) string {
	tables := map[string]string{"s": "listen = \":81\"\n", "u": "listen = \"unix:/run/u.sock\"\n"}
	program := "[program.p]\n" + s.base + "\n"
	if with {
		name, line, ofSocket := strings.Cut(strings.TrimPrefix(s.set, "[socket."), "] ")
		switch {
		case ofSocket && strings.HasPrefix(line, "listen"):
			tables[name] = line + "\n"
		case ofSocket:
			tables[name] += line + "\n"
		default:
			program += s.set + "\n"
		}
	}
	if !strings.Contains(program, "\ncommand") {
		program += "command = [\"/bin/p\"]\n"
	}
	text := program + "[program.q]\ncommand = [\"/bin/q\"]\n"
	for _, name := range []string{"s", "u"} {
		if strings.Contains(s.base+s.set, `"`+name+`"]`) {
			text += "[socket." + name + "]\n" + tables[name]
		}
	}
	return text
}

// TestEveryKey: a key that is set changes the export, or a note names it.
func TestEveryKey(t *testing.T) {
	dir := t.TempDir()
	for _, k := range config.Describe() {
		key := k.Name
		switch k.Table {
		case "program":
		case "socket":
			key = "socket." + k.Name
		default:
			continue
		}
		s, ok := samples[key]
		if !ok {
			t.Errorf("there is no sample for %s", key)
			continue
		}
		without, with := loadText(t, dir, s.configuration(false)), loadText(t, dir, s.configuration(true))
		for _, f := range exporter.Formats() {
			plain, err := f.Export(without, options)
			if err != nil {
				t.Fatal(err)
			}
			changed, err := f.Export(with, options)
			if err != nil {
				t.Fatal(err)
			}
			named := false
			for _, n := range changed.Notes {
				named = named || n.Key == "program.p."+key || strings.HasPrefix(n.Key, "socket.") &&
					strings.HasSuffix(n.Key, "."+k.Name)
			}
			if same := bodies(plain) == bodies(changed); same && !named && !implied[key+" "+f.Name] {
				t.Errorf("%s for %s: neither the export nor a note has it:\n%s", key, f.Name, bodies(changed))
			}
		}
	}
}

// implied are keys with a value that a target has anyway.
var implied = map[string]bool{
	"inherit_environment systemd":    true, // no unit inherits an environment
	"inherit_environment kubernetes": true, // no container does
	"inherit_environment compose":    true,
}

// bodies returns the files of an export without comments and marks.
func bodies(e *manifest.Export) string {
	var b strings.Builder
	for _, f := range e.Files {
		b.WriteString(f.Name + "\n")
		for line := range strings.Lines(f.Text) {
			if strings.HasPrefix(strings.TrimSpace(line), "#") {
				continue
			}
			b.WriteString(line)
		}
	}
	return b.String()
}

// TestKeysFile: testdata/keys.toml has a program for each sample. tests/engines gives its exports
// to those who read them.
func TestKeysFile(t *testing.T) {
	var b strings.Builder
	b.WriteString("# A program for each key: go test ./exporter -run KeysFile -update\n\n" +
		"[program.q]\ncommand = [\"/bin/q\"]\n")
	for i, key := range slices.Sorted(maps.Keys(samples)) {
		s := samples[key]
		name := strings.NewReplacer(".", "-", "_", "-").Replace(key)
		text := s.configuration(true)
		before, after, _ := strings.Cut(text, "[program.q]\ncommand = [\"/bin/q\"]\n")
		text = before + after
		port := func(n int) string { return fmt.Sprintf("%d", 10_000+10*i+n) }
		for _, r := range [][2]string{
			{"[program.p]", "[program." + name + "]"}, {`"p"`, `"` + name + `"`}, {"/p.", "/" + name + "."},
			{"[socket.s]", "[socket." + name + "-s]"}, {"[socket.u]", "[socket." + name + "-u]"},
			{`sockets = ["s"]`, `sockets = ["` + name + `-s"]`}, {`sockets = ["u"]`, `sockets = ["` + name + `-u"]`},
			{"/run/u.sock", "/run/" + name + ".sock"},
			{`":81"`, `":` + port(1) + `"`}, {`":82"`, `":` + port(2) + `"`}, {`"udp::83"`, `"udp::` + port(3) + `"`},
		} {
			text = strings.ReplaceAll(text, r[0], r[1])
		}
		b.WriteString("\n" + strings.ReplaceAll(text, "\n\n", "\n"))
	}
	golden.Check(t, "keys.toml", b.String())
	readCase(t, "testdata/keys.toml")
}
