package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Kinds of the mode numbers.
const (
	Steady  = "steady"  // a line now and then, without end
	Fast    = "fast"    // a megabyte at full speed, then a pause, without end
	Crasher = "crasher" // some lines, then an end with status 3 or by a signal
	Once    = "once"    // some lines, then an end with status 0
)

// NumberWidth is the least length of a numbered line, so that a megabyte has a moderate number of
// lines.
const NumberWidth = 160

// numbers prints INSTANCE RUN N, counted from 1, and at its own end or at SIGTERM INSTANCE RUN end
// N: the number of the last line.
//
// It holds a lock on DIR/alone/INSTANCE while it lives, and writes to DIR/twice when another
// process holds that: so a program that runs twice is found however briefly it did. It records its
// run in DIR/runs/INSTANCE.
func numbers(args []string) error { return printNumbers(args, os.Stdout) }

func numbersBoth(args []string) error { return printNumbers(args, os.Stdout, os.Stderr) }

func printNumbers(args []string, outputs ...io.Writer) error {
	kind, dir := args[0], args[1]
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	instance := os.Getenv("SUPERD_INSTANCE")
	run := os.Getenv("SUPERD_INVOCATION_ID")
	lock, err := os.OpenFile(filepath.Join(dir, "alone", instance), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(err, appendLine(filepath.Join(dir, "twice"), instance+" "+run))
	}
	if err := appendLine(filepath.Join(dir, "runs", instance), run); err != nil {
		return err
	}
	w := bufio.NewWriterSize(io.MultiWriter(outputs...), 64<<10)
	n := 0
	burst := func(lines int) {
		for range lines {
			n++
			line := fmt.Sprintf("%s %s %d ", instance, run, n)
			// Flush has the error
			w.WriteString(line + strings.Repeat("x", max(0, NumberWidth-1-len(line))) + "\n")
		}
	}
	end := func() error {
		fmt.Fprintf(w, "%s %s end %d\n", instance, run, n)
		return w.Flush()
	}
	lines, pause := 1, 20*time.Millisecond
	last := 0 // bursts until the end; 0: no end
	switch kind {
	case Fast:
		lines, pause = (1<<20)/NumberWidth, 100*time.Millisecond
	case Crasher, Once:
		lines, last = 10, 1+rand.IntN(20)
	}
	for i := 1; ; i++ {
		begin := time.Now()
		burst(lines)
		if err := w.Flush(); err != nil {
			return err
		}
		if kind == Fast { // slower on a busy machine, so that the test can read it all
			pause = max(100*time.Millisecond, 20*time.Since(begin))
		}
		if i == last {
			break
		}
		select {
		case <-term:
			return end()
		case <-time.After(pause):
		}
	}
	if err := end(); err != nil || kind == Once {
		return err
	}
	if rand.IntN(2) == 0 {
		return errors.Join(syscall.Kill(os.Getpid(), syscall.SIGKILL), live(syscall.SIGUSR2))
	}
	os.Exit(3)
	return nil
}

func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(line + "\n")
	return err
}
