// Command topwords counts words from many connections at once, in two ways: with a goroutine for
// each and a lock, and with tasks on the event loop. Its server sends the words of a file with
// pauses on each connection. The client keeps the ten most frequent words.
//
//	go run ./examples/topwords -n 1000 -way loop     1,000 connections to its server
//	go run ./examples/topwords --compare             both ways, with 10 to 9,000 connections
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
)

// ways has the clients. Each counts the words of n connections to a server until all are closed.
var ways = map[string]func(server netip.AddrPort, n int) (*tally, error){
	"threads": threads,
	"loop":    onLoop,
}

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "topwords:", err)
		}
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 1 && args[0] == serveCommand {
		return serve(in, out)
	}
	f := flag.NewFlagSet("topwords", flag.ContinueOnError)
	n := f.Int("n", 100, "number of connections")
	way := f.String("way", "loop", "how to count: threads or loop")
	words := f.String("words", "examples/topwords/words.txt", "the `file` of words and pauses")
	all := f.Bool("compare", false, "run both ways with each of -counts and print a table")
	counts := f.String("counts", "10,100,500,600,1000,5000,9000", "numbers of connections to compare")
	update := f.String("update", "", "write the table into this `file`, too")
	connect := f.String("connect", "", "the `address` of a running server to use; print the result as JSON")
	if err := f.Parse(args); err != nil {
		return err
	}
	client, ok := ways[*way]
	if !ok || f.NArg() > 0 || *n < 1 {
		return fmt.Errorf("usage: topwords [-n CONNECTIONS] [-way threads|loop], or topwords --compare")
	}
	if *connect != "" {
		server, err := netip.ParseAddrPort(*connect)
		if err != nil {
			return err
		}
		return report(client, server, *n, out)
	}
	script, err := readScript(*words)
	if err != nil {
		return err
	}
	if *all {
		numbers, err := parseNumbers(*counts)
		if err != nil {
			return err
		}
		return compare(out, script, numbers, *update)
	}
	r, err := measure(*way, script, *n)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d words from %d connections in %v, the most frequent:\n", r.Words, *n, r.Took.Round(time.Millisecond))
	for _, w := range r.Top {
		fmt.Fprintf(out, "%9d %s\n", w.Count, w.Word)
	}
	return nil
}

// A result is what a client reports.
type result struct {
	Words       int
	Top         []entry
	Took        time.Duration
	CPU         time.Duration
	MemoryBytes int64 // peak
}

// report runs a client and writes its result as JSON.
func report(client func(netip.AddrPort, int) (*tally, error), server netip.AddrPort, n int, out io.Writer) error {
	if err := needDescriptors(n); err != nil {
		return err
	}
	begin := time.Now()
	t, err := client(server, n)
	if err != nil {
		return err
	}
	r := result{Words: t.words, Top: t.top, Took: time.Since(begin)}
	if r.CPU, r.MemoryBytes, err = usage(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

func parseNumbers(list string) ([]int, error) {
	var numbers []int
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("parse -counts: %q is not a number of connections", s)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
