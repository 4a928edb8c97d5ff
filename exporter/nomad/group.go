package nomad

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"superd/config"
	"superd/exporter/manifest"
	"superd/internal/signame"
)

// arguments is how Nomad writes what is in a block config: the driver reads it as a template of HCL
// when the task starts. The job itself is read as HCL before, for which quote escapes it once more.
func arguments(p *manifest.Program) manifest.Notation {
	return manifest.Notation{
		Escape: escapeTemplate,
		Before: func(s string) string {
			if s, ok := strings.CutSuffix(s, "$"); ok { // $${ would be no reference
				return escapeTemplate(s) + `${"$"}`
			}
			return escapeTemplate(s)
		},
		Reference: func(name string) (string, bool) {
			return "${" + name + "}", len(p.EnvFiles) > 0
		},
		Inherits: true,
	}
}

// values is how Nomad writes values of variables: it replaces ${X} by another variable of the task
// or an attribute of the client if there is one, and nothing keeps it from that. Those of env files
// it has later. Source: Builder.buildEnv of Nomad.
func values(p *manifest.Program) manifest.Notation {
	n := arguments(p)
	n.Before = nil
	n.Escape = func(s string) string {
		if found := reference.FindString(s); found != "" {
			p.Note("environment", "Nomad replaces %s if the task has such a variable: write another value", found)
		}
		return s
	}
	n.Reference = func(name string) (string, bool) {
		p.Note("environment", "${%s} is not known when Nomad makes the values: write its value", name)
		return "${" + name + "}", true
	}
	return n
}

// reference matches what Nomad may replace in a value. Source: args.ReplaceEnv of Nomad.
var reference = regexp.MustCompile(`\$\{[a-zA-Z0-9_.-]+\}`)

// group returns the group of a program.
func group(p *manifest.Program) *block {
	g := newBlock("group", p.ID)
	g.set("count", count(p))
	if len(p.Groups) > 0 {
		g.add(newBlock("meta").set("superd_groups", strings.Join(p.Groups, ",")))
	}
	n := arguments(p)
	task := newBlock("task", p.ID)
	services, ports := services(p, n)
	main := mainTask(p, task, n)
	hooks := hookTasks(p, n)
	g.add(network(ports), restart(p), reschedule(p), update(p, n), disk(p))
	g.add(services...)
	g.add(hooks...)
	g.add(main)
	g.comments = p.Comments()
	return g
}

func count(p *manifest.Program) int {
	if !p.Autostart && p.Schedule == "" && (p.Sockets == nil || !p.Sockets.OnConnect) {
		p.Note("autostart", "its count is 0 until `nomad job scale` changes it: it was %d", p.Replicas)
		return 0
	}
	return p.Replicas
}

// mainTask fills the task of the program itself.
func mainTask(p *manifest.Program, task *block, n manifest.Notation) *block {
	command(p, task, "command", p.Command, n)
	if p.StopTimeout == 0 {
		task.set("kill_signal", "SIGKILL")
	} else {
		task.set("kill_signal", signame.Name(p.StopSignal)).set("kill_timeout", p.StopTimeout.String())
		checkSignal(p)
	}
	task.add(resources(p), logs(p))
	return task
}

// checkSignal notes a signal that Nomad does not know.
func checkSignal(p *manifest.Program) {
	if p.StopSignal > syscall.Signal(31) {
		p.Note("stop_signal", "Nomad knows no real-time signals: write another one")
	}
}

// command adds what a task of the program or of a hook has: the command, its user and environment.
func command(p *manifest.Program, task *block, key string, argv []string, n manifest.Notation) {
	task.set("driver", "raw_exec")
	if p.User != "" {
		task.set("user", p.User)
	}
	args := p.Arguments(key, argv, n)
	config := newBlock("config").set("command", args[0]).set("args", args[1:])
	if !strings.HasPrefix(args[0], "/") {
		p.Note(key, "raw_exec looks for %s in the allocation and then in the agent's PATH: write its whole path", args[0])
	}
	config.set("work_dir", p.Text("directory", p.Directory, n))
	if p.Attributes.OOMScoreAdj != nil {
		config.set("oom_score_adj", *p.Attributes.OOMScoreAdj)
	}
	task.add(config)
	env := newBlock("env")
	for _, v := range p.Variables(values(p)) {
		if !identifier.MatchString(v.Name) {
			p.Note("environment", "HCL has no such name as %s: rename it", v.Name)
			continue
		}
		env.set(v.Name, v.Value)
	}
	task.add(env)
	for i, file := range p.EnvFiles {
		task.add(newBlock("template").set("source", file.Path).
			set("destination", fmt.Sprintf("secrets/%d.env", i+1)).set("env", true))
	}
}

