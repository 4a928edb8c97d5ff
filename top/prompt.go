package top

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"superd/internal/terminal"
)

// maxPrompt bounds a line that is typed or pasted, in bytes.
const maxPrompt = 256

// A prompt is a line that the user types at the bottom of the screen.
type prompt struct {
	label string
	text  string
	// change is called after each change; nil: nothing is done before the end
	change func(text string) tea.Cmd
	// done is called with Enter; cancel, which may be nil, with Escape
	done   func(text string) tea.Cmd
	cancel func() tea.Cmd
}

// key handles a key. closed reports that the prompt is over.
func (p *prompt) key(k tea.KeyPressMsg) (cmd tea.Cmd, closed bool) {
	before := p.text
	switch k.String() {
	case "enter":
		return p.done(p.text), true
	case "esc", "ctrl+g":
		if p.cancel != nil {
			cmd = p.cancel()
		}
		return cmd, true
	case "backspace", "ctrl+h":
		_, size := utf8.DecodeLastRuneInString(p.text)
		p.text = p.text[:len(p.text)-size]
	case "ctrl+u":
		p.text = ""
	case "ctrl+w":
		trimmed := strings.TrimRight(p.text, " ")
		p.text = trimmed[:strings.LastIndexByte(trimmed, ' ')+1]
	default:
		p.insert(k.Text)
	}
	return p.changed(before), false
}

// paste inserts text that was pasted.
func (p *prompt) paste(text string) tea.Cmd {
	before := p.text
	text, _, _ = strings.Cut(text, "\n")
	p.insert(text)
	return p.changed(before)
}

func (p *prompt) insert(text string) {
	if text = terminal.Sanitize(text); len(p.text)+len(text) <= maxPrompt {
		p.text += text
	}
}

func (p *prompt) changed(before string) tea.Cmd {
	if p.text == before || p.change == nil {
		return nil
	}
	return p.change(p.text)
}

// A confirmation is a question that y answers with yes, and any other key with no.
type confirmation struct {
	question string
	yes      func() tea.Cmd
}
