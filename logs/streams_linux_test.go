package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/logs/frame"
	"superd/logs/logstest"
)

// A twoStreams is a program with a FIFO for each stream.
type twoStreams struct {
	*program
	stderr *os.File
}

func (r *rig) twoStreams(o Options) *twoStreams {
	r.Helper()
	o.Split = true
	p := &twoStreams{program: r.program(o)}
	p.attachStderr()
	return p
}

func (p *twoStreams) attachStderr() {
	p.rig.Helper()
	read, write := p.rig.fifo()
	p.stderr = write
	p.rig.do(func() {
		if err := p.Attach(Stderr, read); err != nil {
			p.rig.Error(err)
		}
	})
}

func (p *twoStreams) printError(text string) {
	p.rig.Helper()
	if _, err := p.stderr.WriteString(text); err != nil {
		p.rig.Fatal(err)
	}
}

func (p *twoStreams) awaitDrained() {
	p.rig.Helper()
	p.rig.await(p.drained(), "output to be written")
}

func TestSeparateStreams(t *testing.T) {
	for _, drop := range []bool{false, true} {
		dir := t.TempDir()
		o := Options{Path: filepath.Join(dir, "web.log"), StderrPath: filepath.Join(dir, "web.err.log"), Drop: drop}
		p := newRig(t).twoStreams(o)
		p.print("out\n")
		p.printError("err\n")
		p.awaitDrained()
		logstest.Equal(t, "standard output", logstest.ReadFile(t, o.Path), "out\n")
		logstest.Equal(t, "standard error", logstest.ReadFile(t, o.StderrPath), "err\n")
	}
}

// TestLabelledStreams: each line is in the file once and whole, labelled with its stream, and the
// lines of each stream are in order.
func TestLabelledStreams(t *testing.T) {
	o := Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: frame.Text, MaxSize: 100_000, Keep: 1000}
	p := newRig(t).twoStreams(o)
	const lines = 20_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range lines {
			fmt.Fprintf(p.stderr, "err %d\n", n)
		}
	}()
	for n := range lines {
		fmt.Fprintf(p.File, "out %d\n", n)
	}
	<-done
	p.awaitDrained()
	var next [streams]int
	for line := range strings.Lines(logstest.Joined(t, o.Path)) {
		fields := strings.Fields(line)
		which, want := Stdout, "stdout out"
		if strings.HasPrefix(fields[2], "err") {
			which, want = Stderr, "stderr err"
		}
		if got := strings.Join(fields[1:], " "); got != fmt.Sprintf("%s %d", want, next[which]) {
			t.Fatalf("record %q, want %s %d", line, want, next[which])
		}
		next[which]++
	}
	if next != [streams]int{lines, lines} {
		t.Errorf("%v lines of the streams, want %d each", next, lines)
	}
}

// TestLabelledOrder: output to one stream is written before later output to the other, if superd
// can know the order.
func TestLabelledOrder(t *testing.T) {
	o := Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: frame.Text}
	r := newRig(t)
	p := r.twoStreams(o)
	var want []string
	for n := range 200 {
		// A drain in progress might find only the first line
		r.poll("the end of the drain", func() bool { return p.state.Load() == idle })
		// Both lines are there before a worker checks
		resume := r.store.poller.Pause()
		if n%2 == 0 {
			p.print("a\n")
			p.printError("b\n")
			want = append(want, "stdout a", "stderr b")
		} else {
			p.printError("b\n")
			p.print("a\n")
			want = append(want, "stderr b", "stdout a")
		}
		resume()
		p.awaitDrained()
	}
	var got []string
	for line := range strings.Lines(logstest.ReadFile(t, o.Path)) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		got = append(got, rest)
	}
	wrong := 0
	for i := range want {
		if i >= len(got) || got[i] != want[i] {
			wrong++
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d records are not where they were written", wrong, len(want))
	}
}

