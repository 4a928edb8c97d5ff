package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// A table is the figures in their order, as Markdown.
type table struct {
	rows strings.Builder
}

func (t *table) add(what, format string, args ...any) {
	fmt.Fprintf(&t.rows, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
}

// String is the table with a line on where it was measured.
func (t *table) String() string {
	kernel := "unknown"
	if out, err := exec.Command("uname", "-r").Output(); err == nil {
		kernel = strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("Measured by `make bench`: %s/%s, %s, Linux %s, %d processors.\n\n| what | figure |\n|---|---|\n%s",
		runtime.GOOS, runtime.GOARCH, runtime.Version(), kernel, runtime.NumCPU(), &t.rows)
}

const (
	beginMark = "<!-- bench:begin -->\n"
	endMark   = "<!-- bench:end -->"
)

// writeTable puts text between the markers in the file at path.
func writeTable(path, text string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(b), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return errors.New("write table: no markers " + strings.TrimSpace(beginMark) + " and " + endMark + " in " + path)
	}
	return os.WriteFile(path, []byte(before+beginMark+text+endMark+after), 0o644)
}
