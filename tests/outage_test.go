package tests

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/tests/child"
	"superd/tests/harness"
)

// TestLogDiskStalls: the disk of some logs does not answer, and superd's own output has no reader.
// Commands are answered; other programs start, stop and log. When the disk is unmounted, each line
// of a program that waits is there, and each byte of one that may drop is there or counted. Source:
// row 26 of the failure table.
func TestLogDiskStalls(t *testing.T) {
	t.Parallel()
	const lines = 20_000 // more than a pipe holds
	s := harness.NewSite(t, `
		[defaults]
		restart = "never"
		[program.waits]
		command = ["seq", "20000"]
		log = { file = "DIR/m/waits.log" }
		[program.drops]
		command = ["seq", "20000"]
		log = { file = "DIR/m/drops.log", overflow = "drop" }
		[program.other]
		command = "child lines 20000"
		`)
	_, waitRequested, release := s.UnkillableMount("m")
	stderr := fullPipe(t)
	s.Start(func(cmd *exec.Cmd) { cmd.Stderr = stderr })
	waitRequested(2)
	s.WaitState("drops", "exited")
	if st := s.Status("waits"); st.State != "running" {
		t.Errorf("while its disk does not answer: %v, want it to wait", st)
	}
	for run := 1; run <= 3; run++ {
		s.WaitState("other", "exited")
		s.WaitLog("other", strings.Repeat(childLines(lines), run))
		s.MustCtl("restart", "--no-wait", "other")
	}
	harness.Until(t, "control answers within 50 ms", func() bool {
		begin := time.Now()
		s.Status("other")
		return time.Since(begin) < 50*time.Millisecond
	})
	release() // the folder below the mount is used from now on
	s.WaitState("waits", "exited")
	read := func(name string) string {
		text, err := os.ReadFile(s.Path("m/" + name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	harness.Until(t, "all lines of the program that waited", func() bool { return len(read("waits.log")) >= len(numbered(lines)) })
	if got := read("waits.log"); got != numbered(lines) {
		t.Errorf("the log of the program that waited has %d bytes, and not those that were written", len(got))
	}
	harness.Until(t, "the drop record is there", func() bool { return strings.HasSuffix(read("drops.log"), "the log stalled\n") })
	dropped, logged := 0, 0
	for line := range strings.Lines(read("drops.log")) {
		if b, _, ok := harness.ReadDropRecord(line); ok {
			dropped += int(b)
		} else {
			logged += len(line)
		}
	}
	if st := s.Status("drops"); logged+dropped != len(numbered(lines)) || st.DroppedBytes != int64(dropped) {
		t.Errorf("%d bytes are in the log, its drop records count %d, the status %d: want %d in all", logged, dropped, st.DroppedBytes, len(numbered(lines)))
	}
}

// childLines returns the output of `child lines N`.
func childLines(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(child.Line(i))
	}
	return b.String()
}

// fullPipe returns the write end of a pipe that stays full until the test ends.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// A separate open file description: the caller's has to block.
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", write.Fd()), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range [][]byte{make([]byte, 4096), {0}} {
		for err = nil; err == nil; {
			_, err = unix.Write(fd, piece)
		}
	}
	unix.Close(fd)
	if err != unix.EAGAIN {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		write.Close()
		go io.Copy(io.Discard, read) // otherwise superd's last messages would block it
	})
	return write
}

