// Package table shows measurements as tables in Markdown, and writes them into the documentation.
package table

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"unicode/utf8"
)

// Markdown returns a table with these columns.
func Markdown(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(head)))
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

// Machine returns where a measurement was made: system, Go, kernel, processors.
func Machine() string {
	kernel := "unknown"
	if out, err := exec.Command("uname", "-r").Output(); err == nil {
		kernel = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%s/%s, %s, Linux %s, %d processors",
		runtime.GOOS, runtime.GOARCH, runtime.Version(), kernel, runtime.NumCPU())
}

// Wrap breaks lines of text at 100 columns, but not those of tables.
func Wrap(text string) string {
	const width = 100
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") {
			b.WriteString(line)
			continue
		}
		used := 0
		for _, word := range strings.Fields(line) {
			switch n := utf8.RuneCountInString(word); {
			case used == 0:
				used = n
			case used+1+n > width:
				b.WriteByte('\n')
				used = n
			default:
				b.WriteByte(' ')
				used += 1 + n
			}
			b.WriteString(word)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Replace replaces the text in the file between the lines <!-- name:begin --> and <!-- name:end
// -->.
func Replace(path, name, text string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := fmt.Sprintf("<!-- %s:begin -->\n", name), fmt.Sprintf("<!-- %s:end -->", name)
	before, rest, begun := strings.Cut(string(b), begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		return fmt.Errorf("write table: no lines %s and %s in %s", strings.TrimSpace(begin), end, path)
	}
	return os.WriteFile(path, []byte(before+begin+text+end+after), 0o644)
}
