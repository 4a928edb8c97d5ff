package main

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"superd/tests/table"
)

// patience is the longest time for one client.
const patience = 5 * time.Minute

// compare runs both clients with each number of connections, one after the other, each with its own
// server, and prints what they cost. If update names a file, the table is written there, too.
func compare(out io.Writer, s script, counts []int, update string) error {
	var pauses time.Duration
	for _, c := range s {
		pauses += c.Pause
	}
	var rows [][]string
	for _, n := range counts {
		row, err := compareOne(s, n)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	head := []string{"connections", "threads", "loop", "ratio", "CPU: threads", "loop", "memory: threads", "loop"}
	text := table.Wrap(fmt.Sprintf("Measured by `go run ./examples/topwords --compare`: "+
		"%d words on each connection, with pauses of %v in all, %s.\n\n%s",
		len(s), pauses, table.Machine(), table.Markdown(head, rows)))
	fmt.Fprint(out, text)
	if update != "" {
		return table.Replace(update, "topwords", text)
	}
	return nil
}

// compareOne returns a row of the table. If there are too few descriptors, the row says so.
func compareOne(s script, n int) ([]string, error) {
	row := []string{fmt.Sprint(n)}
	if limit := (*limitError)(nil); errors.As(needDescriptors(n), &limit) {
		return append(row, limit.Error(), "", "", "", "", "", ""), nil
	}
	a, err := measure("threads", s, n)
	if err != nil {
		return nil, err
	}
	b, err := measure("loop", s, n)
	if err != nil {
		return nil, err
	}
	if a.Words != n*len(s) || b.Words != n*len(s) {
		return nil, fmt.Errorf("%d connections: the threads counted %d words, the loop %d, want %d", n, a.Words, b.Words, n*len(s))
	}
	return append(row,
		seconds(a.Took), seconds(b.Took), fmt.Sprintf("%.3f", b.Took.Seconds()/a.Took.Seconds()),
		seconds(a.CPU), seconds(b.CPU), mebibytes(a.MemoryBytes), mebibytes(b.MemoryBytes)), nil
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
func mebibytes(bytes int64) string   { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// measure runs one client and one server as separate processes, so that each has the whole limit of
// descriptors.
func measure(way string, s script, n int) (result, error) {
	var r result
	if err := needDescriptors(n); err != nil {
		return r, err
	}
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server := exec.CommandContext(ctx, self, serveCommand)
	server.Stderr = os.Stderr
	control, err := server.StdinPipe()
	if err != nil {
		return r, err
	}
	answer, err := server.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := server.Start(); err != nil {
		return r, err
	}
	defer func() { _ = server.Wait() }() // it has reported its error, if any
	defer control.Close()
	if err := gob.NewEncoder(control).Encode(s); err != nil {
		return r, fmt.Errorf("talk to the server: %w", err)
	}
	addr, err := bufio.NewReader(answer).ReadString('\n')
	if err != nil {
		return r, fmt.Errorf("talk to the server: %w", err)
	}

	client := exec.CommandContext(ctx, self, "-way", way, "-n", fmt.Sprint(n), "-connect", strings.TrimSpace(addr))
	client.Stderr = os.Stderr
	output, err := client.Output()
	if err != nil {
		return r, fmt.Errorf("client %s with %d connections: %w", way, n, err)
	}
	if err := json.Unmarshal(output, &r); err != nil {
		return r, fmt.Errorf("client %s with %d connections: %w", way, n, err)
	}
	return r, nil
}
