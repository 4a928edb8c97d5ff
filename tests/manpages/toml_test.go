package manpages_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"superd/config"
	"superd/tests/manpages"
)

// link matches a link to a section of the reference, or of another page.
var link = regexp.MustCompile(`\[([^\]]+)\]\((?:([a-z]+\.md))?(?:#[^)]*)?\)`)

// readable returns Markdown without links: a man page has none.
func readable(text string) string {
	return link.ReplaceAllStringFunc(text, func(found string) string {
		parts := link.FindStringSubmatch(found)
		page := parts[2]
		if page == "" {
			page = "reference.md"
		}
		return fmt.Sprintf("*%s* in %s", parts[1], page)
	})
}

// keys returns the sections on the keys, as Markdown.
func keys() string {
	var b strings.Builder
	titles := []struct{ table, title string }{
		{"", "KEYS AT THE TOP OF THE FILE"},
		{"superd", "KEYS OF [superd]"}, {"control", "KEYS OF [control]"},
		{"compat", "KEYS OF [compat]"}, {"web", "KEYS OF [web]"},
		{"program", "KEYS OF [program.NAME] AND [defaults]"},
		{"socket", "KEYS OF [socket.NAME]"}, {"notify", "KEYS OF [notify.NAME]"},
	}
	for _, section := range titles {
		fmt.Fprintf(&b, "# %s\n", manpages.Plain(section.title))
		for _, k := range config.Describe() {
			if k.Table != section.table {
				continue
			}
			fmt.Fprintf(&b, "**%s** (%s)\n: %s", manpages.Plain(k.Name), readable(k.Type), readable(k.Meaning))
			switch {
			case k.Instead != "":
				b.WriteString(" Default: " + readable(k.Instead) + ".")
			case k.Default != "":
				b.WriteString(" Default: `" + k.Default + "`.")
			}
			b.WriteString("\n\n")
		}
	}
	return b.String()
}

// TestConfigurationPage renders superd.toml(5) from the table of keys: go test ./tests/manpages
// -man DIR
func TestConfigurationPage(t *testing.T) {
	text, err := os.ReadFile("../../packaging/man/superd.toml.md")
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(text), "<!-- keys -->\n")
	if !ok {
		t.Fatal("superd.toml.md has no place for the keys")
	}
	page := manpages.Render("superd.toml", 5, before+keys()+after)
	manpages.Check(t, []manpages.Page{page})
	shown := bytes.ReplaceAll(page.Text, []byte(`\-`), []byte("-"))
	for _, k := range config.Describe() {
		if !bytes.Contains(shown, []byte("\n\\fB"+k.Name+"\\fP (")) {
			t.Errorf("the page has no key %s", k.Name)
		}
	}
}
