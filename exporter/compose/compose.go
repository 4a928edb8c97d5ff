// Package compose exports programs as the services of a compose.yaml of Docker.
//
// The keys are those of the Compose Specification.
package compose

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"superd/config"
	"superd/config/codec"
	"superd/config/directory"
	"superd/exporter/manifest"
	"superd/exporter/mark"
	"superd/exporter/yamltext"
	"superd/internal/rlimit"
	"superd/internal/signame"
)

// Format is the name of the format.
const Format = "compose"

// fileName is where `docker compose` looks for services.
const fileName = "compose.yaml"

// Export writes one file with the services.
func Export(c *config.Config, o manifest.Options) (*manifest.Export, error) {
	s, err := manifest.New(c, o, ID)
	if err != nil {
		return nil, err
	}
	e := &exporting{Source: s, volumes: yamltext.Of()}
	services := yamltext.Of()
	for _, p := range s.Programs {
		p.Apply(Rules())
		for _, one := range e.services(p) {
			services.Set(one.name, one.service)
		}
	}
	root := yamltext.Of("name", project(o.Name), "services", services, "volumes", e.volumes)
	text, err := yamltext.Text(root.Head(s.Comments()))
	if err != nil {
		return nil, err
	}
	return s.Result(manifest.File{Name: fileName, Text: text}), nil
}

// An exporting holds what the services of one export share.
type exporting struct {
	*manifest.Source
	volumes *yamltext.Map
}

// ID returns the name of a service that is nearest to a name.
func ID(name string) string { return strings.ReplaceAll(name, ".", "-") }

// project returns the name of a project that is nearest to a name.
func project(name string) string { return strings.TrimLeft(strings.ToLower(ID(name)), "_-") }

// notation is how Compose writes texts: a dollar sign begins a variable of the file.
var notation = manifest.Notation{Escape: escape}

func escape(s string) string { return strings.ReplaceAll(s, "$", "$$") }

// An entry is a service with its name.
type entry struct {
	name    string
	service *yamltext.Map
}

// services returns the service of a program, and one for each of its hooks before the start.
func (e *exporting) services(p *manifest.Program) (all []entry) {
	before := ""
	for i, hook := range p.PreStart {
		name := fmt.Sprintf("%s-pre-start-%d", p.ID, i+1)
		s := e.container(p, "pre_start", hook, p.HooksUser).Set("restart", "no").Set("profiles", profiles(p))
		if before != "" {
			s.Set("depends_on", yamltext.Of(before, yamltext.Of("condition", "service_completed_successfully")))
		} else {
			s.Set("depends_on", e.dependencies(p, "")) // hooks run when what it requires is up
		}
		before = name
		all = append(all, entry{name, s})
	}
	s := e.container(p, "command", p.Command, "")
	e.main(p, s)
	s.Set("depends_on", e.dependencies(p, before))
	return append(all, entry{p.ID, s.Head(p.Comments())})
}

// container returns what the program and its hooks have in common.
func (e *exporting) container(p *manifest.Program, key string, command []string, user string) *yamltext.Map {
	if user == "" {
		user = p.User
	}
	// Docker appends `command` to the entrypoint of the image
	s := yamltext.Of("image", escape(p.Image()), "entrypoint", p.Arguments(key, command, notation),
		"command", yamltext.EmptyList{})
	if p.OwnDirectory() {
		s.Set("working_dir", p.Text("directory", p.Directory, notation))
	}
	if user != "" {
		s.Set("user", user)
	}
	if len(p.SupplementaryGroups) > 0 {
		s.Set("group_add", p.SupplementaryGroups)
	}
	env := yamltext.Of()
	for _, v := range p.Variables(notation) {
		env.Set(v.Name, v.Value)
	}
	var mounts []*yamltext.Map
	for kind := range directory.Kinds {
		var paths []string
		for _, d := range p.DirectoriesOf(notation) {
			if d.Kind == kind {
				paths = append(paths, d.Path)
			}
		}
		if paths != nil && env.Get(kind.Variable()) == nil {
			env.Set(kind.Variable(), strings.Join(paths, ":"))
		}
		for i, path := range paths {
			mounts = append(mounts, e.mount(p, kind, i, path))
		}
	}
	if p.Sandbox != nil && p.Sandbox.PrivateTmp {
		for _, path := range []string{"/tmp", "/var/tmp"} {
			mounts = append(mounts, yamltext.Of("type", "tmpfs", "target", path))
		}
	}
	s.Set("environment", env)
	var files []*yamltext.Map
	for _, file := range p.EnvFiles {
		f := yamltext.Of("path", escape(file.Path))
		if file.Optional {
			f.Set("required", false)
		}
		files = append(files, f.Set("format", "raw"))
	}
	return s.Set("env_file", files).Set("volumes", mounts)
}

