// Command sleeps shows tasks on the event loop: tasks that sleep one after the other or side by
// side, tasks that read meanwhile, and how they end. Each scene prints what it does and when.
//
//	go run ./examples/sleeps
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"superd/loop"
	"superd/loop/task"
)

func main() {
	for _, s := range scenes {
		l, err := loop.New()
		if err == nil {
			err = s.play(l, os.Stdout, time.Second)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "sleeps:", err)
			os.Exit(1)
		}
	}
}

// A scene is a small program of tasks on its own loop.
type scene struct {
	title string
	main  func(*stage, *task.Task) error
}

// A stage is what a scene uses: a clock and an output.
type stage struct {
	loop   *loop.Loop
	out    io.Writer
	start  time.Duration
	second time.Duration // how long a second of the scene takes: less in a test
}

// play runs the scene on l until it ends.
func (s scene) play(l *loop.Loop, out io.Writer, second time.Duration) error {
	st := &stage{loop: l, out: out, start: l.Now(), second: second}
	fmt.Fprintf(out, "%s\n", s.title)
	err := task.Run(l, func(t *task.Task) error { return s.main(st, t) })
	if err != nil {
		return fmt.Errorf("%s: %w", s.title, err)
	}
	st.printf("the end")
	return nil
}

// printf prints a line with the time since the start of the scene.
func (st *stage) printf(format string, args ...any) {
	since := float64(st.loop.Now()-st.start) / float64(st.second)
	fmt.Fprintf(st.out, "  %.2f s  %s\n", since, fmt.Sprintf(format, args...))
}

func (st *stage) seconds(s float64) time.Duration { return time.Duration(s * float64(st.second)) }

// sleeper returns a task that sleeps and prints when it is done.
func (st *stage) sleeper(name string, seconds float64) func(*task.Task) error {
	return func(t *task.Task) error {
		if err := t.Sleep(st.seconds(seconds)); err != nil {
			return err
		}
		st.printf("%s has slept %v s", name, seconds)
		return nil
	}
}
