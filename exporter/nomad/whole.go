package nomad

import (
	"strings"

	"superd/config"
	"superd/exporter/manifest"
	"superd/exporter/mark"
)

// Whole writes a job with one task, in which superd runs all programs.
func Whole(c *config.Config, o manifest.Options) (*manifest.Export, error) {
	s, err := manifest.NewWhole(c, o, ID)
	if err != nil {
		return nil, err
	}
	// The configuration is in the directory local of the task
	m, err := mark.NewWhole(Format, s, "log")
	if err != nil {
		return nil, err
	}
	name := ID(o.Name)
	task := newBlock("task", "superd").set("driver", "raw_exec")
	task.set("kill_signal", "SIGTERM").set("kill_timeout", s.StopBudget().String())
	if s.StopBudget() > maxKillTimeout {
		task.comments = []string{"The client's max_kill_timeout has to be as long as kill_timeout."}
	}
	const runtimeDir = "/run/superd-${NOMAD_ALLOC_ID}"
	task.add(newBlock("config").set("command", o.Binary).
		set("args", []string{"run", "--config", "${NOMAD_TASK_DIR}/superd.toml", "--runtime-dir", runtimeDir}))
	template := newBlock("template").set("destination", "local/superd.toml").set("perms", "0600").
		set("change_mode", "signal").set("change_signal", "SIGHUP").
		set("left_delimiter", "[superd[").set("right_delimiter", "]superd]")
	task.add(template.setRaw("data", heredoc(m.Text())))

	var ports []port
	for _, one := range s.AllPorts() {
		ports = append(ports, port{portLabel(one.Number), one.Number})
	}
	g := newBlock("group", name).set("count", 1)
	g.add(network(ports), deadline(newBlock("update"), s.StopBudget()), newBlock("restart").set("attempts", 10).set("interval", "1m").set("delay", "1s").
		set("mode", "delay"))
	g.add(task)
	job := newBlock("job", name).set("type", "service").add(g)
	job.comments = s.Comments()
	return s.Result(manifest.File{Name: name + ext, Text: job.text("")}), nil
}

// heredoc returns a text of several lines as it is.
func heredoc(text string) string {
	return "<<SUPERD\n" + escapeTemplate(text) + "SUPERD"
}

// escapeTemplate returns text in which HCL replaces nothing.
func escapeTemplate(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(text)
}