// identifier matches what may be the name of an attribute of HCL.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// hookTasks returns the tasks of the hooks.
func hookTasks(p *manifest.Program, n manifest.Notation) (all []*block) {
	for _, kind := range []struct {
		key, hook string
		commands  [][]string
	}{{"pre_start", "prestart", p.PreStart}, {"post_start", "poststart", p.PostStart}, {"post_stop", "poststop", p.PostStop}} {
		for i, argv := range kind.commands {
			task := newBlock("task", fmt.Sprintf("%s-%s-%d", p.ID, kind.hook, i+1))
			task.add(newBlock("lifecycle").set("hook", kind.hook).set("sidecar", false))
			command(p, task, kind.key, argv, n)
			all = append(all, task)
		}
	}
	return all
}

// restart returns the policy of restarts on the same client.
func restart(p *manifest.Program) *block {
	b := newBlock("restart")
	if p.Restart == config.RestartNever {
		return b.set("attempts", 0).set("mode", "fail")
	}
	const usual = time.Minute
	interval, attempts, mode := usual, int(usual/max(p.Backoff.Initial, time.Second)), "delay"
	if limit := p.StartLimit; limit.Failures > 0 {
		interval, attempts = max(limit.Within, leastInterval), limit.Failures
		if limit.RetryAfter == 0 {
			mode = "fail"
		}
	}
	// Nomad wants room for all attempts in an interval
	interval = max(interval, time.Duration(max(attempts, 1))*p.Backoff.Initial)
	return b.set("attempts", max(attempts, 1)).set("interval", interval.String()).
		set("delay", p.Backoff.Initial.String()).set("mode", mode)
}

// reschedule keeps what shall not run again from being started on another client.
func reschedule(p *manifest.Program) *block {
	gives := p.StartLimit.Failures > 0 && p.StartLimit.RetryAfter == 0
	if p.Restart != config.RestartNever && !gives {
		return nil
	}
	return newBlock("reschedule").set("attempts", 0).set("unlimited", false)
}

// update returns how a changed job replaces allocations.
func update(p *manifest.Program, n manifest.Notation) *block {
	if p.Oneshot() {
		return nil
	}
	r := p.Rolling
	if r == nil {
		return deadline(newBlock("update").set("max_parallel", 0), p.StopTimeout) // all at once
	}
	b := newBlock("update").set("max_parallel", max(r.MaxUnavailable, 1))
	if r.Surge > 0 {
		b.set("canary", r.Surge).set("auto_promote", true)
		p.Note("rolling.surge", "they are canaries: Nomad starts them once, before it stops the others")
	}
	health := "task_states"
	if check := p.ReadyCheck(n); check != nil && check.Exec == nil {
		health = "checks"
	}
	// Source: structs.UpdateStrategy.Validate and structs.Task.Validate of Nomad
	healthy := max(p.StartTimeout, r.Pause+time.Second)
	b.set("health_check", health).set("min_healthy_time", r.Pause.String()).set("healthy_deadline", healthy.String())
	progress := r.WaitTimeout
	if progress > 0 { // 0: without limit, there as here
		progress = max(progress, healthy+time.Second, p.StopTimeout)
	}
	return b.set("progress_deadline", progress.String())
}

// usualDeadline is the progress_deadline of an update unless a job says otherwise.
const usualDeadline = 10 * time.Minute

// deadline sets a progress_deadline in a block update if a stop may take longer than the usual one,
// which Nomad would refuse.
func deadline(b *block, stop time.Duration) *block {
	if stop > usualDeadline {
		b.set("progress_deadline", stop.String())
	}
	return b
}

