package compose

import (
	"fmt"
	"strconv"
	"strings"

	"superd/exporter/mark"
	"superd/importer/draft"
	"superd/importer/yamltree"
)

// key imports one key of a service.
func (c *file) key(t *draft.Table, full, key string, n *yamltree.Node) {
	note := func(format string, args ...any) { c.note(n, full, format, args...) }
	number := func(to string) {
		if v, err := strconv.Atoi(n.Text()); err == nil {
			t.Set(to, v)
		}
	}
	switch key {
	case "command", "entrypoint", "depends_on", "expose", "container_name", "platform", "pull_policy",
		"stdin_open", "init", "hostname", "domainname", "attach":
		// Without meaning for a program of the machine, or done elsewhere.
	case "image":
		note("superd runs the command on this machine: install what %s has", n.Text())
	case "build":
		note("superd runs the command on this machine: install what the image would have")
	case "environment":
		for _, m := range n.Members() {
			if m.Value.IsNull() {
				continue // superd passes its environment on
			}
			t.Env(m.Key, c.interpolate(m.Value.Plain(), false))
		}
		for _, s := range n.Items() {
			if name, value, ok := strings.Cut(s.Text(), "="); ok {
				t.Env(name, c.interpolate(value, false))
			}
		}
	case "env_file":
		for _, s := range n.Strings() {
			if s != "" {
				t.Append("env_file", c.doc.Path(s))
			}
		}
		for _, item := range n.Items() {
			if path := item.Get("path").Text(); path != "" {
				prefix := ""
				if item.Get("required").Text() == "false" {
					prefix = "-"
				}
				t.Append("env_file", prefix+c.doc.Path(path))
			}
		}
	case "working_dir":
		t.Set("directory", c.interpolate(n.Text(), false))
		note("it is a directory of the container: superd looks for it on this machine")
	case "user":
		user, group, _ := strings.Cut(n.Text(), ":")
		t.Set("user", user)
		if group != "" && group != user {
			note("superd has no key for the group: the program has the one of its user in /etc/passwd")
		}
	case "group_add":
		t.Append("supplementary_groups", n.Strings()...)
	case "restart":
		policy, most, _ := strings.Cut(n.Text(), ":")
		switch policy {
		case "always", "unless-stopped":
			t.Set("restart", "always")
		case "on-failure":
			t.Set("restart", "on-failure")
			if most != "" {
				note("superd goes on trying, with pauses of at most a minute: `start_limit` gives up")
			}
		}
	case "tty":
		if n.IsTrue() {
			t.Set("pty", true)
		}
	case "labels":
		c.labels(t, n, note)
	case "healthcheck":
		c.health(t, full, n)
	case "stop_signal":
		t.Set("stop_signal", n.Text())
	case "stop_grace_period":
		if d, ok := duration(n.Text()); ok {
			t.Set("stop_timeout", d)
		}
	case "scale":
		number("replicas")
	case "deploy":
		c.deploy(t, full, n)
	case "mem_limit":
		if v, ok := size(n.Text()); ok {
			t.Set("limits.memory", draft.Size(v))
		}
	case "cpus":
		if v, err := strconv.ParseFloat(n.Text(), 64); err == nil && v > 0 {
			t.Set("limits.cpu", v)
		}
	case "cpuset":
		t.Set("cpu_affinity", n.Text())
	case "pids_limit":
		number("limits.tasks")
	case "oom_score_adj":
		number("oom_score_adj")
	case "ulimits":
		for _, m := range n.Members() {
			value := m.Value.Text()
			if m.Value.IsMap() {
				value = m.Value.Get("soft").Text() + ":" + m.Value.Get("hard").Text()
			}
			if soft, hard, _ := strings.Cut(value, ":"); soft == hard {
				value = soft
			}
			if key, unit := ulimit(m.Key); unit != "" {
				t.Set("limits."+key, spans(value, unit))
			} else if v, err := strconv.Atoi(value); err == nil && v >= 0 {
				t.Set("limits."+m.Key, v)
			} else if value == "-1" {
				t.Set("limits."+m.Key, "infinity")
			} else {
				t.Set("limits."+m.Key, strings.ReplaceAll(value, "-1", "infinity"))
			}
		}
	case "logging":
		c.logging(t, full, n)
	case "profiles":
		t.Set("autostart", false)
		t.Append("groups", names(n.Strings())...)
		note("it starts by `superd ctl start`: its profiles are groups")
	case "ports":
		for _, item := range n.Items() {
			host, container := ports(item)
			if host != container {
				c.note(item, full, "superd forwards no ports: %s listens at %s itself, not at %s", t.Name,
					container, host)
			}
		}
	case "volumes":
		for _, item := range n.Items() {
			source, target := volume(item)
			c.note(item, full, "superd mounts nothing: where %s uses %s, it is to use %s", t.Name, target, source)
		}
	case "network_mode":
		if n.Text() != "host" {
			note("programs have the network of the machine; sandbox.private_network takes it away")
		}
	case "networks", "links", "extra_hosts", "dns":
		note("programs have the network of the machine: they reach each other at 127.0.0.1, not by the " +
			"names of services")
	case "read_only":
		if n.IsTrue() {
			note(`near is sandbox.protect_system = "strict"`)
		}
	case "tmpfs":
		note("near is sandbox.private_tmp")
	case "cap_add", "cap_drop", "privileged", "security_opt":
		note("near is sandbox.capabilities")
	case "extends":
		note("what it takes from the other service is not imported")
	default:
		if !strings.HasPrefix(key, "x-") {
			note("superd has no counterpart")
		}
	}
}

