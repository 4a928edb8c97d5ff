// Package table shows measurements as tables in Markdown, and writes them into the documentation.
package table

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
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

// Machine tells where something was measured: system, Go, kernel, processors.
func Machine() string {
	kernel := "unknown"
	if out, err := exec.Command("uname", "-r").Output(); err == nil {
		kernel = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%s/%s, %s, Linux %s, %d processors",
		runtime.GOOS, runtime.GOARCH, runtime.Version(), kernel, runtime.NumCPU())
}

// Replace replaces what stands in the file between the lines <!-- name:begin --> and <!-- name:end -->.
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
