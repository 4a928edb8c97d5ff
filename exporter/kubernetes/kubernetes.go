// Package kubernetes exports programs as manifests of Kubernetes: a service becomes a Deployment, a
// one-shot a Job, a schedule a CronJob, sockets a Service.
//
// The fields are those of Kubernetes 1.34.
package kubernetes

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"superd/config"
	"superd/config/directory"
	"superd/exporter/manifest"
	"superd/exporter/mark"
	"superd/exporter/yamltext"
)

// Export writes one file with the manifests of all programs.
func Export(c *config.Config, o manifest.Options) (*manifest.Export, error) {
	s, err := manifest.New(c, o, ID)
	if err != nil {
		return nil, err
	}
	var documents []*yamltext.Map
	for _, p := range s.Programs {
		documents = append(documents, objects(p)...)
	}
	text, err := yamltext.Text(documents...)
	if err != nil {
		return nil, err
	}
	m, err := mark.New(Format, s)
	if err != nil {
		return nil, err
	}
	text = mark.Comment(s.Comments()) + text + m.Comment()
	return s.Result(manifest.File{Name: ID(o.Name) + ".yaml", Text: text}), nil
}

// Format is the name of the format.
const Format = "kubernetes"

// maxID leaves room for a number: the longest name of a CronJob has 52 characters.
const maxID = 48

// ID returns the DNS label that is nearest to a name.
func ID(name string) string {
	id := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	id = strings.Trim(id[:min(len(id), maxID)], "-")
	if id == "" || '0' <= id[0] && id[0] <= '9' {
		id = strings.TrimRight("p-"+id, "-")
	}
	return id[:min(len(id), maxID)]
}

const nameLabel = "app.kubernetes.io/name"

// labels returns those of a program. Its groups are labels, so that `kubectl get -l` selects them.
func labels(p *manifest.Program) *yamltext.Map {
	m := yamltext.Of(nameLabel, p.ID)
	for _, group := range p.Groups {
		m.Set("group.superd/"+labelName(group), "true")
	}
	return m
}

// labelName returns the name of a label, which has at most 63 characters, and ends as it begins,
// with a letter or digit.
func labelName(group string) string {
	const most = 63
	name := strings.Trim(group[:min(len(group), most)], "._-")
	if name == "" {
		return "group"
	}
	return name
}

func metadata(p *manifest.Program) *yamltext.Map {
	return yamltext.Of("name", p.ID, "labels", labels(p))
}

// objects returns the manifests of a program.
func objects(p *manifest.Program) (all []*yamltext.Map) {
	p.Apply(Rules())
	template := yamltext.Of("metadata", yamltext.Of("labels", labels(p)), "spec", podSpec(p))
	var object *yamltext.Map
	switch {
	case p.Schedule != "":
		object = cronJob(p, template)
	case p.Oneshot():
		spec := jobSpec(p, template)
		if !p.Autostart {
			spec.Set("suspend", true)
		}
		object = yamltext.Of("apiVersion", "batch/v1", "kind", "Job", "metadata", metadata(p), "spec", spec)
	default:
		object = deployment(p, template)
	}
	service := serviceOf(p)
	all = append(all, object.Head(p.Comments()))
	if service != nil {
		all = append(all, service)
	}
	return all
}

func deployment(p *manifest.Program, template *yamltext.Map) *yamltext.Map {
	replicas := p.Replicas
	if !p.Autostart && (p.Sockets == nil || !p.Sockets.OnConnect) {
		replicas = 0
		p.Note("autostart", "it has no replicas until `kubectl scale` gives it some: it had %d", p.Replicas)
	}
	strategy := yamltext.Of("type", "Recreate")
	spec := yamltext.Of("replicas", replicas)
	if r := p.Rolling; r != nil {
		strategy = yamltext.Of("type", "RollingUpdate",
			"rollingUpdate", yamltext.Of("maxSurge", r.Surge, "maxUnavailable", r.MaxUnavailable))
		if r.Pause > 0 {
			spec.Set("minReadySeconds", rounded(p, "rolling.pause", r.Pause))
		}
		deadline := manifest.Seconds(r.WaitTimeout)
		if deadline <= manifest.Seconds(r.Pause) {
			deadline = math.MaxInt32
		}
		spec.Set("progressDeadlineSeconds", deadline)
	}
	spec.Set("strategy", strategy)
	spec.Set("selector", yamltext.Of("matchLabels", yamltext.Of(nameLabel, p.ID)))
	spec.Set("template", template)
	return yamltext.Of("apiVersion", "apps/v1", "kind", "Deployment", "metadata", metadata(p), "spec", spec)
}

