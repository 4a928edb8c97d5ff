package logs

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/internal/syscalls"
	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/pipe"
	"superd/logs/segment"
	"superd/loop"
)

// If the environment names a FIFO and a log file, the test binary only moves output from one to the
// other.
const (
	fifoVariable   = "SUPERD_TEST_FIFO"
	logVariable    = "SUPERD_TEST_LOG"
	formatVariable = "SUPERD_TEST_FORMAT"

	compressionVariable = "SUPERD_TEST_COMPRESSION"
)

func TestMain(m *testing.M) {
	if fifo := os.Getenv(fifoVariable); fifo != "" {
		if err := collectForever(fifo, os.Getenv(logVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// collectForever moves output until it is killed.
func collectForever(fifo, log string) error {
	l, err := loop.New()
	if err != nil {
		return err
	}
	fd, err := pipe.AdoptFIFO(fifo)
	if err != nil {
		return err
	}
	store := NewStore(l, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	o := Options{Program: "web", Path: log, Format: frame.Format(os.Getenv(formatVariable)), MaxSize: 1e6, Keep: 10_000, Compression: segment.Compression(os.Getenv(compressionVariable))}
	if err := store.NewCollector(l.Root(), "web", o).Attach(Stdout, fd); err != nil {
		return err
	}
	return l.Run()
}

// A killed has what a killed superd leaves behind: its FIFO, which a program has open, and its log
// file.
type killed struct {
	testing.TB
	fifo, log string
	format    frame.Format
	packed    segment.Compression
	program   *os.File
	kills     int
}

func newKilled(t *testing.T, format frame.Format) *killed {
	t.Helper()
	dir := t.TempDir()
	d := &killed{TB: t, format: format, fifo: filepath.Join(dir, "fifo"), log: filepath.Join(dir, "log", "web.log")}
	read, err := pipe.MakeFIFO(d.fifo, os.Geteuid(), os.Getegid())
	if err != nil {
		t.Fatal(err)
	}
	defer syscalls.Close(read)
	if d.program, err = os.OpenFile(d.fifo, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.program.Close() })
	return d
}

// run starts the test binary to move output. end makes sure that it is killed.
func (d *killed) run(binary string, end func(*os.Process), environment ...string) {
	d.Helper()
	cmd := exec.CommandContext(d.Context(), binary)
	cmd.Env = append(os.Environ(), append(environment, fifoVariable+"="+d.fifo, logVariable+"="+d.log, formatVariable+"="+string(d.format),
		compressionVariable+"="+string(d.packed))...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		d.Fatal(err)
	}
	end(cmd.Process)
	d.kills++
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		d.Fatalf("the capturing process ended by itself: %v", err)
	}
}

// drain runs the test binary until the FIFO is empty.
func (d *killed) drain() {
	d.run(os.Args[0], func(p *os.Process) {
		for start := time.Now(); pipe.Bytes(int(d.program.Fd())) > 0; time.Sleep(time.Millisecond) {
			if time.Since(start) > testTimeout {
				d.Error("the FIFO is not drained")
				break
			}
		}
		_ = p.Kill()
	})
}

// numberedLine appends line number n to dst.
func numberedLine(dst []byte, n int) []byte {
	return fmt.Appendf(dst, "line %d %s\n", n, "................................................................................"[:n%80])
}

// numbered writes numbered lines as fast as it can until stop is closed, and returns how many.
func numbered(w io.Writer, stop <-chan struct{}) <-chan int {
	count := make(chan int, 1)
	go func() {
		var block []byte
		for n := 0; ; {
			block = block[:0]
			for range 500 {
				block = numberedLine(block, n)
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

// expectNumbered checks that the segments together have count numbered lines, and that the rotated
// ones end with a newline. Each raw line is there once. Records in flight may be there twice, after
// each kill.
func (d *killed) expectNumbered(count int) {
	d.Helper()
	contents, names := logstest.Files(d, d.log)
	for i := len(names) - 1; i > 0; i-- {
		// Killed before it could remove what it had compressed
		if strings.TrimSuffix(names[i], d.packed.Suffix()) == names[i-1] {
			contents, names = slices.Delete(contents, i, i+1), slices.Delete(names, i, i+1)
		}
	}
	for i, text := range contents[:len(contents)-1] {
		if !strings.HasSuffix(text, "\n") || len(text) > 1e6 {
			d.Errorf("%s has %d bytes and ends in %q, want at most 1e6 and whole lines", names[i], len(text), text[max(0, len(text)-30):])
		}
	}
	n, repeats := 0, 0
	var partial string
	for line := range strings.Lines(strings.Join(contents, "")) {
		switch d.format {
		case frame.JSON:
			var record frame.Record
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				d.Fatalf("record after line %d is %q: %v", n, line, err)
			}
			if record.Partial {
				partial += record.Line
				continue
			}
			line, partial = partial+record.Line+"\n", ""
		case frame.Text:
			at, text, _ := strings.Cut(line, " ")
			stream, text, _ := strings.Cut(text, " ")
			if _, err := time.Parse(frame.TimeLayout, at); err != nil {
				d.Fatalf("record after line %d is %q", n, line)
			}
			if stream == "stdout+" {
				partial += strings.TrimSuffix(text, "\n")
				continue
			}
			line, partial = partial+text, ""
		default: // the line as it was written
		}
		if want := numberedLine(nil, n); line != string(want) {
			number, _, _ := strings.Cut(strings.TrimPrefix(line, "line "), " ")
			repeated, err := strconv.Atoi(number)
			if d.format == frame.Raw || err != nil || repeated > n || n-repeated > pipe.ChunkBytes || line != string(numberedLine(nil, repeated)) {
				d.Fatalf("line %d is %q", n, line)
			}
			n = repeated
			repeats++
		}
		n++
	}
	if n != count {
		d.Errorf("%d lines in %d files, want %d", n, len(names), count)
	}
	if repeats > d.kills {
		d.Errorf("something is there twice %d times, after %d kills", repeats, d.kills)
	}
}

// TestKilledAtAnyInstant kills the process that moves output at random instants, while a program
// writes as fast as it can.
func TestKilledAtAnyInstant(t *testing.T) {
	for format, kills := range map[frame.Format]int{frame.Raw: 30, frame.Text: 10, frame.JSON: 10} {
		t.Run(string(format), func(t *testing.T) {
			d := newKilled(t, format)
			stop := make(chan struct{})
			count := numbered(d.program, stop)
			if testing.Short() {
				kills = 3
			}
			for range kills {
				d.run(os.Args[0], func(p *os.Process) {
					// Random instants are what the test is about
					time.Sleep(rand.N(30 * time.Millisecond))
					_ = p.Kill()
				})
			}
			d.end(stop, count)
		})
	}
}

// end stops the writer and expects all of its output.
func (d *killed) end(stop chan struct{}, count <-chan int) {
	d.Helper()
	close(stop)
	var lines int
	d.run(os.Args[0], func(p *os.Process) {
		lines = <-count // its last write may wait for space
		_ = p.Kill()
	})
	d.drain()
	d.expectNumbered(lines)
}

// TestKilledAtEachStep kills the process at each failpoint, early and late. Source: row 24 of the
// failure table.
func TestKilledAtEachStep(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "logs.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "failpoints", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build with failpoints: %v\n%s", err, out)
	}
	for _, at := range []struct {
		step   string
		format frame.Format
		packed segment.Compression
	}{
		{"splice.before", frame.Raw, ""}, {"splice.after", frame.Raw, ""}, {"rotate.before-rename", frame.Raw, ""}, {"rotate.after-rename", frame.Raw, ""},
		{"record.before-write", frame.JSON, ""}, {"record.after-write", frame.Text, ""}, {"record.after-take", frame.JSON, ""},
		{"rotate.after-rename", frame.JSON, segment.Gzip}, {"compress.written", frame.Raw, segment.Gzip}, {"compress.renamed", frame.Raw, segment.Zstd},
	} {
		t.Run(fmt.Sprint(at.step, " ", at.format, " ", at.packed), func(t *testing.T) {
			d := newKilled(t, at.format)
			d.packed = at.packed
			stop := make(chan struct{})
			count := numbered(d.program, stop)
			passages := []int{1, 1, 2, 3, 7, 1}
			if at.packed != "" {
				passages = []int{1, 2, 1} // compression is slow
			}
			for _, passage := range passages {
				d.run(binary, func(*os.Process) {}, fmt.Sprintf("SUPERD_FAILPOINT=%s:%d", at.step, passage))
			}
			d.end(stop, count)
		})
	}
}