// mount returns the mount for a directory of a program.
func (e *exporting) mount(p *manifest.Program, kind directory.Kind, i int, path string) *yamltext.Map {
	if kind == directory.Runtime {
		return yamltext.Of("type", "tmpfs", "target", path)
	}
	name := fmt.Sprintf("%s-%s-%d", p.ID, strings.ReplaceAll(kind.Key(), "_", "-"), i+1)
	if e.volumes.Get(name) == nil {
		e.volumes.Set(name, yamltext.Present())
	}
	return yamltext.Of("type", "volume", "source", name, "target", path)
}

// main sets what the service of the program has beside its hooks.
func (e *exporting) main(p *manifest.Program, s *yamltext.Map) {
	restart := map[config.Restart]string{config.RestartAlways: "always", config.RestartNever: "no",
		config.RestartOnFailure: "on-failure"}[p.Restart]
	if p.Restart == config.RestartOnFailure && p.StartLimit.Failures > 0 {
		restart = fmt.Sprintf("on-failure:%d", p.StartLimit.Failures)
	}
	s.Set("restart", restart)
	if p.Replicas != 1 {
		s.Set("scale", p.Replicas)
	}
	s.Set("profiles", profiles(p))
	labels := yamltext.Of()
	for _, group := range p.Groups {
		labels.Set(mark.GroupLabel+group, "true")
	}
	if p.Oneshot() {
		labels.Set(mark.TypeLabel, string(config.TypeOneshot))
	}
	s.Set("labels", labels)
	if p.PTY {
		s.Set("tty", true)
	}
	if p.StopTimeout == 0 {
		s.Set("stop_signal", "SIGKILL")
	} else if p.StopSignal != syscall.SIGTERM {
		s.Set("stop_signal", signame.Name(p.StopSignal))
	}
	grace := max(p.StopTimeout, time.Second)
	if p.StopCommand != nil {
		grace *= 2 // the command has as long as the signal after it
	}
	s.Set("stop_grace_period", grace.String())
	if a := p.Attributes; a.OOMScoreAdj != nil {
		s.Set("oom_score_adj", *a.OOMScoreAdj)
	}
	if a := p.Attributes; a.CPUAffinity != nil {
		s.Set("cpuset", strings.Trim(codec.ShowCPUs(a.CPUAffinity), `"`))
	}
	s.Set("healthcheck", healthcheck(p))
	hooks(p, s)
	for _, port := range p.Ports() {
		protocol := "tcp"
		if port.UDP {
			protocol = "udp"
		}
		s.Append("ports", published(port, protocol))
	}
	limits(p, s)
	s.Set("logging", logging(p))
	restrictions(p, s)
}

// published returns a port of the host that leads to the same port of a container.
func published(port manifest.Port, protocol string) *yamltext.Map {
	m := yamltext.Of("target", port.Number, "published", strconv.Itoa(port.Number))
	if port.Host != "" {
		m.Set("host_ip", port.Host) // otherwise Docker opens it on all interfaces
	}
	return m.Set("protocol", protocol)
}

// manualProfile is that of services that do not start with the others.
const manualProfile = "manual"

// profiles returns those of the services of a program; nil: they start with the others.
func profiles(p *manifest.Program) []string {
	if p.Autostart && p.Schedule == "" {
		return nil
	}
	return []string{manualProfile}
}

// healthcheck returns the check by a command: Docker has no other. Without health it is that of
// ready.
func healthcheck(p *manifest.Program) *yamltext.Map {
	check, failures := p.HealthCheck(notation), 0
	if check != nil {
		failures = check.Failures
	} else {
		check, failures = p.ReadyCheck(notation), 1
	}
	if p.ReadyCheck(notation) != nil && p.HealthCheck(notation) != nil && p.Ready.Exec != nil {
		p.Note("ready.exec", "a container has one check: it is that of health")
		for _, key := range []string{"ready.interval", "ready.timeout"} {
			if p.Set(key) {
				p.Note(key, "a container has one check: it is that of health")
			}
		}
	}
	if check == nil || check.Exec == nil {
		return nil
	}
	if strings.HasPrefix(check.Key, "ready.") {
		for _, key := range []string{"ready.exec", "ready.interval", "ready.timeout"} {
			if p.Set(key) {
				p.Note(key, "a healthcheck goes on while the program runs")
			}
		}
	}
	return yamltext.Of("test", append([]string{"CMD"}, check.Exec...), "interval", check.Interval.String(),
		"timeout", check.Timeout.String(), "retries", failures, "start_period", p.StartTimeout.String())
}

func hooks(p *manifest.Program, s *yamltext.Map) {
	for _, hook := range p.PostStart {
		h := yamltext.Of("command", p.Arguments("post_start", hook, notation))
		if p.HooksUser != "" {
			h.Set("user", p.HooksUser)
		}
		s.Append("post_start", h)
	}
	if p.StopCommand != nil {
		h := yamltext.Of("command", p.Arguments("stop_command", p.StopCommand, notation))
		if p.HooksUser != "" {
			h.Set("user", p.HooksUser)
		}
		s.Append("pre_stop", h)
	}
}