// TestUnfinishedLineOfOneStream: an incomplete line in one stream delays the other only for a
// limited time.
func TestUnfinishedLineOfOneStream(t *testing.T) {
	o := Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: frame.Text}
	p := newRig(t).twoStreams(o)
	p.print("part")
	begin := time.Now()
	for n := range 3 {
		p.printError("whole\n")
		want := n + 1
		p.until("the line of the other stream", func() bool { return strings.Count(readFileIfAny(o.Path), "stderr whole") == want })
	}
	p.until("the part", func() bool { return strings.Contains(logstest.ReadFile(t, o.Path), "stdout+ part") })
	if took := time.Since(begin); took > testTimeout/2 {
		t.Errorf("that took %v", took)
	}
}

func readFileIfAny(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// TestStreamsAreMergedAndSeparated: the options may separate the streams, merge them or use one
// FIFO, from one run to the next.
func TestStreamsAreMergedAndSeparated(t *testing.T) {
	dir := t.TempDir()
	together := Options{Path: filepath.Join(dir, "web.log"), Format: frame.Text}
	separate, labelled := together, together
	separate.Split, separate.StderrPath = true, filepath.Join(dir, "web.err.log")
	labelled.Split = true
	r := newRig(t)
	p := &twoStreams{program: r.program(together)}
	say := func(text string) {
		t.Helper()
		p.print(text + "\n")
		if p.stderr != nil {
			p.printError(text + "\n")
		}
		p.awaitDrained()
	}
	say("1")
	r.do(func() { p.SetOptions(separate) })
	p.attachStderr()
	say("2")
	r.do(func() { p.SetOptions(labelled) })
	say("3")
	r.do(func() { p.SetOptions(together) }) // a leftover process still writes to the second one
	say("4")
	r.do(func() { p.SetOptions(separate) })
	say("5")
	count := func(path, text string) int { return strings.Count(logstest.ReadFile(t, path), text+"\n") }
	for _, tt := range []struct {
		text      string
		out, errs int
	}{{"stdout 1", 1, 0}, {"stdout 2", 1, 0}, {"stderr 2", 0, 1}, {"stdout 3", 1, 0}, {"stderr 3", 1, 0}, {"stderr 4", 1, 0}, {"stderr 5", 0, 1}, {"stdout 5", 1, 0}} {
		if out, errs := count(together.Path, tt.text), count(separate.StderrPath, tt.text); out != tt.out || errs != tt.errs {
			t.Errorf("%q is %d times in the one file and %d times in the other, want %d and %d", tt.text, out, errs, tt.out, tt.errs)
		}
	}
}

// TestBarrierInBothStreams: a run begins where both streams have reached its barrier: the first one
// waits for the other.
func TestBarrierInBothStreams(t *testing.T) {
	r := newRig(t)
	p := &twoStreams{program: r.undrained()}
	o := Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: frame.Text, Split: true}
	r.do(func() {
		p.SetOptions(o)
		p.state.Store(draining)
	})
	p.attachStderr()
	out, errs := p.shared.streams[0], p.shared.streams[1]
	turn := func(s *stream, wantMore bool) {
		t.Helper()
		if more, err := s.moveTurn(); more != wantMore || err != nil {
			t.Fatalf("turn() = %v, %v, want %v", more, err, wantMore)
		}
	}
	p.print("old out\n")
	p.printError("old err\n")
	began := ""
	p.addBarrier(runEndBarrier, func() { began = logstest.ReadFile(t, o.Path) })
	out.nextLimit()
	errs.nextLimit()
	p.print("new out\n")
	p.printError("new err\n")
	turn(out, true)
	turn(out, true)
	if text := logstest.ReadFile(t, o.Path); strings.Contains(text, "new") || began != "" {
		t.Fatalf("the barrier is passed before standard error has reached it: %q", text)
	}
	turn(errs, false)
	turn(out, false)
	if strings.Count(began, "\n") != 2 || strings.Contains(began, "new") {
		t.Errorf("the file at the barrier is %q, want the old lines", began)
	}
	if got := strings.Count(logstest.ReadFile(t, o.Path), "new"); got != 2 {
		t.Errorf("%d new lines in the file, want both", got)
	}
}

