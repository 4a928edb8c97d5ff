package top

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"superd/control"
	"superd/internal/terminal"
	"superd/internal/words"
)

// rolling is the name of a rolling restart in questions and messages.
const rolling = "rolling restart"

// A resultMsg is the end of a command.
type resultMsg struct {
	verb    string
	results []control.CommandResult
	err     error
}

// ask asks whether to carry out a command.
func (m *Model) ask(verb string) tea.Cmd {
	all := m.targets()
	if len(all) == 0 {
		m.say("no program is chosen")
		return nil
	}
	m.confirm = &confirmation{
		question: fmt.Sprintf("%s %s? y: yes, other keys: no", verb, describe(all)),
		yes: func() tea.Cmd {
			return m.command(verb, all, func(ctx context.Context, c Client, names []string) ([]control.CommandResult, error) {
				if verb == rolling {
					return c.RestartRolling(ctx, names, 0, 0)
				}
				return c.Command(ctx, verb, names, true, 0)
			})
		},
	}
	return nil
}

// askSignal asks for a signal and sends it.
func (m *Model) askSignal() tea.Cmd {
	all := m.targets()
	if len(all) == 0 {
		m.say("no program is chosen")
		return nil
	}
	m.prompt = &prompt{label: "signal to " + describe(all) + ", such as HUP: ", done: func(text string) tea.Cmd {
		text = strings.TrimSpace(text)
		if text == "" {
			m.say("not done")
			return nil
		}
		return m.command("signal", all, func(ctx context.Context, c Client, names []string) ([]control.CommandResult, error) {
			return c.Signal(ctx, text, names)
		})
	}}
	return nil
}

// command carries out a command for programs, at the same time for each source.
func (m *Model) command(verb string, all []*program, do func(context.Context, Client, []string) ([]control.CommandResult, error)) tea.Cmd {
	names := map[int][]string{}
	for _, p := range all {
		names[p.source] = append(names[p.source], p.name)
		p.marked = false
	}
	m.say("%s %s …", verb, describe(all))
	ctx := m.ctx
	var cmds []tea.Cmd
	for source, list := range names {
		client, host := m.sources[source].Client, m.sources[source].Host
		cmds = append(cmds, func() tea.Msg {
			results, err := do(ctx, client, list)
			if err != nil && host != "" {
				err = fmt.Errorf("%s: %w", host, err)
			}
			return resultMsg{verb, results, err}
		})
	}
	return batch(cmds...)
}

// message returns what is to be said about the end of a command: what has failed first.
func (r *resultMsg) message() message {
	if r.err != nil {
		return errorMessage(fmt.Errorf("%s: %w", r.verb, r.err))
	}
	var failed []control.CommandResult
	for _, one := range r.results {
		if !one.OK {
			failed = append(failed, one)
		}
	}
	switch {
	case len(failed) == 1:
		return message{oneLine(failed[0].Name + ": " + reasonOf(&failed[0])), terminal.Red}
	case len(failed) > 1:
		return message{oneLine(fmt.Sprintf("%s: %s failed; %s: %s", r.verb, words.Plural(len(failed), "program"),
			failed[0].Name, reasonOf(&failed[0]))), terminal.Red}
	case len(r.results) == 1:
		return message{text: oneLine(r.results[0].Name + ": " + r.results[0].Message)}
	}
	return message{text: fmt.Sprintf("%s: %s done", r.verb, words.Plural(len(r.results), "program"))}
}

// reasonOf returns why a command has failed.
func reasonOf(r *control.CommandResult) string {
	text := cmp.Or(r.Message, "failed")
	if r.Unrecorded != "" {
		text += ", but not recorded, so a crash of superd undoes it: " + r.Unrecorded
	}
	if len(r.Output) > 0 {
		text += ": " + r.Output[len(r.Output)-1]
	}
	return text
}

// errorMessage returns an error, with its remedy, as a message.
func errorMessage(err error) message { return message{oneLine(err.Error()), terminal.Red} }
