package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"superd/config"
	"superd/exporter/manifest"
	"superd/exporter/yamltext"
	"superd/internal/signame"
)

// notation is how Kubernetes writes commands and values of variables: $(X) is replaced, and $$
// stands for a dollar sign.
func notation(p *manifest.Program) manifest.Notation {
	return manifest.Notation{
		Escape: escape,
		Before: func(s string) string {
			if strings.HasSuffix(s, "$") { // $$(X) would be no reference
				return strings.ReplaceAll(s, "$", "$$")
			}
			return escape(s)
		},
		Reference: func(name string) (string, bool) {
			return "$(" + name + ")", len(p.EnvFiles) > 0
		},
	}
}

// escape doubles dollar signs if the kubelet would change one. Source: expansion.Expand of
// Kubernetes, which also takes the first byte behind a dollar sign for a character.
func escape(s string) string {
	if changed.MatchString(s) {
		return strings.ReplaceAll(s, "$", "$$")
	}
	return s
}

var changed = regexp.MustCompile(`\$[$(]|\$[^\x00-\x7f]`)

// probeNotation is how Kubernetes writes the commands of probes: it knows no variables of Secrets
// there. Source: ExpandContainerCommandOnlyStatic of the kubelet.
var probeNotation = manifest.Notation{Escape: escape}

// literal is how Kubernetes writes what it changes nothing in: paths and the commands of hooks.
var literal = manifest.Notation{Escape: func(s string) string { return s }}

// podSpec returns the pod of a program.
func podSpec(p *manifest.Program) *yamltext.Map {
	n := notation(p)
	main := container(p, p.ID, "command", p.Command, n)
	if p.PTY {
		main.Set("tty", true)
	}
	for _, port := range p.Ports() {
		main.Append("ports", yamltext.Of("name", portName(port), "containerPort", port.Number, "protocol", protocol(port)))
	}
	probes(p, main)
	main.Set("lifecycle", lifecycle(p))
	main.Set("resources", resources(p))

	spec := yamltext.Of("terminationGracePeriodSeconds", grace(p))
	if p.Oneshot() {
		policy := "Never"
		if p.Restart == config.RestartOnFailure {
			policy = "OnFailure"
		}
		spec.Set("restartPolicy", policy)
	}
	spec.Set("securityContext", podSecurity(p))
	var volumes []*yamltext.Map
	var hooks []*yamltext.Map
	for i, hook := range p.PreStart {
		c := container(p, fmt.Sprintf("pre-start-%d", i+1), "pre_start", hook, n)
		if user, ok := number(p.HooksUser); ok {
			c.Set("securityContext", security(p, yamltext.Of("runAsUser", user)))
		}
		hooks = append(hooks, c)
	}
	for i, d := range directories(p) {
		name := fmt.Sprintf("directory-%d", i+1)
		volumes = append(volumes, volume(p, name, d.kind))
		mount := yamltext.Of("name", name, "mountPath", d.path)
		if d.subPath != "" {
			mount.Set("subPath", d.subPath)
		}
		for _, c := range append(slices.Clip(hooks), main) {
			c.Append("volumeMounts", mount)
		}
	}
	return spec.Set("initContainers", hooks).Set("containers", []*yamltext.Map{main}).Set("volumes", volumes)
}

// container returns what the program and its hooks have in common.
func container(p *manifest.Program, name, key string, command []string, n manifest.Notation) *yamltext.Map {
	c := yamltext.Of("name", name, "image", p.Image(), "command", p.Arguments(key, command, n))
	if p.OwnDirectory() {
		c.Set("workingDir", p.Text("directory", p.Directory, literal))
	}
	for i, file := range p.EnvFiles {
		secret := p.ID + "-env"
		if i > 0 {
			secret = fmt.Sprintf("%s-%d", secret, i+1)
		}
		source := yamltext.Of("name", secret)
		if file.Optional {
			source.Set("optional", true)
		}
		c.Append("envFrom", yamltext.Of("secretRef", source))
		p.Note("env_file", "make the Secret: kubectl create secret generic %s --from-env-file=%s", secret, file.Path)
	}
	for _, v := range p.Variables(n) {
		c.Append("env", yamltext.Of("name", v.Name, "value", v.Value))
	}
	for _, d := range directoryVariables(p) {
		c.Append("env", yamltext.Of("name", d.Name, "value", d.Value))
	}
	if key == "command" {
		c.Set("securityContext", security(p, yamltext.Of()))
	}
	return c
}

// number returns a user or group that is a number.
func number(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return int64(n), err == nil
}

