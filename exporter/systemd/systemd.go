// Package systemd exports programs as units of systemd: services, with sockets, timers and targets
// for groups and replicas.
//
// The keys are those of systemd 252.
package systemd

import (
	"fmt"
	"slices"
	"strings"

	"superd/config"
	"superd/config/codec"
	"superd/exporter/manifest"
)

// Format is the name of the format.
const Format = "systemd"

// Export writes the units of all programs.
func Export(c *config.Config, o manifest.Options) (*manifest.Export, error) {
	s, err := manifest.New(c, o, func(name string) string { return name })
	if err != nil {
		return nil, err
	}
	e := &exporting{Source: s, socketOwners: map[string]*manifest.Program{}, names: map[string]bool{}}
	for _, p := range s.Programs {
		if p.Sockets == nil {
			continue
		}
		for _, used := range p.Sockets.List {
			if e.socketOwners[used.Name] == nil {
				e.socketOwners[used.Name] = p
			}
		}
	}
	for _, p := range s.Programs {
		p.Apply(Rules())
		e.program(p)
	}
	e.groups()
	if e.err != nil {
		return nil, e.err
	}
	if len(e.files) > 0 && len(s.Notes) > 0 {
		e.files[0].Text = "# " + strings.Join(s.Comments(), "\n# ") + "\n" + e.files[0].Text
	}
	return s.Result(e.files...), nil
}

// An exporting holds what the units of one export share.
type exporting struct {
	*manifest.Source
	files        []manifest.File
	names        map[string]bool
	err          error                        // the first one of a unit
	socketOwners map[string]*manifest.Program // the programs that connections to a socket start
}

func (e *exporting) add(name string, u *unit) {
	if e.err == nil && u.err != nil {
		e.err = fmt.Errorf("write %s: %w", name, u.err)
	}
	e.append(manifest.File{Name: name, Text: u.text()})
}

// append adds a file, whose name no other may have.
func (e *exporting) append(f manifest.File) {
	if e.err == nil && e.names[f.Name] {
		e.err = fmt.Errorf("two units would be named %s: rename a program or a socket", f.Name)
	}
	e.names[f.Name] = true
	e.files = append(e.files, f)
}

// template reports whether the service of a program is a template.
func template(p *manifest.Program) bool {
	return p.Replicas != 1 || p.Sockets != nil && p.Sockets.Accept
}

// unitsOf returns the units that stand for a program in dependencies of others.
func unitsOf(p *manifest.Program) (names []string) {
	switch {
	case p.Sockets != nil && p.Sockets.Accept:
		return []string{p.Name + ".socket"}
	case p.Replicas != 1:
		for n := range p.Replicas {
			names = append(names, fmt.Sprintf("%s@%d.service", p.Name, n+1))
		}
		return names
	}
	return []string{p.Name + ".service"}
}

// program writes the units of one program.
func (e *exporting) program(p *manifest.Program) {
	u := &unit{}
	u.set("Unit", "Description", "%s", specifier(p.Name))
	e.dependencies(p, u)
	startLimit(p, u)
	e.service(p, u)
	name := p.Name + ".service"
	if template(p) {
		name = p.Name + "@.service"
	}
	if p.Autostart && p.Schedule == "" && (p.Sockets == nil || !p.Sockets.OnConnect) && !template(p) {
		u.set("Install", "WantedBy", "multi-user.target")
	}
	at := len(e.files) // the service comes first, with the notes on all units
	switch {
	case p.Schedule != "":
		e.timer(p)
	case p.Sockets != nil:
		e.sockets(p)
	}
	if template(p) && (p.Sockets == nil || !p.Sockets.Accept) {
		e.target(p)
	}
	u.comments = p.Comments()
	e.add(name, u)
	last := len(e.files) - 1
	service := e.files[last]
	e.files = slices.Insert(e.files[:last], at, service)
}

