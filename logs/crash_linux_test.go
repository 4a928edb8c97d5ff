package logs

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/loop"
)

// The test binary is a superd that does nothing but capture, where the environment names a FIFO and a log file.
const (
	captureFIFO = "SUPERD_TEST_FIFO"
	captureLog  = "SUPERD_TEST_LOG"
)

func TestMain(m *testing.M) {
	if fifo := os.Getenv(captureFIFO); fifo != "" {
		if err := captureForEver(fifo, os.Getenv(captureLog)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// captureForEver captures until it is killed.
func captureForEver(fifo, log string) error {
	l, err := loop.New()
	if err != nil {
		return err
	}
	fd, err := AdoptFIFO(fifo)
	if err != nil {
		return err
	}
	store := NewStore(l, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err := store.NewCapture(l.Root(), "web", Options{Path: log, MaxSize: 1e6, Keep: 10_000}).Attach(fd); err != nil {
		return err
	}
	return l.Run()
}

// A doomed is what a superd leaves behind that is killed: its FIFO, which a program has open, and its log file.
type doomed struct {
	testing.TB
	fifo, log string
	program   *os.File
}

func newDoomed(t *testing.T) *doomed {
	t.Helper()
	dir := t.TempDir()
	d := &doomed{TB: t, fifo: filepath.Join(dir, "fifo"), log: filepath.Join(dir, "log", "web.log")}
	read, err := MakeFIFO(d.fifo, os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(read)
	if d.program, err = os.OpenFile(d.fifo, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.program.Close() })
	return d
}

// life has the test binary capture. end is to see to it that it is killed.
func (d *doomed) life(binary string, end func(*os.Process), environment ...string) {
	d.Helper()
	cmd := exec.CommandContext(d.Context(), binary)
	cmd.Env = append(os.Environ(), append(environment, captureFIFO+"="+d.fifo, captureLog+"="+d.log)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		d.Fatal(err)
	}
	end(cmd.Process)
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		d.Fatalf("the capturing process ended by itself: %v", err)
	}
}

// drain has the test binary capture until nothing is left in the FIFO.
func (d *doomed) drain() {
	d.life(os.Args[0], func(p *os.Process) {
		for start := time.Now(); pipeBytes(int(d.program.Fd())) > 0; time.Sleep(time.Millisecond) {
			if time.Since(start) > patience {
				d.Error("the FIFO is not drained")
				break
			}
		}
		_ = p.Kill()
	})
}

// numbered writes numbered lines as fast as it can until stop is closed, and returns how many.
func numbered(w io.Writer, stop <-chan struct{}) <-chan int {
	count := make(chan int, 1)
	go func() {
		var block []byte
		for n := 0; ; {
			block = block[:0]
			for range 500 {
				block = fmt.Appendf(block, "line %d %s\n", n, "................................................................................"[:n%80])
				n++
			}
			if _, err := w.Write(block); err != nil {
				panic(err)
			}
			select {
			case <-stop:
				count <- n
				return
			default:
			}
		}
	}()
	return count
}

// expectNumbered checks that the files joined hold count numbered lines once each, and that the rotated ones are whole.
func (d *doomed) expectNumbered(count int) {
	d.Helper()
	contents, names := files(d, d.log)
	for i, text := range contents[:len(contents)-1] {
		if !strings.HasSuffix(text, "\n") || len(text) > 1e6 {
			d.Errorf("%s has %d bytes and ends in %q, want at most 1e6 and whole lines", names[i], len(text), text[max(0, len(text)-30):])
		}
	}
	n := 0
	for line := range strings.Lines(strings.Join(contents, "")) {
		number, _, _ := strings.Cut(strings.TrimPrefix(line, "line "), " ")
		if got, err := strconv.Atoi(number); err != nil || got != n {
			d.Fatalf("line %d is %q", n, line)
		}
		n++
	}
	if n != count {
		d.Errorf("%d lines in %d files, want %d", n, len(names), count)
	}
}

// Whoever captures is killed at any instant, again and again, while a program writes as fast as it can.
func TestKilledAtAnyInstant(t *testing.T) {
	d := newDoomed(t)
	stop := make(chan struct{})
	count := numbered(d.program, stop)
	kills := 50
	if testing.Short() {
		kills = 5
	}
	for range kills {
		d.life(os.Args[0], func(p *os.Process) {
			time.Sleep(rand.N(30 * time.Millisecond)) // the instant is what is tested
			_ = p.Kill()
		})
	}
	d.end(stop, count)
}

// end stops the writer and expects all of what it wrote.
func (d *doomed) end(stop chan struct{}, count <-chan int) {
	d.Helper()
	close(stop)
	var lines int
	d.life(os.Args[0], func(p *os.Process) {
		lines = <-count // its last write may wait for room
		_ = p.Kill()
	})
	d.drain()
	d.expectNumbered(lines)
}

// Row 24, and the steps beside it: killed at each of them, early and late.
func TestKilledAtEachStep(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "logs.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "crashpoints", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with crashpoints: %v\n%s", err, out)
	}
	for _, step := range []string{"splice.before", "splice.after", "rotate.before-rename", "rotate.after-rename"} {
		t.Run(step, func(t *testing.T) {
			d := newDoomed(t)
			stop := make(chan struct{})
			count := numbered(d.program, stop)
			for _, passage := range []int{1, 1, 2, 3, 7, 1} {
				d.life(binary, func(*os.Process) {}, fmt.Sprintf("SUPERD_CRASHPOINT=%s:%d", step, passage))
			}
			d.end(stop, count)
		})
	}
}