// TestOneFileFails: while one of two files can't be written, the other one is.
func TestOneFileFails(t *testing.T) {
	for _, drop := range []bool{false, true} {
		dir := t.TempDir()
		blocked := filepath.Join(dir, "blocked")
		logstest.WriteFile(t, blocked, "not a directory")
		o := Options{Path: filepath.Join(blocked, "web.log"), StderrPath: filepath.Join(dir, "web.err.log"), Drop: drop}
		r := newRig(t)
		r.store.retryDelay = func(int) time.Duration { return time.Hour }
		p := r.twoStreams(o)
		p.print("out\n")
		want := ""
		for n := range 5 {
			line := fmt.Sprintf("err %d\n", n)
			p.printError(line)
			want += line
			p.until("the line of the other stream", func() bool { return readFileIfAny(o.StderrPath) == want })
		}
		if _, lines := p.Dropped(); drop != (lines > 0) {
			t.Errorf("%d lines are dropped, drop is %v", lines, drop)
		}
		r.do(p.scope.Close)
	}
}

func TestTailIsOfStandardError(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t)
	p := r.twoStreams(Options{Path: filepath.Join(dir, "web.log"), StderrPath: filepath.Join(dir, "web.err.log")})
	r.do(func() { p.BeginRun("a", false) })
	p.print("out\n")
	p.awaitDrained()
	if got := p.tail(); got != "out\n" {
		t.Errorf("tail = %q, want that of standard output where there is no other", got)
	}
	p.printError("failed\n")
	p.awaitDrained()
	if got := p.tail(); got != "failed\n" {
		t.Errorf("tail = %q, want failed", got)
	}
}

// TestWaitsForTheOtherStreamAtRest: while the file of one stream can't be written, the other may
// have to wait at a barrier: then no worker spins.
func TestWaitsForTheOtherStreamAtRest(t *testing.T) {
	for _, drop := range []bool{false, true} {
		dir := t.TempDir()
		logstest.WriteFile(t, filepath.Join(dir, "no"), "")
		r := newRig(t)
		r.store.retryDelay = func(int) time.Duration { return 200 * time.Millisecond }
		o := Options{Path: filepath.Join(dir, "web.log"), StderrPath: filepath.Join(dir, "no", "web.err.log"), Drop: drop}
		p := r.twoStreams(o)
		r.do(func() { p.BeginRun("a", false) })
		p.print("1\n")
		p.printError("lost, or late\n")
		r.poll("a word of the failure", func() bool { return strings.Contains(r.log.String(), "does not get into its log") })
		r.do(func() { p.EndRun(); p.BeginRun("b", false) })
		p.print("2\n")
		if !drop { // otherwise there is no wait: what can't be written is dropped
			r.poll("standard output to reach the barrier", func() bool {
				p.shared.Lock()
				defer p.shared.Unlock()
				return len(p.shared.barriers) > 0 && p.shared.barriers[0].at[Stdout] == passed
			})
		}
		p.print("3\n")
		returns := func() int { return int(p.store.poller.State().Returns) }
		before, begun := returns(), time.Now()
		for range 2000 {
			r.do(func() {})
		}
		if n, most := returns()-before, 100+int(time.Since(begun)/time.Millisecond); n > most {
			t.Errorf("drop: %t: %d events in %v, want %d at most", drop, n, time.Since(begun), most)
		}
		if err := os.Remove(filepath.Join(dir, "no")); err != nil {
			t.Fatal(err)
		}
		p.awaitDrained()
		logstest.Equal(t, "standard output", logstest.ReadFile(t, o.Path), "1\n2\n3\n")
		if !drop {
			logstest.Equal(t, "standard error", logstest.ReadFile(t, o.StderrPath), "lost, or late\n")
		}
	}
}
