package main

import (
	"testing"

	"superd/tests/manpages"
)

// own is the page of the binary itself.
const own = `# NAME
superd-ui - commands of superd that need large libraries

# DESCRIPTION
**superd** executes **superd-ui** for its commands **import**, **metrics**, **top** and **web**, and
for **superd run --from**. So neither the supervisor nor **superd ctl** links the libraries that these
commands need. It stands beside **superd**, or in $PATH.

# SEE ALSO
**superd**(1), **superd-down**(1), **superd-export**(1), **superd-import**(1), **superd-init**(1),
**superd-ls**(1), **superd-metrics**(1), **superd-top**(1), **superd-up**(1), **superd-web**(1)
`

// TestManPages renders the man pages of the commands from their help: go test ./cmd/superd-ui -run
// ManPages -man DIR
func TestManPages(t *testing.T) {
	pages := manpages.Tree(newRootCommand())[1:] // that of superd itself comes from superd
	manpages.Check(t, append(pages, manpages.Render("superd-ui", 1, own)))
	if len(pages) != 9 {
		t.Errorf("%d pages, want those of down, export, import, init, ls, metrics, top, up and web", len(pages))
	}
}

// TestCommandsStay: commands and flags are part of what docs/compatibility.md promises.
func TestCommandsStay(t *testing.T) { manpages.CheckCommands(t, newRootCommand()) }