func cronJob(p *manifest.Program, template *yamltext.Map) *yamltext.Map {
	line, exact := manifest.Cron(p.Schedule)
	if !exact {
		p.Note("schedule", "cron has only periods that divide an hour or a day: it is %q", line)
	}
	spec := yamltext.Of("schedule", line, "timeZone", p.Source.TimeZone, "concurrencyPolicy", "Forbid")
	if p.ScheduleMissed == config.MissedSkip {
		spec.Set("startingDeadlineSeconds", missedDeadline)
	}
	if !p.Autostart {
		spec.Set("suspend", true)
	}
	spec.Set("jobTemplate", yamltext.Of("metadata", yamltext.Of("labels", labels(p)), "spec", jobSpec(p, template)))
	return yamltext.Of("apiVersion", "batch/v1", "kind", "CronJob", "metadata", metadata(p), "spec", spec)
}

// missedDeadline is after how many seconds a run counts as missed: the controller itself may be
// late by 10 s.
const missedDeadline = 60

// jobSpec returns the spec of a Job, which tries again as often as the program would.
func jobSpec(p *manifest.Program, template *yamltext.Map) *yamltext.Map {
	retries := 0
	if p.Restart == config.RestartOnFailure {
		if retries = p.StartLimit.Failures; retries == 0 {
			retries = math.MaxInt32
		}
	}
	spec := yamltext.Of("backoffLimit", retries)
	if p.Replicas > 1 {
		spec.Set("completions", p.Replicas)
		spec.Set("parallelism", p.Replicas)
	}
	if p.Replicas == 0 {
		spec.Set("parallelism", 0)
	}
	return spec.Set("template", template)
}

// serviceOf returns the Service for the ports of a program's sockets, nil if it has none.
func serviceOf(p *manifest.Program) *yamltext.Map {
	var ports []*yamltext.Map
	for _, port := range p.Ports() {
		ports = append(ports, yamltext.Of("name", portName(port), "port", port.Number,
			"targetPort", port.Number, "protocol", protocol(port)))
	}
	if p.Sockets != nil {
		for _, used := range p.Sockets.List {
			for _, a := range used.Listen {
				if !a.Network.IsIP() {
					p.Note("sockets", "%s is no port: other pods can't reach it", a)
				}
			}
		}
	}
	if ports == nil {
		return nil
	}
	return yamltext.Of("apiVersion", "v1", "kind", "Service", "metadata", metadata(p),
		"spec", yamltext.Of("selector", yamltext.Of(nameLabel, p.ID), "ports", ports))
}

func portName(port manifest.Port) string {
	return fmt.Sprintf("%s-%d", strings.ToLower(protocol(port)), port.Number)
}

func protocol(port manifest.Port) string {
	if port.UDP {
		return "UDP"
	}
	return "TCP"
}

// grace returns the seconds from the begin of a stop to SIGKILL.
func grace(p *manifest.Program) int64 {
	d := p.StopTimeout
	if p.StopCommand != nil {
		d *= 2 // the command has as long as the signal after it
	}
	if d == 0 {
		return 0
	}
	return rounded(p, "stop_timeout", d)
}

// claim returns the name of the claim for a program's state.
func claim(p *manifest.Program) string { return p.ID + "-state" }

// volume returns a volume for a directory of a program.
func volume(p *manifest.Program, name string, kind directory.Kind) *yamltext.Map {
	switch kind {
	case directory.State:
		return yamltext.Of("name", name, "persistentVolumeClaim", yamltext.Of("claimName", claim(p)))
	case directory.Runtime:
		return yamltext.Of("name", name, "emptyDir", yamltext.Of("medium", "Memory"))
	default: // caches and logs end with the pod
	}
	return yamltext.Of("name", name, "emptyDir", yamltext.Present())
}

// cpu returns CPUs as a quantity.
func cpu(n float64) string { return strconv.FormatInt(int64(math.Ceil(n*1000)), 10) + "m" }
