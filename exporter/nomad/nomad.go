// Package nomad exports programs as jobs of Nomad: all services as the groups of one job, each
// one-shot as a job of its own, periodic if it has a schedule.
//
// The tasks use the driver raw_exec, which runs commands of the client as superd does. The keys are
// those of Nomad 1.10.
package nomad

import (
	"strings"

	"superd/config"
	"superd/exporter/manifest"
	"superd/exporter/mark"
)

// ext is the end of the names of files.
const ext = ".nomad.hcl"

// Export writes a job for the services, and one for each one-shot. The first file has the mark.
func Export(c *config.Config, o manifest.Options) (*manifest.Export, error) {
	s, err := manifest.New(c, o, ID)
	if err != nil {
		return nil, err
	}
	m, err := mark.New(Format, s)
	if err != nil {
		return nil, err
	}
	name := ID(o.Name)
	services := newBlock("job", name).setRaw("type", `"service"`)
	var files []manifest.File
	for _, p := range s.Programs {
		p.Apply(Rules())
		if !p.Oneshot() {
			services.add(group(p))
			continue
		}
		job := newBlock("job", jobName(name, p))
		job.setRaw("type", `"batch"`).add(periodic(p), group(p))
		files = append(files, manifest.File{Name: jobName(name, p) + ext, Text: job.text("")})
	}
	if len(services.items) > 1 {
		files = append([]manifest.File{{Name: name + ext, Text: services.text("")}}, files...)
	}
	if len(files) > 0 {
		files[0].Text = mark.Comment(s.Comments()) + files[0].Text + m.Comment()
	}
	return s.Result(files...), nil
}

// Format is the name of the format.
const Format = "nomad"

// jobName returns the name of the job of a one-shot, which no other may have.
func jobName(name string, p *manifest.Program) string { return name + "-" + p.ID }

// ID returns the name of a group or a job that is nearest to a name: Nomad allows what superd does,
// except that names of services are those of hosts.
func ID(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, name)
}

// serviceName returns a name that DNS allows.
func serviceName(p *manifest.Program) string {
	name := strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, p.ID)
	const most = 56 // leaves room for -health
	return strings.Trim(name[:min(len(name), most)], "-")
}

func periodic(p *manifest.Program) *block {
	if p.Schedule == "" {
		return nil
	}
	line, exact := manifest.Cron(p.Schedule)
	if !exact {
		p.Note("schedule", "cron has only periods that divide an hour or a day: it is %q", line)
	}
	b := newBlock("periodic").set("crons", []string{line}).set("time_zone", p.Source.TimeZone).
		set("prohibit_overlap", true)
	if !p.Autostart {
		b.set("enabled", false)
	}
	return b
}