// labels imports those that superd export writes.
func (c *file) labels(t *draft.Table, n *yamltree.Node, note func(string, ...any)) {
	other := len(n.Items()) > 0
	for _, m := range n.Members() {
		group, isGroup := strings.CutPrefix(m.Key, mark.GroupLabel)
		switch {
		case isGroup:
			t.Append("groups", draft.Name(group))
		case m.Key == mark.TypeLabel:
			t.Set("type", m.Value.Text())
			if t.Get("restart") != "on-failure" {
				t.Delete("restart")
			}
		default:
			other = true
		}
	}
	if other {
		note("superd has no counterpart")
	}
}

// ulimit returns the name of a limit whose values are times, and their unit; else "" as the unit.
func ulimit(name string) (key, unit string) {
	switch name {
	case "cpu":
		return "cpu_time", "s"
	case "rttime":
		return "rttime", "us"
	}
	return name, ""
}

// spans returns a limit, or a soft and a hard one, as durations.
func spans(value, unit string) string {
	parts := strings.Split(value, ":")
	for i, part := range parts {
		if parts[i] = part + unit; part == "-1" {
			parts[i] = "infinity"
		}
	}
	return strings.Join(parts, ":")
}

func names(list []string) []string {
	for i := range list {
		list[i] = draft.Name(list[i])
	}
	return list
}

// ports returns the port of the host and that of the container.
func ports(n *yamltree.Node) (host, container string) {
	if n.IsMap() {
		return n.Get("published").Text(), n.Get("target").Text()
	}
	text, _, _ := strings.Cut(n.Text(), "/")
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return text, text
	}
	host, container = text[:at], text[at+1:]
	return host[strings.LastIndexByte(host, ':')+1:], container
}

func volume(n *yamltree.Node) (source, target string) {
	if n.IsMap() {
		return "the volume " + n.Get("source").Text(), n.Get("target").Text()
	}
	parts := strings.Split(n.Text(), ":")
	if len(parts) == 1 {
		return "a directory of the machine", parts[0]
	}
	if strings.ContainsAny(parts[0][:min(1, len(parts[0]))], "./~$") {
		return parts[0], parts[1]
	}
	return "a directory in place of the volume " + parts[0], parts[1]
}

