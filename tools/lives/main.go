// Command lives counts the files that a reader opens to follow an event through the supervisor.
//
// It copies the module, has each function of procs and of the packages below report its first
// call, and runs that superd through a start, an exit, a stop, a reload and a recovery. Of the
// functions that an event calls it takes each once, in the order of their first calls, as a reader
// does who reads no function twice. It prints how many files these functions are in, and how often
// the next function is in a file that was left before: a return.
//
// Usage, in the folder of this module:
//
//	go run ./lives [-v] [-dir folder]
//
// Functions of less than five statements do not count: their names say what they do. Neither do
// those that make a snapshot, which are the same at each transition, nor packages that only offer
// a service, such as the journal.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
)

func main() {
	verbose := flag.Bool("v", false, "print the functions of each life, in order")
	dir := flag.String("dir", "..", "`folder` of the module")
	flag.Parse()
	if err := run(os.Stdout, *dir, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "lives:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, dir string, verbose bool) error {
	temp, err := os.MkdirTemp("", "lives-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	binary := filepath.Join(temp, "superd")
	if err := build(dir, filepath.Join(temp, "module"), binary); err != nil {
		return err
	}
	lives, err := observe(binary, filepath.Join(temp, "run"))
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "life\tfunctions\tfiles\treturns\tpackages\treturns between them\t")
	for _, l := range lives {
		files, returns := l.visits(call.fileOf)
		packages, between := l.visits(call.packageOf)
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t\n",
			l.name, len(l.calls), files, returns, packages, between)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, l := range lives {
		if verbose {
			l.print(w)
		}
	}
	return nil
}
