package tests

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"superd/tests/golden"
	"superd/tests/harness"
)

const commandsPage = "../docs/commands.md"

// TestCommandsPage renders the help of each command into docs/commands.md: go test ./tests -run
// CommandsPage -update
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, "")
	s.BuildUI()
	page, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "<!-- commands: begin -->\n"
	before, old, ok := strings.Cut(string(page), begin)
	if !ok {
		t.Fatalf("%s lacks the line %q", commandsPage, begin)
	}
	rendered := helpOf(s) + helpOf(s, "ctl")
	switch {
	case old == rendered:
	case golden.Update():
		if err := os.WriteFile(commandsPage, []byte(before+begin+rendered), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date: run go test ./tests -run CommandsPage -update", commandsPage)
	}
}

// listed is a line of the list of commands in a help text.
var listed = regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z].*$`)

// helpOf renders the help of a command and of the commands that it lists.
func helpOf(s *harness.Site, command ...string) string {
	s.T.Helper()
	help := func(command ...string) string {
		r := s.Command(append(command, "--help")...)
		r.Env = append(r.Env, "LC_ALL=C")
		out, err := r.Output()
		if err != nil {
			s.T.Fatalf("superd %s --help: %v", strings.Join(command, " "), err)
		}
		// The flags that all commands of ctl have are in its own help
		text, _, _ := strings.Cut(string(out), "\nGlobal Flags:\n")
		return "\n## " + strings.Join(append([]string{"superd"}, command...), " ") + "\n\n```text\n" + strings.TrimSpace(text) + "\n```\n"
	}
	own := help(command...)
	all := own
	_, commands, _ := strings.Cut(own, "\nAvailable Commands:\n")
	for _, found := range listed.FindAllStringSubmatch(commands, -1) {
		if name := found[1]; name != "ctl" && name != "help" {
			all += help(append(command, name)...)
		}
	}
	return all
}
