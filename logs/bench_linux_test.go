package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/logs/follow"
	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/pipe"
	"superd/loop"
)

// lines100 is a block of lines of 100 bytes, a multiple of the capacity of a pipe.
var lines100 = bytes.Repeat(append(bytes.Repeat([]byte("x"), 99), '\n'), 1024)

func benchDir(b *testing.B) string {
	if dir := os.Getenv("SUPERD_BENCH_DIR"); dir != "" {
		return dir
	}
	return b.TempDir()
}

// BenchmarkCollector measures programs that write 100-byte lines in big writes as fast as they can,
// to files rotated at 100 MB. The baseline is bare splice loops, each from an ordinary pipe into
// one file. Both take turns, a GiB at a time, and the best time of each counts, as the machine has
// other load.
func BenchmarkCollector(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprintf("programs=%d", n), func(b *testing.B) {
			blocks := (1 << 30) / n / len(lines100)
			size := int64(n * blocks * len(lines100))
			b.SetBytes(size)
			var collected, bare measured
			for b.Loop() {
				bare.add(b, func() { spliceAll(b, n, blocks) })
				collected.add(b, func() { collectAll(b, n, blocks, Options{}) })
			}
			b.ReportMetric(bare.wall.Seconds()/collected.wall.Seconds(), "of-bare-speed")
			for name, m := range map[string]measured{"collector": collected, "bare": bare} {
				b.ReportMetric(m.cpu/float64(size)*(1<<30), name+"-cpu-s/GiB")
				b.ReportMetric(float64(size)/1e6/m.wall.Seconds(), name+"-MB/s")
			}
		})
	}
}

// measured is the fastest of several rounds.
type measured struct {
	wall time.Duration
	cpu  float64 // seconds, including the writers'
}

func (m *measured) add(b *testing.B, f func()) {
	began, used := time.Now(), cpu(b)
	f()
	if took := time.Since(began); m.wall == 0 || took < m.wall {
		*m = measured{took, cpu(b) - used}
	}
}

// BenchmarkFormats measures one program that writes 100-byte lines in big writes as fast as it can,
// in each format. It counts output bytes, not record bytes, by the clock and by superd's processor
// time without the writer's, which depends less on other load.
func BenchmarkFormats(b *testing.B) {
	for _, format := range []frame.Format{frame.Raw, frame.Text, frame.JSON} {
		b.Run(string(format), func(b *testing.B) {
			blocks := (512 << 20) / len(lines100)
			size := blocks * len(lines100)
			b.SetBytes(int64(size))
			best := 0.0
			for b.Loop() {
				start := cpu(b)
				writers := collectAll(b, 1, blocks, Options{Program: "web", Format: format})
				best = max(best, float64(size)/1e6/(cpu(b)-start-writers))
			}
			b.ReportMetric(best, "MB/cpu-s")
		})
	}
}

// BenchmarkRecords measures the making of records of 100-byte lines, without any pipe or file.
func BenchmarkRecords(b *testing.B) {
	for _, format := range []frame.Format{frame.Text, frame.JSON} {
		b.Run(string(format), func(b *testing.B) {
			text, made := lines100[:pipe.ChunkBytes], make([]byte, frame.BufferBytes)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			var r frame.Recorder
			for b.Loop() {
				h := frame.Header{Format: format, Program: "web", Instance: "web", Run: "0123456789abcdef0123456789abcdef"}
				r.Reset(h, frame.Stdout, time.Now())
				for used := 0; used < len(text)-100; {
					_, n := r.Append(made[:0], text[used:], frame.AwaitMore)
					used += n
				}
			}
		})
	}
}

// collectAll lets n programs write that many blocks each, and waits until all is in their files. It
// returns the processor time of the writers in seconds.
func collectAll(b *testing.B, n, blocks int, o Options) (writing float64) {
	r := newRig(b)
	dir, err := os.MkdirTemp(benchDir(b), "collector")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var programs []*program
	for i := range n {
		o.Path, o.MaxSize, o.Keep = filepath.Join(dir, fmt.Sprintf("%d.log", i)), 100e6, 1
		programs = append(programs, r.program(o))
	}
	var writers sync.WaitGroup
	used := make([]float64, n)
	for i, p := range programs {
		writers.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			start := cpuOf(b, unix.RUSAGE_THREAD)
			writeBlocks(int(p.Fd()), blocks)
			used[i] = cpuOf(b, unix.RUSAGE_THREAD) - start
		})
	}
	writers.Wait()
	for _, p := range programs {
		r.await(p.drained(), "the rest")
		r.do(p.scope.Close)
	}
	r.waitForStore()
	for _, u := range used {
		writing += u
	}
	return writing
}

// spliceAll is collectAll without superd.
func spliceAll(b *testing.B, n, blocks int) {
	dir, err := os.MkdirTemp(benchDir(b), "bare")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var all sync.WaitGroup
	for i := range n {
		var ends [2]int // not os.Pipe: its ends wait in Go's poller, unlike a program's
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			b.Fatal(err)
		}
		file, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d.log", i)))
		if err != nil {
			b.Fatal(err)
		}
		all.Go(func() {
			writeBlocks(ends[1], blocks)
			syscalls.Close(ends[1])
		})
		all.Go(func() {
			defer file.Close()
			defer syscalls.Close(ends[0])
			for {
				if n, err := unix.Splice(ends[0], nil, int(file.Fd()), nil, pipe.ChunkBytes, 0); n == 0 || err != nil && err != unix.EINTR {
					return
				}
			}
		})
	}
	all.Wait()
}

func writeBlocks(fd, blocks int) {
	for range blocks {
		for rest := lines100; len(rest) > 0; {
			n, err := unix.Write(fd, rest)
			if err != nil && err != unix.EINTR {
				return
			}
			rest = rest[max(n, 0):]
		}
	}
}