// podSecurity returns the user and the groups of a pod.
func podSecurity(p *manifest.Program) *yamltext.Map {
	m := yamltext.Of()
	if user, ok := number(p.User); ok {
		m.Set("runAsUser", user)
	}
	for _, group := range p.SupplementaryGroups {
		if n, ok := number(group); ok {
			m.AppendScalar("supplementalGroups", n)
		}
	}
	if p.Sandbox != nil && p.Sandbox.Syscalls.Enabled() {
		m.Set("seccompProfile", yamltext.Of("type", "RuntimeDefault"))
	}
	return m
}

// security adds to m what the sandbox of the program says for a container.
func security(p *manifest.Program, m *yamltext.Map) *yamltext.Map {
	box := p.Sandbox
	if box == nil {
		return m
	}
	if box.NoNewPrivileges != nil {
		m.Set("allowPrivilegeEscalation", !*box.NoNewPrivileges)
	}
	if box.ProtectSystem == "strict" {
		m.Set("readOnlyRootFilesystem", true)
	}
	if box.Capabilities != nil {
		var add []string
		for _, c := range box.Capabilities {
			add = append(add, strings.TrimPrefix(c, "CAP_"))
		}
		m.Set("capabilities", yamltext.Of("drop", []string{"ALL"}, "add", add))
	}
	return m
}

// probes sets the checks of a container. A check of ready is asked until it succeeds, as by superd;
// one of health goes on.
func probes(p *manifest.Program, main *yamltext.Map) {
	if check := p.ReadyCheck(probeNotation); check != nil {
		probe := probe(p, check, "ready")
		every := rounded(p, "ready.interval", check.Interval)
		tries := max(1, (manifest.Seconds(p.StartTimeout)+every-1)/every)
		main.Set("startupProbe", probe.Set("failureThreshold", tries))
	}
	if check := p.HealthCheck(probeNotation); check != nil {
		name := "livenessProbe"
		if p.Health.Action == config.HealthNone {
			name = "readinessProbe" // it is shown, and gets no connections of a Service
		}
		main.Set(name, probe(p, check, "health").Set("failureThreshold", check.Failures))
	}
}

func probe(p *manifest.Program, check *manifest.Check, table string) *yamltext.Map {
	m := yamltext.Of()
	switch port, _ := strconv.Atoi(check.Port); {
	case check.Exec != nil:
		m.Set("exec", yamltext.Of("command", check.Exec))
	case check.Path != "":
		get := yamltext.Of("path", check.Path, "port", port)
		if check.HTTPS {
			get.Set("scheme", "HTTPS")
		}
		if !check.Local() {
			get.Set("host", check.Host)
		}
		m.Set("httpGet", get)
	default:
		socket := yamltext.Of("port", port)
		if !check.Local() {
			socket.Set("host", check.Host)
		}
		m.Set("tcpSocket", socket)
	}
	if check.Loopback() {
		p.Note(check.Key, "the kubelet connects to the address of the pod: the program has to listen there, not on "+
			"the loopback interface only")
	}
	m.Set("periodSeconds", rounded(p, table+".interval", check.Interval))
	return m.Set("timeoutSeconds", rounded(p, table+".timeout", check.Timeout))
}

// lifecycle returns what runs at the start and the stop of a container.
func lifecycle(p *manifest.Program) *yamltext.Map {
	m := yamltext.Of()
	if len(p.PostStart) > 0 {
		m.Set("postStart", yamltext.Of("exec", yamltext.Of("command", p.Arguments("post_start", p.PostStart[0], literal))))
	}
	stop := p.Arguments("stop_command", p.StopCommand, literal)
	if p.StopSignal != syscall.SIGTERM {
		// When the hook ends, SIGTERM follows: so it waits for the end of the main process, pid 1.
		signal := strings.TrimPrefix(signame.Name(p.StopSignal), "SIG")
		script := fmt.Sprintf("kill -s %s 1; while kill -0 1; do sleep 1; done", signal)
		if stop == nil {
			stop = []string{"sh", "-c", script}
		} else {
			stop = append([]string{"sh", "-c", `"$@"; ` + script, "sh"}, stop...)
		}
	}
	if stop != nil {
		m.Set("preStop", yamltext.Of("exec", yamltext.Of("command", stop)))
	}
	return m
}

func resources(p *manifest.Program) *yamltext.Map {
	limits := yamltext.Of()
	if p.Limits.CPU != nil {
		limits.Set("cpu", cpu(*p.Limits.CPU))
	}
	if p.Limits.Memory != nil {
		limits.Set("memory", strconv.FormatInt(*p.Limits.Memory, 10))
	}
	return yamltext.Of("limits", limits)
}