// target writes the target that stands for all replicas of a program.
func (e *exporting) target(p *manifest.Program) {
	u := &unit{}
	u.set("Unit", "Description", "all replicas of %s", specifier(p.Name))
	units, wantedBy := unitsOf(p), "multi-user.target"
	if p.Schedule != "" {
		wantedBy = "timers.target"
		for i := range units {
			units[i] = strings.TrimSuffix(units[i], ".service") + ".timer"
		}
	}
	if p.Replicas > 0 {
		u.set("Unit", "Wants", "%s", strings.Join(units, " "))
	}
	if p.Autostart {
		u.set("Install", "WantedBy", "%s", wantedBy)
	}
	e.add(p.Name+".target", u)
}

// groups writes a target for each group.
func (e *exporting) groups() {
	members := map[string][]string{}
	for _, p := range e.Programs {
		for _, group := range p.Groups {
			members[group] = append(members[group], unitsOf(p)...)
		}
	}
	var names []string
	for group := range members {
		names = append(names, group)
	}
	slices.Sort(names)
	for _, group := range names {
		u := &unit{}
		u.set("Unit", "Description", "the group %s", specifier(group))
		u.set("Unit", "Wants", "%s", strings.Join(members[group], " "))
		e.add(group+".target", u)
	}
}

// dependencies writes what a program needs.
func (e *exporting) dependencies(p *manifest.Program, u *unit) {
	var needed, after []string
	for _, name := range p.Requires {
		if other := e.Named(name); other != nil {
			needed = append(needed, unitsOf(other)...)
			after = append(after, unitsOf(other)...)
		}
	}
	for _, name := range p.After {
		if other := e.Named(name); other != nil {
			after = append(after, unitsOf(other)...)
		}
	}
	if needed != nil {
		// With BindsTo= a crash of one would keep it from being restarted (seen with systemd 252)
		u.set("Unit", "Requires", "%s", strings.Join(needed, " "))
	}
	if after != nil {
		u.set("Unit", "After", "%s", strings.Join(after, " "))
	}
	var targets []string
	for _, group := range p.Groups {
		targets = append(targets, group+".target")
	}
	if template(p) && (p.Sockets == nil || !p.Sockets.Accept) {
		targets = append(targets, p.Name+".target")
	}
	if targets != nil {
		u.set("Unit", "PartOf", "%s", strings.Join(targets, " "))
	}
}

func startLimit(p *manifest.Program, u *unit) {
	if p.StartLimit.Failures == 0 {
		u.set("Unit", "StartLimitIntervalSec", "0")
		return
	}
	u.set("Unit", "StartLimitIntervalSec", "%s", span(p.StartLimit.Within))
	u.set("Unit", "StartLimitBurst", "%d", p.StartLimit.Failures)
}

// timer writes the timer of a program.
func (e *exporting) timer(p *manifest.Program) {
	u := &unit{}
	u.set("Unit", "Description", "times of %s", specifier(p.Name))
	schedule, err := codec.ParseSchedule(p.Schedule)
	switch {
	case err != nil: // the configuration has no mistakes
	case schedule.Every > 0:
		u.set("Timer", "OnActiveSec", "%s", span(schedule.Every))
		u.set("Timer", "OnUnitActiveSec", "%s", span(schedule.Every))
	default:
		for _, line := range calendar(schedule) {
			u.set("Timer", "OnCalendar", "%s", line)
		}
		if p.ScheduleMissed == config.MissedOnce {
			u.set("Timer", "Persistent", "yes")
		}
	}
	u.set("Timer", "AccuracySec", "1s")
	if p.ScheduleJitter > 0 {
		u.set("Timer", "RandomizedDelaySec", "%s", span(p.ScheduleJitter))
		u.set("Timer", "FixedRandomDelay", "yes")
	}
	if template(p) { // a timer starts one unit; the target starts all timers
		u.set("Unit", "PartOf", "%s.target", p.Name)
		e.add(p.Name+"@.timer", u)
		return
	}
	if p.Autostart {
		u.set("Install", "WantedBy", "timers.target")
	}
	e.add(p.Name+".timer", u)
}
