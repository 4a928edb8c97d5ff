package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/harness"
)

// smallDisk mounts a file system of a MiB on a folder of the site.
func smallDisk(t *testing.T, s *harness.Site, name string) (dir string) {
	t.Helper()
	dir = s.Path(name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m")
	if errors.Is(err, unix.EPERM) {
		t.Skip("may not mount a file system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestFullDisk: the disk is full, then read-only, then neither. A program that may drop output goes
// on, and each of its bytes is logged or counted. One that may not waits, and each of its lines is
// there in the end. Commands are answered throughout. Source: rows 25 and 46 of the failure table.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const lines = 100_000
	s := harness.NewSite(t, `
		[defaults]
		restart = "never"
		autostart = false
		[program.drops]
		command = ["sh", "-c", "seq 100000; i=100001; while [ ! -e DIR/enough ]; do echo $i; i=$((i+1)); sleep 0.05; done; echo $i > DIR/count; echo $i"]
		log = { file = "DIR/disk/drops.log", overflow = "drop", max_size = 0 }
		[program.waits]
		command = ["seq", "100000"]
		log = { file = "DIR/disk/waits.log", max_size = 0 }
		[program.other]
		command = ["sh", "-c", "echo ready; exec sleep infinity"]
		`)
	disk := smallDisk(t, s, "disk")
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 900_000), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.MustCtl("start", "drops", "waits", "other")
	s.WaitLog("other", "ready\n")
	s.WaitStatus("drops", "drops", func(st harness.Status) bool { return st.DroppedBytes > 0 })
	// A log file is open
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil && !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	if st := s.Status("waits"); st.State != "running" {
		t.Errorf("on a full disk: %v, want it to wait", st)
	}
	s.MustCtl("restart", "other")
	if err := unix.Mount("", disk, "", unix.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	s.WaitState("waits", "exited")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(disk, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
	var want strings.Builder
	for n := 1; n <= lines; n++ {
		fmt.Fprintln(&want, n)
	}
	harness.Until(t, "all is in the log of the one that waits", func() bool { return len(read("waits.log")) >= want.Len() })
	if read("waits.log") != want.String() {
		t.Error("the log of the one that waited is not what it wrote")
	}

	harness.Until(t, "the drop record is there", func() bool { return strings.Contains(read("drops.log"), " dropped: ") })
	s.Write("enough", "")
	s.WaitState("drops", "exited")
	count := strings.TrimSpace(s.Read("count"))
	harness.Until(t, "the last line is there", func() bool { return strings.HasSuffix(read("drops.log"), "\n"+count+"\n") })
	total, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	bytes := int64(0)
	for n := 1; n <= total; n++ {
		bytes += int64(len(strconv.Itoa(n)) + 1)
	}
	logged, last, drops := int64(0), 0, 0
	var reported int64
	for line := range strings.Lines(read("drops.log")) {
		var n int
		if b, _, ok := harness.ReadDropRecord(line); ok {
			drops++
			reported += b
			continue
		}
		if _, err := fmt.Sscan(line, &n); err != nil || n <= last || line != fmt.Sprintln(n) {
			t.Fatalf("line %q after %d", line, last)
		}
		last = n
		logged += int64(len(line))
	}
	st := s.Status("drops")
	if logged+st.DroppedBytes != bytes || reported != st.DroppedBytes {
		t.Errorf("%d bytes in the log, %d dropped, %d counted by %d drop records: want %d in all", logged, st.DroppedBytes, reported, drops, bytes)
	}
	harness.Until(t, "an event reports the drop", func() bool { return strings.Contains(s.MustCtl("events").Out, " dropped: ") })
	if why := s.MustCtl("why", "drops").Out; !strings.Contains(why, fmt.Sprintf("%d bytes of its output in %d lines were dropped", st.DroppedBytes, st.DroppedLines)) {
		t.Errorf("why = %q, want the loss", why)
	}
	if table := s.Ctl("status", "drops").Out; !strings.Contains(table, fmt.Sprintf("%d lines dropped", st.DroppedLines)) {
		t.Errorf("status = %q, want the loss", table)
	}
}

// TestDropCountsOutliveSuperd: the next superd continues the counts of dropped output, and one of
// the two writes the drop record, once.
func TestDropCountsOutliveSuperd(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.chatty]
		command = ["sh", "-c", "exec 3<> DIR/go; while read from to <&3; do seq $from $to; done"]
		log = { file = "DIR/chatty.log", overflow = "drop" }
		`)
	if err := unix.Mkfifo(s.Path("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", s.Path("chatty.log")); err != nil {
		t.Fatal(err)
	}
	d := s.Start()
	last, bytes := 0, 0
	print := func(lines int) {
		t.Helper()
		if err := os.WriteFile(s.Path("go"), fmt.Appendf(nil, "%d %d\n", last+1, last+lines), 0); err != nil {
			t.Fatal(err)
		}
		bytes -= len(numbered(last))
		last += lines
		bytes += len(numbered(last))
	}
	counted := func(lines, bytes int) {
		t.Helper()
		s.WaitStatus("chatty", fmt.Sprintf("has dropped %d lines of %d bytes", lines, bytes), func(st harness.Status) bool {
			if st.DroppedLines > int64(lines) || st.DroppedBytes > int64(bytes) {
				t.Fatalf("%d lines of %d bytes are dropped, want %d of %d", st.DroppedLines, st.DroppedBytes, lines, bytes)
			}
			return st.DroppedLines == int64(lines) && st.DroppedBytes == int64(bytes)
		})
	}
	kill := func() {
		t.Helper()
		pid := d.Pid
		s.Kill(pid, unix.SIGKILL)
		harness.Until(t, "another superd answers", func() bool { d.FindSupervisor(); return d.Pid != pid })
	}
	for range 3 {
		print(20_000)
		counted(last, bytes)
		harness.Until(t, "the count is in the journal", func() bool { return strings.Contains(s.Read("run/journal"), fmt.Sprintf(`"Bytes":%d`, bytes)) })
		kill()
		counted(last, bytes)
	}
	dropped := last
	if err := os.Remove(s.Path("chatty.log")); err != nil {
		t.Fatal(err)
	}
	record := fmt.Sprintf("superd: %d bytes in %d lines were dropped", bytes, last)
	harness.Until(t, "the drop record is there", func() bool { return strings.Contains(s.Read("chatty.log"), record) })
	droppedBytes := bytes
	harness.Until(t, "that is in the journal", func() bool { return strings.Contains(s.Read("run/journal"), fmt.Sprintf(`"ToldBytes":%d`, bytes)) })
	kill()
	counted(dropped, droppedBytes)
	print(1)
	want := fmt.Sprintf("\n%d\n", last)
	harness.Until(t, "the next line is there", func() bool { return strings.HasSuffix(s.Read("chatty.log"), want) })
	if text := s.Read("chatty.log"); strings.Count(text, "\n") != 2 {
		t.Errorf("the log is %q, want one gap and a line", text)
	}
	counted(dropped, droppedBytes)
}
