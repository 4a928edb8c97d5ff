// Package loopbench compares package loop with goroutines, libuv and libev: make bench-loop.
//
// Each figure comes from a process of its own: subject/ for Go, c/ for the two libraries. It is
// processor time, the subjects take turns, and the least of several rounds counts, so that other
// load on the machine matters little.
package loopbench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/tests/table"
)

var (
	update = flag.Bool("update", false, "write the table into docs/loops.md, between its markers")
	rounds = flag.Int("rounds", 7, "how often to measure each figure")
)

// A measure is a row of the table.
type measure struct {
	what    string
	args    []string
	unit    string
	threads bool // whether the C programs have a second thread, as every Go program has
}

var measures = []measure{
	{"dispatch, 1 descriptor ready", []string{"dispatch", "1"}, "ns", false},
	{"… C with a second thread", []string{"dispatch", "1"}, "ns", true},
	{"dispatch, 100 ready", []string{"dispatch", "100"}, "ns", false},
	{"… C with a second thread", []string{"dispatch", "100"}, "ns", true},
	{"read a byte and pass it on, 100 sockets", []string{"pass", "100"}, "ns", false},
	{"… C with a second thread", []string{"pass", "100"}, "ns", true},
	{"timer set and cancelled, beside 1,000", []string{"timer-cancel", "1000"}, "ns", false},
	{"… beside 100,000", []string{"timer-cancel", "100000"}, "ns", false},
	{"… beside 1,000,000", []string{"timer-cancel", "1000000"}, "ns", false},
	{"timer made and cancelled, beside 1,000", []string{"timer-new", "1000"}, "ns", false},
	{"… beside 100,000", []string{"timer-new", "100000"}, "ns", false},
	{"… beside 1,000,000", []string{"timer-new", "1000000"}, "ns", false},
	{"timer fired, of 1,000", []string{"timer-fire", "1000"}, "ns", false},
	{"… of 100,000", []string{"timer-fire", "100000"}, "ns", false},
	{"… of 1,000,000", []string{"timer-fire", "1000000"}, "ns", false},
	{"function posted by another thread", []string{"post", "1000000"}, "ns", false},
	{"switch to another task or goroutine", []string{"switch", "3000000"}, "ns", false},
	{"memory of an idle watch", []string{"memory-watch", "10000"}, "B", false},
	{"memory of an idle timer", []string{"memory-timer", "100000"}, "B", false},
	{"memory of an idle task", []string{"memory-task", "10000"}, "B", false},
}

// A subject is a measuring program with its first arguments.
type subject struct {
	name    string
	command []string
}

// BenchmarkLoop measures each figure and prints them as one table. Run it with -benchtime 1x.
func BenchmarkLoop(b *testing.B) {
	subjects, missing, err := build(b)
	if err != nil {
		b.Fatal(err)
	}
	var rows [][]string
	for _, m := range measures {
		figures := make([][]float64, len(subjects))
		for range *rounds {
			for i, s := range subjects {
				if figure, ok := s.run(b, m); ok {
					figures[i] = append(figures[i], figure)
				}
			}
		}
		rows = append(rows, row(m, figures))
	}
	head := []string{"what"}
	for i, s := range subjects {
		if head = append(head, s.name); i > 0 {
			head = append(head, "ratio")
		}
	}
	text := table.Wrap(fmt.Sprintf(
		"Measured by `make bench-loop`: %s, processor time, the least of %d rounds%s.\n\n%s",
		table.Machine(), *rounds, missing, table.Markdown(head, rows)))
	fmt.Print("\n", text)
	if *update {
		if missing != "" {
			b.Fatal("not written: ", missing)
		}
		if err := table.Replace(filepath.Join("..", "..", "docs", "loops.md"), "bench", text); err != nil {
			b.Fatal(err)
		}
	}
}

// row returns the figure of the loop, then that of each other subject and its ratio to that of the
// loop.
func row(m measure, figures [][]float64) []string {
	cells := []string{m.what}
	ours := slices.Min(figures[0])
	for i, f := range figures {
		switch {
		case len(f) == 0: // missing
			cells = append(cells, "", "")
		case i == 0:
			cells = append(cells, show(ours, m.unit))
		default:
			cells = append(cells, show(slices.Min(f), m.unit), fmt.Sprintf("%.2f", slices.Min(f)/ours))
		}
	}
	return cells
}

func show(figure float64, unit string) string { return fmt.Sprintf("%.0f %s", figure, unit) }

// errMissing is returned if a library is not installed.
var errMissing = errors.New("not installed")

// build builds the subjects, the loop first. missing names the missing libraries.
func build(b *testing.B) (subjects []subject, missing string, err error) {
	dir := b.TempDir()
	program := filepath.Join(dir, "subject")
	if out, err := exec.Command("go", "build", "-o", program, "./subject").CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("build subject: %w\n%s", err, out)
	}
	subjects = []subject{
		{name: "loop", command: []string{program, "loop"}},
		{name: "goroutines", command: []string{program, "goroutines"}},
	}
	for _, lib := range []struct{ name, debian, source, header, link string }{
		{"libuv", "libuv1-dev", "uv.c", "uv.h", "-luv"},
		{"libev", "libev-dev", "ev.c", "ev.h", "-lev"},
	} {
		program := filepath.Join(dir, lib.name)
		err := compile(program, filepath.Join("c", lib.source), lib.header, lib.link)
		if errors.Is(err, errMissing) {
			missing += fmt.Sprintf(", without %s (Debian: %s)", lib.name, lib.debian)
			continue
		}
		if err != nil {
			return nil, "", err
		}
		subjects = append(subjects, subject{name: lib.name, command: []string{program}})
	}
	return subjects, missing, nil
}

// compile compiles a C program, or returns errMissing if there is no compiler or header for it.
func compile(program, source, header, link string) error {
	probe := exec.Command("cc", "-E", "-x", "c", "-")
	probe.Stdin = strings.NewReader("#include <" + header + ">\n")
	if probe.Run() != nil {
		return errMissing
	}
	out, err := exec.Command("cc", "-O2", "-o", program, source, link, "-lpthread").CombinedOutput()
	if err != nil {
		return fmt.Errorf("compile %s: %w\n%s", source, err, out)
	}
	return nil
}

// run runs one measure. It returns false if the subject does not have it.
func (s subject) run(b *testing.B, m measure) (float64, bool) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.command[0], slices.Concat(s.command[1:], m.args)...)
	if m.threads {
		cmd.Env = append(os.Environ(), "SECOND_THREAD=1")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if strings.Contains(stderr.String(), "no measure") {
		return 0, false
	}
	if err != nil {
		b.Fatalf("%v: %v\n%s", cmd.Args, err, &stderr)
	}
	figure, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	if err != nil {
		b.Fatalf("%v: %v", cmd.Args, err)
	}
	return figure, true
}