// BenchmarkWrites measures one program that makes a system call for each line of 100 bytes.
func BenchmarkWrites(b *testing.B) {
	r := newRig(b)
	p := r.program(Options{Path: filepath.Join(benchDir(b), "web.log"), MaxSize: 20e6, Keep: 1})
	b.SetBytes(100)
	fd := int(p.Fd())
	before, start := r.loop.Turns(), cpu(b)
	for b.Loop() {
		if _, err := unix.Write(fd, lines100[:100]); err != nil {
			b.Fatal(err)
		}
	}
	r.await(p.drained(), "the rest")
	b.ReportMetric((cpu(b)-start)/float64(b.N)*1e9, "cpu-ns/op")
	var turns uint64
	r.do(func() { turns = r.loop.Turns() - before })
	b.ReportMetric(float64(turns)/float64(b.N), "turns/op")
}

// BenchmarkLatency measures from the write of a line to the line in its file.
func BenchmarkLatency(b *testing.B) {
	r := newRig(b)
	p := r.program(Options{Path: filepath.Join(benchDir(b), "web.log"), MaxSize: 20e6, Keep: 1})
	written := make(chan struct{}, 1)
	defer p.Notify(func() { written <- struct{}{} })()
	fd := int(p.Fd())
	for b.Loop() {
		if _, err := unix.Write(fd, lines100[:100]); err != nil {
			b.Fatal(err)
		}
		<-written
	}
}

// BenchmarkQuiet measures the memory of an idle collector that has logged a line, and whose last
// line was read. There are 10,000, or as many as there are descriptors for.
func BenchmarkQuiet(b *testing.B) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		b.Fatal(err)
	}
	n := int(min(10_000, files.Cur/2-100))
	r, each := newRig(b), 0.0
	for b.Loop() {
		each = r.quietMemory(benchDir(b), n, true)
	}
	b.ReportMetric(each, "B/collector")
	b.ReportMetric(float64(n), "collectors")
	b.ReportMetric(0, "ns/op")
}

// TestMemoryOfQuietCollectors bounds what BenchmarkQuiet measures, except for the cache of last
// lines, which has a fixed size.
func TestMemoryOfQuietCollectors(t *testing.T) {
	const most = 950 // bytes; 860 to 890 here, as much with the race detector
	each := newRig(t).quietMemory(t.TempDir(), 1000, false)
	t.Logf("%.0f bytes", each)
	if each > most {
		t.Errorf("%.0f bytes are in use for a quiet collector, want %d at most", each, most)
	}
}

// quietMemory returns the bytes in use for each of n idle collectors that have logged a line. With
// readLines, their last lines are read, so that the cache has some of them.
func (r *rig) quietMemory(dir string, n int, readLines bool) float64 {
	reads, options := make([]int, n), make([]Options, n)
	for i := range n {
		var err error
		if reads[i], err = pipe.MakeFIFO(filepath.Join(dir, "fifo"), os.Geteuid(), os.Getegid()); err != nil {
			r.Fatal(err)
		}
		options[i] = Options{Path: filepath.Join(dir, fmt.Sprintf("%d.log", i)), MaxSize: 20e6, Keep: 10}
	}
	collectors := make([]*Collector, n)
	start := heapInUse()
	var scope *loop.Scope
	r.do(func() {
		scope = r.loop.Root().Child()
		for i := range collectors {
			collectors[i] = r.store.NewCollector(scope, "web", options[i])
			if err := collectors[i].Attach(Stdout, reads[i]); err != nil {
				r.Error(err)
			}
		}
	})
	for i, c := range collectors {
		fd, err := pipe.OpenWriter(reads[i])
		if err != nil {
			r.Fatal(err)
		}
		if _, err := unix.Write(fd, lines100[:100]); err != nil {
			r.Fatal(err)
		}
		p := &program{rig: r, Collector: c}
		r.await(p.drained(), "a line")
		syscalls.Close(fd)
	}
	if readLines {
		for i, line := range follow.LastLines(logsOf(collectors), testTimeout) {
			if len(line) != 99 {
				r.Fatalf("last line of %d has %d bytes", i, len(line))
			}
		}
	}
	used := heapInUse() - start
	r.do(scope.Close)
	r.waitForStore()
	for _, o := range options {
		os.Remove(o.Path)
	}
	return float64(used) / float64(n)
}

// BenchmarkLastLines reads the newest lines of 1,000 programs, when each has written one since and
// when none has.
func BenchmarkLastLines(b *testing.B) {
	r := newRig(b)
	dir := benchDir(b)
	collectors := make([]*Collector, 1000)
	r.do(func() {
		for i := range collectors {
			path := filepath.Join(dir, fmt.Sprintf("%d.log", i))
			logstest.WriteFile(b, path, string(lines100[:10_000]))
			collectors[i] = r.store.NewCollector(r.loop.Root(), "web", Options{Path: path})
		}
	})
	logs := logsOf(collectors)
	for _, written := range []bool{true, false} {
		b.Run(fmt.Sprintf("written=%v", written), func(b *testing.B) {
			for b.Loop() {
				for _, l := range logs {
					if written {
						r.store.readers.Forget(l)
					}
				}
				follow.LastLines(logs, testTimeout)
			}
		})
	}
}

// logsOf returns the logs of standard output.
func logsOf(collectors []*Collector) (logs []follow.Log) {
	for _, c := range collectors {
		logs = append(logs, c.Log(Stdout))
	}
	return logs
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // empties the pool of buffers
	return heap()
}

// cpu returns the processor time of this process in seconds.
func cpu(b *testing.B) float64 { return cpuOf(b, unix.RUSAGE_SELF) }

func cpuOf(b *testing.B, who int) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(who, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