// TestLogFileChangesUnderneath: a log file is moved away, deleted and truncated without a signal to
// superd. Each line is in one of the files, once. Source: row 22 of the failure table.
func TestLogFileChangesUnderneath(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.count]
		command = ["sh", "-c", 'i=0; while read n; do i=$$((i+1)); echo "number $$i"; done < DIR/steps']
		`)
	nextStep := s.Steps("steps")
	s.Start()
	s.WaitRunning()
	log, all, n := s.LogDir+"/count.log", "", 0
	step := func(files ...string) {
		n++
		nextStep()
		harness.Until(t, fmt.Sprintf("line %d", n), func() bool {
			for _, path := range append(files, log) {
				text, _ := os.ReadFile(path)
				if strings.Contains(string(text), fmt.Sprintf("number %d\n", n)) {
					return true
				}
			}
			return false
		})
	}
	for round := range 30 {
		for range 3 {
			step()
		}
		part := s.Log("count")
		var err error
		switch round % 3 {
		case 0:
			moved := fmt.Sprintf("%s.moved%d", log, round)
			err = os.Rename(log, moved)
			for there := false; err == nil && !there; { // noticed soon
				step(moved)
				_, serr := os.Stat(log)
				there = serr == nil
			}
			if err == nil {
				var text []byte
				text, err = os.ReadFile(moved)
				part = string(text)
			}
		case 1:
			err = os.Remove(log)
		case 2:
			err = os.Truncate(log, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		all += part
	}
	step()
	all += s.Log("count")
	want := ""
	for i := 1; i <= n; i++ {
		want += fmt.Sprintf("number %d\n", i)
	}
	if all != want {
		t.Errorf("the files have %q, want %q", all, want)
	}
}

// TestFollowerStops: a follower of logs stops reading. Nothing else is affected, and it learns how
// much it has missed. Source: row 27 of the failure table.
func TestFollowerStops(t *testing.T) {
	t.Parallel()
	const lines = 200_000
	s := harness.NewSite(t, `
		[defaults]
		restart = "never"
		[program.flood]
		command = ["sh", "-c", "echo first; read x < DIR/gate; exec child lines 200000"]
		log = { max_size = "100kB", keep = 2 }
		[program.other]
		command = ["sh", "-c", "echo ready; exec sleep infinity"]
		`)
	open := s.Gate("gate")
	d := s.Start()
	s.WaitLog("flood", "first\n")
	var out harness.Output
	cmd := s.Command("ctl", "logs", "-f", "-n", "all", "--raw", "flood")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		end(cmd)
	})
	out.Wait(t, "first\n")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	open()
	s.WaitState("flood", "exited")
	s.WaitLog("flood", child.Line(lines))
	s.MustCtl("restart", "other")
	s.WaitLog("other", "ready\nready\n")
	if peak := s.KiB(d.Pid, "status", "VmHWM"); peak > 64<<10 {
		t.Errorf("superd's memory peaked at %d KiB, want it bounded", peak)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	out.Wait(t, child.Line(lines))
	want := "first\n" + childLines(lines)
	before, rest, found := strings.Cut(out.String(), "superd: flood: ")
	var missing int
	if _, err := fmt.Sscanf(rest, "%d bytes were removed by rotation before they could be shown", &missing); !found || err != nil {
		t.Fatalf("no drop record after %d bytes: %.200q", len(before), rest)
	}
	_, after, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(want, before) || !strings.HasSuffix(want, after) || len(before)+missing+len(after) != len(want) {
		t.Errorf("%d bytes, %d missing, %d bytes, want %d in all, each line once", len(before), missing, len(after), len(want))
	}
}

// TestWorkingDirectoryRemoved: the working directory of superd is removed. superd stays alive, a
// start that needs that directory fails with the reason, and the next superd starts there, too.
// Source: row 46 of the failure table.
func TestWorkingDirectoryRemoved(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.count]
		command = ["sh", "-c", "echo started; exec sleep infinity"]
		[program.there]
		command = "pwd"
		directory = "DIR/work"
		restart = "never"
		`)
	s.Mkdir("work")
	d := s.Start(func(cmd *exec.Cmd) { cmd.Dir = s.Path("work") })
	s.WaitLog("there", "/work\n")
	s.WaitLog("count", "started\n")
	if err := os.Remove(s.Path("work")); err != nil {
		t.Fatal(err)
	}
	s.MustCtl("restart", "count")
	s.WaitLog("count", "started\nstarted\n")
	s.Ctl("start", "there")
	if st := s.WaitState("there", "failed"); !strings.Contains(st.Reason, s.Path("work")) {
		t.Errorf("without its directory: %v, want a reason that names it", st)
	}
	pid := s.Status("count").Pid
	before := d.Pid
	s.Kill(d.Pid, syscall.SIGKILL)
	harness.Until(t, "the next superd answers", func() bool { d.FindSupervisor(); return d.Pid != before })
	if st := s.WaitState("count", "running"); st.Pid != pid {
		t.Errorf("after a kill: %v, want pid %d", st, pid)
	}
	s.MustCtl("reload")
	s.MustCtl("restart", "count")
	s.WaitLog("count", strings.Repeat("started\n", 3))
}