// health imports a healthcheck.
func (c *file) health(t *draft.Table, full string, n *yamltree.Node) {
	test := n.Get("test")
	if n.Get("disable").Text() == "true" || test == nil {
		return
	}
	list := test.Strings()
	var args draft.Command
	switch {
	case len(list) == 0:
		return
	case test.IsScalar():
		args, _ = draft.Script(unescape(list[0]))
	case len(list) > 1 && list[0] == "CMD":
		for _, s := range list[1:] {
			args = append(args, c.interpolate(s, true))
		}
	case len(list) > 1 && list[0] == "CMD-SHELL":
		args, _ = draft.Script(unescape(list[1]))
	default:
		return // NONE
	}
	t.Set("health.exec", args)
	t.Set("health.action", "none")
	interval, timeout, failures := draft.Seconds(30), draft.Seconds(30), 3
	if d, ok := duration(n.Get("interval").Text()); ok && d > 0 {
		interval = d
	}
	if d, ok := duration(n.Get("timeout").Text()); ok && d > 0 {
		timeout = d
	}
	if v, err := strconv.Atoi(n.Get("retries").Text()); err == nil && v > 0 {
		failures = v
	}
	t.Set("health.interval", interval)
	t.Set("health.timeout", timeout)
	t.Set("health.failures", failures)
	if d, ok := duration(n.Get("start_period").Text()); ok && d > 0 {
		c.note(n, full+".start_period", "with `ready` superd checks only when the program is ready; "+
			"start_timeout = %q gives it that time", draft.Duration(d))
	}
}

// unescape returns a script with the dollar signs that compose leaves.
func unescape(s string) string { return strings.ReplaceAll(s, "$$", "$") }

// deploy imports what deploy has for a program.
func (c *file) deploy(t *draft.Table, full string, n *yamltree.Node) {
	for _, m := range n.Members() {
		switch m.Key {
		case "replicas":
			if v, err := strconv.Atoi(m.Value.Text()); err == nil && v >= 0 {
				t.Set("replicas", v)
			}
		case "resources":
			limits := m.Value.Get("limits")
			if v, ok := size(limits.Get("memory").Text()); ok {
				t.Set("limits.memory", draft.Size(v))
			}
			if v, err := strconv.ParseFloat(limits.Get("cpus").Text(), 64); err == nil && v > 0 {
				t.Set("limits.cpu", v)
			}
			if v, err := strconv.Atoi(limits.Get("pids").Text()); err == nil {
				t.Set("limits.tasks", v)
			}
			if r := m.Value.Get("reservations"); r != nil {
				c.note(r, full+".resources.reservations", "superd reserves nothing")
			}
		case "restart_policy":
			policy := map[string]string{"none": "never", "on-failure": "on-failure", "any": "always"}
			if p, ok := policy[m.Value.Get("condition").Text()]; ok {
				t.Set("restart", p)
			}
		default:
			c.note(m.Value, full+"."+m.Key, "superd has no counterpart")
		}
	}
}

// logging imports the driver of logs.
func (c *file) logging(t *draft.Table, full string, n *yamltree.Node) {
	switch driver := n.Get("driver").Text(); driver {
	case "", "json-file", "local":
		if v, ok := size(n.Get("options", "max-size").Text()); ok && v > 0 {
			t.Set("log.max_size", draft.Size(v))
		}
		if v, err := strconv.Atoi(n.Get("options", "max-file").Text()); err == nil && v > 0 {
			t.Set("log.keep", v-1)
		}
		if n.Get("options", "compress").Text() == "true" {
			t.Set("log.compress", true)
		}
	case "journald", "syslog":
		t.Set("log.sink", driver)
		if tag := n.Get("options", "tag").Text(); tag != "" && tag != t.Name && !strings.Contains(tag, "{{") {
			t.Set("log.identifier", tag)
		}
		if facility := n.Get("options", "syslog-facility").Text(); facility != "" && facility != "daemon" {
			t.Set("log.facility", facility)
		}
		if a := n.Get("options", "syslog-address").Text(); a != "" {
			t.Set("log.address", strings.TrimPrefix(strings.TrimPrefix(a, "unixgram://"), "unix://"))
		}
	case "none":
		t.Set("log.file", "/dev/null")
	default:
		c.note(n, full, "%s", fmt.Sprintf("superd has no driver %q: log.sink has other places", driver))
	}
}
