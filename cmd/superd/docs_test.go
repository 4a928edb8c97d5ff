package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// commandLine is a command line of superd in a page: a line of a block, or a code span.
	commandLine = regexp.MustCompile("(?m)(?:^|`)(?:\\$ )?(?:\\./)?(superd +[a-z][^`\n]*)")
	// lineEnd is where a shell ends a command line.
	lineEnd = regexp.MustCompile(` *(?:[|<>;&#…]|2>| {2}|: |:$).*`)
)

// TestReferenceNamesCommands: each command has a row in the table of commands.
func TestReferenceNamesCommands(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, commands, _ := strings.Cut(string(page), "\n## Commands\n")
	var first []string // cells
	for line := range strings.Lines(commands) {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			cell, _, _ = strings.Cut(cell, " | ")
			first = append(first, cell)
		}
	}
	for _, parent := range []string{"", "ctl"} {
		root := newRootCommand(nil)
		if parent != "" {
			var err error
			if root, _, err = root.Find([]string{parent}); err != nil {
				t.Fatal(err)
			}
		}
		for _, cmd := range root.Commands() {
			named := regexp.MustCompile("(^|`)" + cmd.Name() + "\\b")
			if !cmd.Hidden && cmd.Name() != "ctl" && cmd.Name() != "help" && !slices.ContainsFunc(first, named.MatchString) {
				t.Errorf("docs/reference.md has no row for superd %s %s", parent, cmd.Name())
			}
		}
	}
}

// TestDocsNameCommands: the commands and flags of superd that the pages name exist.
func TestDocsNameCommands(t *testing.T) {
	pages := []string{"../../README.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/howto/*.md", "../../docs/switching/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: no page: %v", pattern, err)
		}
		pages = append(pages, found...)
	}
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range commandLine.FindAllStringSubmatch(string(text), -1) {
			line := lineEnd.ReplaceAllString(m[1], "")
			args := strings.Fields(strings.NewReplacer("'", "", `"`, "", "[", "", "]", "").Replace(line))[1:]
			if i := slices.Index(args, "--"); i >= 0 {
				if args[0] == "run" {
					continue // one command, whose flags are another parser's
				}
				args = args[:i] // a command of the user
			}
			if slices.ContainsFunc(args, func(arg string) bool { return strings.ContainsAny(arg, "$,=") && !strings.HasPrefix(arg, "-") }) {
				args = args[:1] // a list of commands, or a variable
			}
			root := newRootCommand(args)
			root.SetOut(io.Discard)
			root.SetErr(io.Discard)
			cmd, rest, err := root.Find(args)
			switch {
			case err != nil:
				t.Errorf("%s: %s: %v", page, line, err)
			case cmd.DisableFlagParsing: // superd-ui reads them
			case strings.HasSuffix(line, "--help"):
			default:
				err := cmd.ParseFlags(rest)
				// A page may name a flag alone
				if err != nil && !strings.Contains(err.Error(), "needs an argument") {
					t.Errorf("%s: %s: %v", page, line, err)
				}
			}
			checked++
		}
	}
	t.Logf("%d command lines", checked)
}