// TestNumberedLinesToTheEnd, with counted lines: a descendant prints after the exit, which is
// reported at once; a program closes its output and continues; a last line has no newline. Source:
// rows 6, 7 and 19 of the failure table.
func TestNumberedLinesToTheEnd(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		restart = "never"
		[program.leaves]
		command = ["sh", "-c", "seq 1 1000; (read x < DIR/gate; exec seq 1001 2000) & exit 7"]
		kill_mode = "process"
		[program.closes]
		command = ["sh", "-c", "seq 1 1000; exec >&- 2>&-; echo closed > DIR/closed; exec sleep infinity"]
		[program.unfinished]
		command = ["sh", "-c", "seq 1 999; printf 1000"]
		`)
	open := s.Gate("gate")
	s.Start()
	if st := s.WaitState("leaves", "failed"); st.Exit.String() != "7" {
		t.Errorf("after the exit, while a descendant has the pipe: %v, want exit 7", st)
	}
	if got := s.WaitLog("leaves", "\n1000\n"); got != numbered(1000) {
		t.Errorf("log of %d bytes, want 1,000 lines", len(got))
	}
	open()
	if got := s.WaitLog("leaves", "\n2000\n"); got != numbered(2000) {
		t.Errorf("log of %d bytes, want 2,000 lines", len(got))
	}
	harness.Until(t, "the output is closed", func() bool { _, err := os.Stat(s.Path("closed")); return err == nil })
	if got := s.WaitLog("closes", "\n1000\n"); got != numbered(1000) || s.Status("closes").State != "running" {
		t.Errorf("log of %d bytes, %v, want 1,000 lines, and that it runs", len(got), s.Status("closes"))
	}
	s.WaitState("unfinished", "exited")
	s.WaitStatus("unfinished", "shows its last line", func(st harness.Status) bool { return st.LastLine == "1000" })
	if got := s.Log("unfinished"); got != strings.TrimSuffix(numbered(1000), "\n") {
		t.Errorf("log of %d bytes, want 1,000 lines, the last one without an end", len(got))
	}
}

// TestReadOnlyDisk: the file system of a log becomes read-only. superd reports it, the program's
// output waits, and other programs go on. Each line is there when the file system is writable
// again. Source: row 46 of the failure table.
func TestReadOnlyDisk(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.count]
		command = ["sh", "-c", "seq 1 1000; read x < DIR/gate; seq 1001 2000; exec sleep infinity"]
		log = { file = "DIR/disk/count.log" }
		[program.other]
		command = ["sh", "-c", "echo ready; exec sleep infinity"]
		`)
	disk := smallDisk(t, s, "disk")
	open := s.Gate("gate")
	d := s.Start()
	read := func() string {
		text, err := os.ReadFile(disk + "/count.log")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	harness.Until(t, "the first lines", func() bool { return read() == numbered(1000) })
	d.Signal(syscall.SIGUSR1) // closes its log files
	harness.Until(t, "the disk is read-only", func() bool {
		err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
		if err != nil && err != unix.EBUSY {
			t.Fatal(err)
		}
		return err == nil
	})
	open()
	d.ErrOut.Wait(t, "count.log: read-only file system")
	s.WaitLog("other", "ready\n")
	s.MustCtl("restart", "other")
	s.WaitLog("other", "ready\nready\n")
	if st := s.Status("count"); st.State != "running" {
		t.Errorf("while its log can't be written: %v, want it to run", st)
	}
	if got := read(); got != numbered(1000) {
		t.Errorf("log of %d bytes on a read-only disk, want the 1,000 lines of before", len(got))
	}
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	harness.Until(t, "all lines", func() bool { return len(read()) >= len(numbered(2000)) })
	if got := read(); got != numbered(2000) {
		t.Errorf("log of %d bytes, want 2,000 lines, each once", len(got))
	}
}
