package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"superd/control"
	"superd/internal/terminal"
	"superd/internal/words"
)

// SocketTable returns the table of sockets.
func SocketTable(all []control.Socket) *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Title: "SOCKET"}, {Title: "ADDRESS"}, {Title: "STATE"}, {Title: "WAITING", Right: true, Rank: 2},
		{Title: "PROGRAMS", Rank: 1}, {Title: "HOLDERS", Rank: 3},
	}}
	for _, s := range all {
		var holders []string
		for _, p := range s.Holders {
			holders = append(holders, fmt.Sprintf("%d %s", p.Pid, p.Command))
		}
		if s.Connections != nil {
			holders = append(holders, fmt.Sprintf("superd: %d of %d connections", *s.Connections, *s.MaxConnections))
		}
		if s.Refused != nil && s.RefusedFrom != nil {
			holders = append(holders, fmt.Sprintf("%d refused, last from %s", *s.Refused, *s.RefusedFrom))
		}
		state := terminal.Cell{Text: "open", Colour: terminal.Green}
		switch {
		case s.Problem != nil && s.RetryIn != nil:
			pause := words.Coarse(time.Duration(*s.RetryIn * float64(time.Second)))
			state = terminal.Cell{Text: terminal.Sanitize(*s.Problem) + "; again in " + pause, Colour: terminal.Red}
		case s.Problem != nil:
			state = terminal.Cell{Text: terminal.Sanitize(*s.Problem), Colour: terminal.Red}
		case s.Leaving:
			state = terminal.Cell{Text: "leaving", Colour: terminal.Yellow}
		case !s.Open:
			state = terminal.Cell{Text: "is being opened", Colour: terminal.Yellow}
		}
		waiting := Shown(s.Waiting, strconv.Itoa)
		if s.Backlog != nil {
			waiting += " of " + strconv.Itoa(*s.Backlog)
		}
		t.Add(terminal.Cell{Text: s.Socket}, terminal.Cell{Text: terminal.Sanitize(s.Address)}, state,
			terminal.Cell{Text: waiting}, terminal.Cell{Text: strings.Join(s.Programs, ", ")},
			terminal.Cell{Text: terminal.Sanitize(strings.Join(holders, ", "))})
	}
	return t
}
