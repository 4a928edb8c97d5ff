// Package manpages renders man pages: of commands from their help, and of anything else from
// Markdown. Tests use it, with the flag -man DIR to write the pages.
//
// go-md2man renders the Markdown, as it does for cobra's own pages. Those of cobra show a flag as
// `--config=""` and treat help as Markdown, which it is not.
package manpages

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var dir = flag.String("man", "", "write the man pages into this directory")

// A Page is a man page.
type Page struct {
	Name    string // superd-ctl-status
	Section int
	Text    []byte // roff
}

// File returns the name of the page's file.
func (p Page) File() string { return fmt.Sprintf("%s.%d", p.Name, p.Section) }

// Render returns a page. Its text is Markdown, with sections as headings of level 1.
func Render(name string, section int, text string) Page {
	title := fmt.Sprintf("%% %q %q %q %q %q\n", strings.ToUpper(name), fmt.Sprint(section), "", "superd", "superd manual")
	return Page{name, section, md2man.Render([]byte(title + text))}
}

// Command returns the page of a command.
func Command(cmd *cobra.Command) Page {
	var b strings.Builder
	name := pageName(cmd)
	fmt.Fprintf(&b, "# NAME\n%s - %s\n\n", name, Plain(lowerFirst(cmd.Short)))
	b.WriteString("# SYNOPSIS\n" + synopsis(cmd) + "\n\n")
	if long := strings.TrimSpace(cmd.Long); long != "" {
		b.WriteString("# DESCRIPTION\n" + help(long) + "\n\n")
	}
	var below []*cobra.Command
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			below = append(below, c)
		}
	}
	if len(below) > 0 {
		b.WriteString("# COMMANDS\n")
		for _, c := range below {
			fmt.Fprintf(&b, "**%s**\n: %s\n\n", pageName(c)+"(1)", Plain(c.Short)+".")
		}
	}
	writeFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	writeFlags(&b, "OPTIONS OF "+strings.ToUpper(cmd.Root().Name()+" CTL"), cmd.InheritedFlags())
	if cmd.Example != "" {
		b.WriteString("# EXAMPLES\n\n" + help(cmd.Example) + "\n\n")
	}
	b.WriteString("# SEE ALSO\n" + seeAlso(cmd) + "\n")
	return Render(name, 1, b.String())
}

// seeAlso names the page above, and that of the configuration.
func seeAlso(cmd *cobra.Command) string {
	others := []string{"**superd.toml**(5)"}
	if cmd.HasParent() {
		others = append([]string{"**" + pageName(cmd.Parent()) + "**(1)"}, others...)
	}
	return strings.Join(others, ", ") + ", and the guide in */usr/share/doc/superd*"
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// synopsis returns the command in bold, and its arguments in italics.
func synopsis(cmd *cobra.Command) string {
	path := cmd.CommandPath()
	_, arguments, _ := strings.Cut(cmd.Use, " ")
	text := "**" + path + "**"
	if cmd.HasAvailableFlags() {
		text += " [*options*]"
	}
	if cmd.HasAvailableSubCommands() {
		text += " *COMMAND*"
	}
	if arguments != "" {
		text += " " + Plain(arguments)
	}
	return text
}

func writeFlags(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, "# %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		term := "**--" + f.Name + "**"
		if f.Shorthand != "" {
			term = "**-" + f.Shorthand + "**, " + term
		}
		if value != "" {
			term += " *" + Plain(value) + "*"
		}
		usage = Plain(strings.ReplaceAll(usage, "\n", " "))
		if value != "" && f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "0" && !strings.Contains(usage, "default") {
			usage += " (default " + Plain(f.DefValue) + ")"
		}
		fmt.Fprintf(b, "%s\n: %s\n\n", term, usage)
	})
}

// special are the characters of Markdown that help texts have as they are.
var special = regexp.MustCompile(`[\\*_<>\[\]|~]`)

// Plain returns a text as Markdown that shows it as it is. What stands between backquotes is code.
func Plain(text string) string {
	parts := strings.Split(text, "`")
	for i, part := range parts {
		if i%2 == 0 {
			parts[i] = special.ReplaceAllString(part, `\$0`)
		}
	}
	return strings.Join(parts, "`")
}

// help returns a help text as Markdown: indented lines are shown as they are.
func help(text string) string {
	var b strings.Builder
	inCode := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		code := strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "\t")
		if code != inCode && line != "" {
			b.WriteString("\n") // a block begins or ends
			inCode = code
		}
		switch {
		case code:
			line = "    " + strings.TrimPrefix(strings.TrimPrefix(line, "\t"), "  ")
		default:
			line = Plain(line)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// lowerFirst returns a text whose first word begins small, unless the word is an abbreviation.
func lowerFirst(text string) string {
	if len(text) < 2 || text[1] >= 'A' && text[1] <= 'Z' {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// Tree returns the pages of cmd and of all commands below it. It leaves out hidden commands and
// those that another binary has, which parse their flags themselves.
func Tree(cmd *cobra.Command) []Page {
	pages := []Page{Command(cmd)}
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() && !c.DisableFlagParsing {
			pages = append(pages, Tree(c)...)
		}
	}
	return pages
}

// Check fails the test for a page in which mandoc, if there is one, finds a mistake. It writes the
// pages if the flag -man is set.
func Check(t *testing.T, pages []Page) {
	t.Helper()
	to := *dir
	if to == "" {
		to = t.TempDir()
	}
	var files []string
	for _, p := range pages {
		path := filepath.Join(to, p.File())
		if err := os.WriteFile(path, p.Text, 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		return
	}
	out, err := exec.CommandContext(t.Context(), mandoc, append([]string{"-T", "lint", "-W", "warning"}, files...)...).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		// go-md2man writes no date, and blank lines in examples.
		if !strings.Contains(line, "missing date") && !strings.Contains(line, "blank line in") {
			t.Error(strings.TrimSpace(line))
		}
	}
	if len(out) == 0 && err != nil {
		t.Error(err)
	}
}
