// Package bench measures the real superd: make bench.
package bench

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
	"superd/tests/table"
)

var update = flag.Bool("update", false, "write the table into docs/design.md, between its markers")

func TestMain(m *testing.M) { harness.Main(m) }

// BenchmarkSuperd measures each figure once and prints them as one table. Run it with -benchtime 1x.
func BenchmarkSuperd(b *testing.B) {
	var t figures
	for _, children := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("children=%d", children), func(b *testing.B) { start(b, &t, children) })
	}
	for _, children := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("recovery=%d", children), func(b *testing.B) { recovery(b, &t, children) })
	}
	b.Run("restart", func(b *testing.B) { restart(b, &t, 200) })
	b.Run("storm", func(b *testing.B) { storm(b, &t, 1000) })
	b.Run("idle", func(b *testing.B) { idle(b, &t, 200, time.Minute) })
	text := t.String()
	fmt.Print("\n", text)
	if *update {
		if err := table.Replace(filepath.Join("..", "..", "docs", "design.md"), "bench", text); err != nil {
			b.Fatal(err)
		}
	}
}

// start measures how long it takes until the children run, as superd tells it, and its memory then.
func start(b *testing.B, t *figures, children int) {
	s := harness.NewSite(b, quiet(children))
	manager := s.Manager()
	begin := time.Now()
	d := s.Launch()
	manager.Wait("READY=1", 1)
	took := time.Since(begin)
	s.Settle(d.Pid)
	pss := s.KiB(d.Pid, "smaps_rollup", "Pss")
	b.ReportMetric(took.Seconds(), "s-to-running")
	b.ReportMetric(float64(pss), "PSS-KiB")
	t.add(fmt.Sprintf("memory (PSS) with %d quiet programs", children), "%.1f MiB", float64(pss)/1024)
	t.add(fmt.Sprintf("from exec of superd until %d programs run", children), "%v", took.Round(time.Millisecond))
}

// restart measures from kill -9 of a program until its next run has written its first byte, the
// back-off (1 ms here) and the start of a shell included.
func restart(b *testing.B, t *figures, kills int) {
	s := harness.NewSite(b, `
		[program.web]
		command = ["sh", "-c", "echo $$$$ > DIR/pids; exec sleep infinity"]
		backoff = { initial = "1ms", factor = 1.0, jitter = 0.0 }
		`)
	path := s.Path("pids")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	pids := bufio.NewReader(f)
	next := func() int {
		line, err := pids.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil {
			b.Fatal(err)
		}
		return pid
	}
	s.Start()
	pid := next()
	var took []time.Duration
	for range kills {
		begin := time.Now()
		s.Kill(pid, syscall.SIGKILL)
		pid = next()
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	median, p99 := took[len(took)/2], took[len(took)*99/100]
	b.ReportMetric(float64(median)/1e6, "ms-median")
	b.ReportMetric(float64(p99)/1e6, "ms-p99")
	t.add(fmt.Sprintf("restart after kill -9, median of %d (1 ms of it back-off)", kills), "%.1f ms", float64(median)/1e6)
	t.add(fmt.Sprintf("restart after kill -9, 99th percentile of %d", kills), "%.1f ms", float64(p99)/1e6)
}

// storm kills all children at once and measures until each of them runs again, and meanwhile how long control takes to answer.
func storm(b *testing.B, t *figures, children int) {
	s := harness.NewSite(b, quiet(children))
	manager := s.Manager()
	d := s.Launch()
	manager.Wait("READY=1", 1)
	before := s.WaitRunning()
	s.Settle(d.Pid)

	ctx, cancel := context.WithCancel(b.Context())
	var answers []time.Duration
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for ctx.Err() == nil {
			begin := time.Now()
			if code, body, err := s.Request("GET", "/v1/status?brief=1&name=p0000"); code != 200 {
				b.Errorf("status: %d %s %v", code, body, err)
				return
			}
			answers = append(answers, time.Since(begin))
		}
	}()
	begin := time.Now()
	for _, pid := range before {
		s.Kill(pid, syscall.SIGKILL)
	}
	killed := time.Since(begin)
	s.WaitAll("running again", func(st harness.Status) bool { return st.State == "running" && st.Pid != before[st.Name] })
	took := time.Since(begin)
	cancel()
	<-asked
	for _, st := range s.All() {
		if st.Restarts != 1 {
			b.Errorf("%v: want 1 restart", st)
		}
	}
	slices.Sort(answers)
	worst, p99 := answers[len(answers)-1], answers[len(answers)*99/100]
	b.ReportMetric(took.Seconds(), "s-to-running")
	b.ReportMetric(float64(worst)/1e6, "ms-worst-answer")
	if worst > 50*time.Millisecond {
		b.Logf("control took %v to answer, the target is 50 ms", worst)
	}
	t.add(fmt.Sprintf("%d programs killed within %v: until all run again (0.1 s of it back-off)", children, killed.Round(time.Millisecond)), "%v", took.Round(time.Millisecond))
	t.add(fmt.Sprintf("control's answers meanwhile, worst of %d", len(answers)), "%.1f ms", float64(worst)/1e6)
	t.add("control's answers meanwhile, 99th percentile", "%.1f ms", float64(p99)/1e6)
}

// idle counts what superd does over a while in which nothing happens.
func idle(b *testing.B, t *figures, children int, window time.Duration) {
	s := harness.NewSite(b, quiet(children))
	manager := s.Manager()
	d := s.Launch()
	manager.Wait("READY=1", 1)
	s.Settle(d.Pid)
	before := s.ContextSwitches(d.Pid)
	harness.Window(b, window)
	switches := s.ContextSwitches(d.Pid) - before
	b.ReportMetric(float64(switches), "switches")
	t.add(fmt.Sprintf("context switches in %v, all threads, %d quiet programs", window, children), "%d", switches)

	// A tracer switches to and from what it traces, so this takes a while of its own.
	returns, err := epollReturns(b.Context(), d.Pid, window)
	if err != nil {
		b.Logf("returns of epoll_wait are not counted: %v", err)
		return
	}
	b.ReportMetric(float64(returns), "epoll-returns")
	t.add(fmt.Sprintf("returns of epoll_wait in %v, %d quiet programs", window, children), "%d", returns)
}

// epollReturns counts the returns of epoll_wait in all threads of a process with strace.
func epollReturns(ctx context.Context, pid int, window time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	trace := exec.CommandContext(ctx, "strace", "-f", "-q", "-e", "trace=epoll_wait,epoll_pwait,epoll_pwait2", "-p", strconv.Itoa(pid))
	trace.Cancel = func() error { return trace.Process.Signal(os.Interrupt) } // it detaches
	out := new(harness.Output)
	trace.Stderr = out
	if err := trace.Run(); err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("strace: %v: %s", err, out)
	}
	returns := 0
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "epoll_") && strings.Contains(line, ") = ") {
			returns++
		}
	}
	return returns, nil
}

func quiet(children int) string {
	var programs strings.Builder
	programs.WriteString("[defaults]\ncommand = 'sleep infinity'\n")
	for i := range children {
		fmt.Fprintf(&programs, "[program.p%04d]\n", i)
	}
	return programs.String()
}
