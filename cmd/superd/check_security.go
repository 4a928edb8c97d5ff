package main

import (
	"io"

	"superd/cmd/superd/report"
	"superd/config"
	"superd/internal/terminal"
	"superd/sandbox"
)

// A programGap is a gap of one program, as JSON.
type programGap struct {
	Program string `json:"program"`
	Can     string `json:"can"`
	Remedy  string `json:"remedy"`
}

// checkSecurity lists what the programs of a configuration without mistakes can do that most
// services do not need.
func checkSecurity(file string, asJSON bool, stdout, stderr io.Writer) error {
	_, programs, mistakes, _ := inspect(file)
	if len(mistakes) > 0 {
		return check(file, asJSON, stdout, stderr)
	}
	gaps := gapsOf(programs)
	if asJSON {
		return report.JSON(stdout, gaps)
	}
	t := &terminal.Table{Columns: []terminal.Column{{Title: "PROGRAM"}, {Title: "CAN"}, {Title: "REMEDY"}}}
	for _, gap := range gaps {
		t.Add(terminal.Cell{Text: terminal.Sanitize(gap.Program)}, terminal.Cell{Text: gap.Can}, terminal.Cell{Text: gap.Remedy})
	}
	return report.Table(stdout, t)
}

func gapsOf(programs []*config.Program) (all []programGap) {
	for _, p := range programs {
		root := p.User == "" || p.User == "root" || p.User == "0"
		for _, gap := range sandbox.Gaps(p.Sandbox, root) {
			all = append(all, programGap{p.Name, gap.Text, gap.Remedy})
		}
	}
	return all
}
