// Command eightloops is one program written in eight ways. It starts two children, and prints the
// time and the newest line of each when one of them changes and every ten seconds. Each variant is
// a file: blocking, busy, sleepy, select, callbacks, generators, coroutines, goroutines.
//
//	go run ./examples/eightloops callbacks     one of them (Ctrl-C ends it and both children)
//	go run ./examples/eightloops --compare     all at once, on the same input, and their cost
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// A variant is one of the eight programs. It returns when both children have ended, or when it was
// interrupted.
type variant struct {
	name string
	file string
	run  func(*stage) error
}

var variants = []variant{
	{"blocking", "blocking.go", blocking},
	{"busy", "busy.go", busy},
	{"sleepy", "sleepy.go", sleepy},
	{"select", "select_linux.go", selecting},
	{"callbacks", "callbacks.go", callbacks},
	{"generators", "generators_linux.go", generators},
	{"coroutines", "coroutines.go", coroutines},
	{"goroutines", "goroutines.go", goroutines},
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "eightloops:", err)
		}
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 2 && args[0] == printNumbersCommand {
		return printNumbers(args[1], out)
	}
	f := flag.NewFlagSet("eightloops", flag.ContinueOnError)
	child := f.String("child", "examples/random/random.sh", "the `command` of both children")
	all := f.Bool("compare", false, "run all ways at once and print a table")
	length := f.Duration("for", 10*time.Second, "how long to compare")
	update := f.String("update", "", "write the table into this `file`, too")
	measured := f.Bool("report", false, "print the cost of the way instead of the lines")
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "usage: eightloops [flags] WAY, or eightloops --compare. The ways: %s.\n", strings.Join(names(), ", "))
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if *all && f.NArg() == 0 {
		return compare(out, *length, *update)
	}
	if *all || f.NArg() != 1 {
		f.Usage()
		return errors.New("which way?")
	}
	w, err := find(f.Arg(0))
	if err != nil {
		return err
	}
	// Both children get the same command and a number that tells them apart.
	commands := [2][]string{append(strings.Fields(*child), "1"), append(strings.Fields(*child), "2")}
	if *measured {
		return report(w, commands, os.Stdin, out)
	}
	return play(w, commands, out)
}

// play runs one way until its children have ended or it is interrupted.
func play(w variant, commands [2][]string, out io.Writer) error {
	s := &stage{out: out, beat: 10 * time.Second, interrupted: make(chan os.Signal, 1)}
	signal.Notify(s.interrupted, syscall.SIGINT, syscall.SIGTERM)
	defer close(s.interrupted) // ends what waits for it
	defer signal.Stop(s.interrupted)
	return s.perform(w, commands)
}

func find(name string) (variant, error) {
	for _, w := range variants {
		if w.name == name {
			return w, nil
		}
	}
	return variant{}, fmt.Errorf("no way %q; the ways are %s", name, strings.Join(names(), ", "))
}

func names() []string {
	var names []string
	for _, w := range variants {
		names = append(names, w.name)
	}
	return names
}
