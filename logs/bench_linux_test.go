package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"superd/loop"
)

// lines100 is a block of lines of 100 bytes, a multiple of what a pipe takes at once.
var lines100 = bytes.Repeat(append(bytes.Repeat([]byte("x"), 99), '\n'), 1024)

func benchDir(b *testing.B) string {
	if dir := os.Getenv("SUPERD_BENCH_DIR"); dir != "" {
		return dir
	}
	return b.TempDir()
}

// BenchmarkCapture is programs that write 100-byte lines in big writes as fast as they can, to rotated files.
func BenchmarkCapture(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprintf("programs=%d", n), func(b *testing.B) {
			r := newRig(b)
			dir := benchDir(b)
			programs := make([]*program, n)
			for i := range programs {
				programs[i] = r.program(Options{Path: filepath.Join(dir, fmt.Sprintf("%d.log", i)), MaxSize: 20e6, Keep: 1})
			}
			b.SetBytes(int64(n * len(lines100)))
			start := cpu(b)
			done := make(chan struct{})
			blocks := make([]chan struct{}, n)
			for i, p := range programs {
				blocks[i] = make(chan struct{}, 1<<10)
				go func() {
					for range blocks[i] {
						_, _ = p.Write(lines100)
					}
					done <- struct{}{}
				}()
			}
			for b.Loop() {
				for _, c := range blocks {
					c <- struct{}{}
				}
			}
			for _, c := range blocks {
				close(c)
			}
			for range blocks {
				<-done
			}
			for _, p := range programs {
				r.await(p.drained(), "the rest")
			}
			total := float64(b.N * n * len(lines100))
			b.ReportMetric((cpu(b)-start)/total*(1<<30), "cpu-s/GiB")
		})
	}
}

// BenchmarkWrites is one program that makes a system call for each line of 100 bytes.
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

// BenchmarkLatency is from the write of a line to the line in its file.
func BenchmarkLatency(b *testing.B) {
	r := newRig(b)
	p := r.program(Options{Path: filepath.Join(benchDir(b), "web.log"), MaxSize: 20e6, Keep: 1})
	there := make(chan struct{}, 1)
	defer p.Notify(func() { there <- struct{}{} })()
	fd := int(p.Fd())
	for b.Loop() {
		if _, err := unix.Write(fd, lines100[:100]); err != nil {
			b.Fatal(err)
		}
		<-there
	}
}

// BenchmarkQuiet is the memory of a capture that has logged a line and is quiet now.
func BenchmarkQuiet(b *testing.B) {
	r := newRig(b)
	dir := benchDir(b)
	const n = 200
	var bytes uint64
	for b.Loop() {
		programs := make([]*program, n)
		reads, options := make([]int, n), make([]Options, n)
		for i := range programs {
			programs[i] = &program{rig: r}
			reads[i], programs[i].File = r.fifo()
			options[i] = Options{Path: filepath.Join(dir, fmt.Sprintf("%d.log", i)), MaxSize: 20e6, Keep: 10}
		}
		start := heapInUse()
		var scope *loop.Scope
		r.do(func() {
			scope = r.loop.Root().Child()
			for i, p := range programs {
				p.Capture = r.store.NewCapture(scope, "web", options[i])
				if err := p.Attach(reads[i]); err != nil {
					b.Error(err)
				}
			}
		})
		for _, p := range programs {
			p.log(string(lines100[:100]))
		}
		bytes = heapInUse() - start
		r.do(scope.Close)
		for _, p := range programs {
			p.File.Close()
		}
	}
	b.ReportMetric(float64(bytes)/n, "B/capture")
	b.ReportMetric(0, "ns/op")
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // empties the pool of buffers
	return heap()
}

// cpu returns the processor time of this process in seconds.
func cpu(b *testing.B) float64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