// dependencies returns depends_on: what has to be ready, has to have run, or only begins before it.
func (e *exporting) dependencies(p *manifest.Program, before string) *yamltext.Map {
	m := yamltext.Of()
	if before != "" {
		m.Set(before, yamltext.Of("condition", "service_completed_successfully"))
	}
	for i, name := range append(append([]string{}, p.Requires...), p.After...) {
		other := e.Named(name)
		if other == nil || m.Get(other.ID) != nil {
			continue
		}
		condition := "service_started"
		if i < len(p.Requires) {
			switch {
			case other.Oneshot():
				condition = "service_completed_successfully"
			case healthcheck(other) != nil:
				condition = "service_healthy"
			}
		}
		d := yamltext.Of("condition", condition)
		if !other.Autostart || other.Schedule != "" || i >= len(p.Requires) {
			d.Set("required", false)
		}
		m.Set(other.ID, d)
	}
	return m
}

// rlimitNames are the limits that Docker has.
var rlimitNames = map[rlimit.Resource]string{rlimit.CPUTime: "cpu", rlimit.AS: "as"}

func limits(p *manifest.Program, s *yamltext.Map) {
	l := p.Limits
	if l.Memory != nil {
		s.Set("mem_limit", fmt.Sprintf("%db", *l.Memory))
	}
	if l.MemoryHigh != nil {
		s.Set("mem_reservation", fmt.Sprintf("%db", *l.MemoryHigh))
		p.Note("limits.memory_high", "mem_reservation holds where memory is short only")
	}
	switch {
	case l.Swap != nil && l.Memory != nil:
		s.Set("memswap_limit", fmt.Sprintf("%db", *l.Memory+*l.Swap))
	case l.Swap != nil:
		p.Note("limits.swap", "Docker limits memory and swap together: set limits.memory, too")
	}
	if l.CPU != nil {
		s.Set("cpus", strconv.FormatFloat(*l.CPU, 'f', -1, 64))
	}
	if l.Tasks != nil {
		s.Set("pids_limit", *l.Tasks)
	}
	throttles := yamltext.Of()
	for _, io := range l.IO {
		for _, rate := range []struct {
			key   string
			value *int64
		}{{"device_read_bps", io.Read}, {"device_write_bps", io.Write},
			{"device_read_iops", io.ReadOps}, {"device_write_iops", io.WriteOps}} {
			if rate.value != nil {
				throttles.Append(rate.key, yamltext.Of("path", escape(io.Path), "rate", *rate.value))
			}
		}
	}
	s.Set("blkio_config", throttles)
	ulimits := yamltext.Of()
	for _, limit := range l.Rlimits {
		value := func(n uint64) int64 {
			if n == rlimit.Infinity {
				return -1
			}
			return int64(n)
		}
		name := rlimitNames[limit.Resource]
		if name == "" {
			name = limit.Resource.String()
		}
		ulimits.Set(name, yamltext.Of("soft", value(limit.Soft), "hard", value(limit.Hard)))
	}
	s.Set("ulimits", ulimits)
}

func logging(p *manifest.Program) *yamltext.Map {
	options := yamltext.Of()
	driver := "json-file"
	switch p.Log.Sink {
	case config.SinkJournald:
		driver = "journald"
		options.Set("tag", escape(tag(p)))
	case config.SinkSyslog:
		driver = "syslog"
		if p.Log.Address != "" {
			address := p.Log.Address
			if strings.HasPrefix(address, "/") {
				address = "unixgram://" + address
			}
			options.Set("syslog-address", escape(address))
		}
		options.Set("syslog-facility", string(p.Log.Facility)).Set("tag", escape(tag(p)))
	default:
		if p.Log.MaxSize > 0 {
			options.Set("max-size", strconv.FormatInt(p.Log.MaxSize, 10)).Set("max-file", strconv.Itoa(p.Log.Keep+1))
		}
		if p.Log.Compress == config.CompressGzip {
			options.Set("compress", "true")
		}
	}
	if p.Log.Address != "" && p.Log.Sink != config.SinkSyslog {
		p.Note("log.address", "Docker has its own way to journald")
	}
	return yamltext.Of("driver", driver, "options", options)
}

func tag(p *manifest.Program) string {
	if p.Log.Identifier != "" {
		return p.Log.Identifier
	}
	return p.Name
}

// restrictions writes what Docker has of a sandbox.
func restrictions(p *manifest.Program, s *yamltext.Map) {
	box := p.Sandbox
	if box == nil {
		return
	}
	if box.NoNewPrivileges != nil && *box.NoNewPrivileges {
		s.Set("security_opt", []string{"no-new-privileges:true"})
	}
	if box.Capabilities != nil {
		s.Set("cap_drop", []string{"ALL"})
		var add []string
		for _, c := range box.Capabilities {
			add = append(add, strings.TrimPrefix(c, "CAP_"))
		}
		s.Set("cap_add", add)
	}
	if box.ProtectSystem == "strict" {
		s.Set("read_only", true)
	}
	if box.PrivateNetwork {
		s.Set("network_mode", "none")
	}
}
