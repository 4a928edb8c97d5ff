package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"superd/tests/table"
)

//go:embed *.go
var source embed.FS

// grace is the time that a way may take to end.
const grace = time.Minute

// compare runs all ways at the same time, each as a separate process whose children print the same
// lines, and prints what they cost. If update names a file, the table is written there, too.
func compare(out io.Writer, length time.Duration, update string) error {
	ctx, cancel := context.WithTimeout(context.Background(), length+grace)
	defer cancel()
	var all []*contestant
	defer func() {
		for _, c := range all {
			c.control.Close()
			_ = c.cmd.Wait() // the second time, unless something failed
		}
	}()
	for _, w := range variants {
		c, err := enter(ctx, w)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	time.Sleep(length)
	for _, c := range all {
		c.control.Close()
	}
	var rows [][]string
	for _, c := range all {
		row, err := c.row()
		if err != nil {
			return fmt.Errorf("%s: %w", c.variant.name, err)
		}
		rows = append(rows, row)
	}
	head := []string{"way", "latency, median", "latency, 99 %", "CPU", "wake-ups", "lines of code"}
	text := table.Wrap(fmt.Sprintf("Measured by `go run ./examples/eightloops --compare --for %v`: "+
		"all eight at once, the same lines for each, %s.\n\n%s",
		length, table.Machine(), table.Markdown(head, rows)))
	fmt.Fprint(out, text)
	if update != "" {
		return table.Replace(update, "eightloops", text)
	}
	return nil
}

// A contestant is a way in its own process. It runs until control is closed.
type contestant struct {
	variant variant
	cmd     *exec.Cmd
	control io.Closer
	output  bytes.Buffer
}

func enter(ctx context.Context, w variant) (*contestant, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &contestant{variant: w}
	c.cmd = exec.CommandContext(ctx, self, "-report", "-child", "/proc/self/exe "+printNumbersCommand, w.name)
	c.cmd.Stdout, c.cmd.Stderr = &c.output, os.Stderr
	if c.control, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

// row returns the contestant's row of the table. The contestant must have ended.
func (c *contestant) row() ([]string, error) {
	if err := c.cmd.Wait(); err != nil {
		return nil, err
	}
	var cost cost
	if err := json.Unmarshal(c.output.Bytes(), &cost); err != nil {
		return nil, err
	}
	lines, err := countLines(c.variant.file)
	if err != nil {
		return nil, err
	}
	return []string{
		c.variant.name, roundDigits(cost.quantile(0.5)), roundDigits(cost.quantile(0.99)), cost.CPU.Round(time.Millisecond).String(),
		fmt.Sprint(cost.WakeUps), fmt.Sprint(lines),
	}, nil
}

// roundDigits returns d with about three digits.
func roundDigits(d time.Duration) string {
	unit := time.Microsecond
	for d >= 1000*unit {
		unit *= 10
	}
	return d.Round(unit).String()
}

// countLines counts the lines of a file that are neither empty nor a comment.
func countLines(file string) (int, error) {
	f, err := source.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n, lines.Err()
}