// A port is one that a group has on its client.
type port struct {
	label  string
	number int
}

// services returns the services with the checks of a program, and the ports that they need.
func services(p *manifest.Program, n manifest.Notation) (all []*block, ports []port) {
	for _, one := range p.Ports() {
		ports = append(ports, port{portLabel(one.Number), one.Number})
	}
	for _, c := range []struct {
		table string
		check *manifest.Check
	}{{"ready", p.ReadyCheck(n)}, {"health", p.HealthCheck(n)}} {
		if c.check == nil || c.check.Exec != nil {
			continue
		}
		number, _ := strconv.Atoi(c.check.Port)
		ports = append(ports, port{portLabel(number), number})
		if c.check.Loopback() {
			p.Note(c.check.Key, "Nomad connects to the address of the client: the program has to listen there, not on the "+
				"loopback interface only")
		} else if !c.check.Local() {
			p.Note(c.check.Key, "Nomad connects to the address of the client, not to %s", c.check.Host)
		}
		check := checkBlock(c.table, c.check)
		if c.table == "health" && p.Health.Action == config.HealthRestart {
			check.add(newBlock("check_restart").set("limit", c.check.Failures).set("grace", p.StartTimeout.String()))
		}
		all = append(all, newBlock("service").set("name", serviceName(p)+"-"+c.table).set("provider", "nomad").
			set("port", portLabel(number)).add(check))
	}
	if len(all) == 0 && len(ports) > 0 {
		all = append(all, newBlock("service").set("name", serviceName(p)).set("provider", "nomad").set("port", ports[0].label))
	}
	return all, ports
}

func checkBlock(name string, c *manifest.Check) *block {
	b := newBlock("check").set("name", name)
	if c.Path == "" {
		b.set("type", "tcp")
	} else {
		b.set("type", "http").set("path", c.Path)
		if c.HTTPS {
			b.set("protocol", "https")
		}
	}
	// Source: structs.ServiceCheck.validate of Nomad, minCheckInterval and minCheckTimeout
	const least = time.Second
	return b.set("interval", max(c.Interval, least).String()).set("timeout", max(c.Timeout, least).String())
}

func portLabel(number int) string { return fmt.Sprintf("port_%d", number) }

func network(ports []port) *block {
	b := newBlock("network")
	seen := map[string]bool{}
	for _, one := range ports {
		if !seen[one.label] {
			seen[one.label] = true
			b.add(newBlock("port", one.label).set("static", one.number))
		}
	}
	return b
}

// mebibyte is Nomad's unit of memory and of sizes of logs.
const mebibyte = 1 << 20

func resources(p *manifest.Program) *block {
	if p.Limits.Memory == nil {
		return nil
	}
	const least = 10 // Source: structs.MinResources of Nomad
	return newBlock("resources").set("memory", max(least, (*p.Limits.Memory+mebibyte-1)/mebibyte))
}

// logSizes returns the number and the size of the files of a task's output, in MiB.
func logSizes(p *manifest.Program) (files int, size int64) {
	return p.Log.Keep + 1, max(1, (p.Log.MaxSize+mebibyte-1)/mebibyte)
}

func logs(p *manifest.Program) *block {
	if p.Log.MaxSize == 0 {
		p.Note("log.max_size", "Nomad rotates always: it is 1 MiB")
	}
	files, size := logSizes(p)
	return newBlock("logs").set("max_files", files).set("max_file_size", size)
}

// usualDisk is the size of an allocation's disk unless a job says otherwise, in MiB. Nomad wants it
// to be larger than the logs of all its tasks.
const usualDisk = 300

func disk(p *manifest.Program) *block {
	const usualLogs = 100 // of a task of a hook
	files, size := logSizes(p)
	need := int64(files)*size + int64(usualLogs*(len(p.PreStart)+len(p.PostStart)+len(p.PostStop)))
	if need < usualDisk {
		return nil
	}
	return newBlock("ephemeral_disk").set("size", need+usualDisk)
}
