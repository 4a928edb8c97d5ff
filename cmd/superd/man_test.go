package main

import (
	"bytes"
	"testing"

	"superd/tests/manpages"
)

// TestManPages renders the man pages of all commands from their help: go test ./cmd/superd -run
// ManPages -man DIR
func TestManPages(t *testing.T) {
	root := newRootCommand(nil)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	pages := manpages.Tree(root)
	manpages.Check(t, pages)
	text := map[string][]byte{}
	for _, p := range pages {
		text[p.File()] = p.Text
	}
	for name, want := range map[string]string{
		"superd.1":            `\fBsuperd-ctl(1)\fP`,
		"superd-run.1":        `\fB--no-keeper\fP`,
		"superd-ctl-status.1": `\fB-c\fP, \fB--config\fP \fIfile\fP`,
		"superd-ctl-logs.1":   "web",
	} {
		if !bytes.Contains(text[name], []byte(want)) {
			t.Errorf("%s lacks %q:\n%s", name, want, text[name])
		}
	}
	if len(pages) < 40 {
		t.Errorf("%d pages, want one of each command", len(pages))
	}
}

// TestCommandsStay: commands and flags are part of what docs/compatibility.md promises.
func TestCommandsStay(t *testing.T) { manpages.CheckCommands(t, newRootCommand(nil)) }
