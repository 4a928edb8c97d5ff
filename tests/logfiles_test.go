package tests

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"superd/tests/child"
	"superd/tests/harness"
)

// TestLogTotals: rotated segments are removed, the oldest first, when those of an instance or of
// all exceed their limit; the remaining ones have no gap.
func TestLogTotals(t *testing.T) {
	t.Parallel()
	const count, each, all = 30_000, 100_000, 150_000
	s := harness.NewSite(t, fmt.Sprintf(`
		log_max_total = "%d"
		[defaults]
		command = "child lines %d"
		restart = "never"
		log = { max_size = "20kB", keep = 1000, max_total = "%d" }
		[program.a]
		[program.b]
		`, all, count, each))
	s.Start()
	for _, name := range []string{"a", "b"} {
		s.WaitState(name, "exited")
		s.WaitLog(name, child.Line(count))
	}
	size := func(glob string) (bytes int) {
		for _, name := range s.Files(glob) {
			// Otherwise it has been removed by now
			if info, err := os.Stat(s.Path(name)); err == nil {
				bytes += int(info.Size())
			}
		}
		return bytes
	}
	harness.Until(t, "the files of all have what they may", func() bool { return size("log/*") <= all })
	for _, name := range []string{"a", "b"} {
		if got := size("log/" + name + ".log*"); got > each {
			t.Errorf("the files of %s have %d bytes, may have %d", name, got, each)
		}
		lines := s.MustCtl("logs", "-n", "all", name).Out
		n := strings.Count(lines, "\n")
		var want strings.Builder
		for i := count - n + 1; i <= count; i++ {
			want.WriteString(child.Line(i))
		}
		if n == 0 || lines != want.String() {
			t.Errorf("of %s %d lines are kept, which are not the last ones", name, n)
		}
	}
	if got := size("log/*"); got < all/2 {
		t.Errorf("only %d bytes are kept of %d", got, all)
	}
}

// TestLogOwnersAndModes: each file of a log, rotated and compressed ones included, has its
// configured owner and mode, whatever the umask.
func TestLogOwnersAndModes(t *testing.T) {
	t.Parallel()
	needRoot(t)
	s := harness.NewSite(t, `
		[program.web]
		command = ["sh", "-c", "seq 20000; seq 20000 >&2; exec sleep infinity"]
		log = { max_size = "20kB", keep = 1000, compress = "gzip", owner = "daemon", group = "65534", mode = "0646", stderr = "separate" }
		`)
	s.Start(harness.Under("umask 077"))
	done := func(glob string) bool {
		files, err := filepath.Glob(s.Path(glob))
		if err != nil {
			t.Fatal(err)
		}
		compressed := 0
		for _, name := range files {
			if strings.HasSuffix(name, ".gz") {
				compressed++
			}
		}
		return compressed >= 4 && compressed == len(files)-1
	}
	harness.Until(t, "all rotated files are compressed", func() bool { return done("log/web.log*") && done("log/web.err.log*") })
	for _, name := range s.Files("log/*") {
		info, err := os.Stat(s.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		owner := info.Sys().(*syscall.Stat_t)
		if owner.Uid != 1 || owner.Gid != 65534 || info.Mode() != 0o646 {
			t.Errorf("%s belongs to %d:%d and has the mode %o, want 1:65534 and 646", name, owner.Uid, owner.Gid, info.Mode())
		}
	}
}

// TestLogFileChangesUnderAWriter: while a program writes, its log file is moved away, with and
// without a signal to superd, removed and truncated. Each line is in one of the files, once and in
// order, except for lines between a read of a file and its truncation. Source: row 22 of the
// failure table.
func TestLogFileChangesUnderAWriter(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.count]
		command = ["sh", "-c", 'i=0; while [ ! -e DIR/enough ]; do i=$$((i+1)); printf "line %08d\n" $$i; [ $$((i%100)) = 0 ] && sleep 0.005; done; echo the end']
		restart = "never"
		log = { max_size = 0 }
		`)
	d := s.Start()
	path := s.LogDir + "/count.log"
	type part struct {
		file *os.File
		text string // if there is no file
		torn bool   // whether lines may be missing before it, and its first one be torn
	}
	var parts []part
	var torn bool
	open := func(name string) {
		t.Helper()
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		parts = append(parts, part{file: f, torn: torn})
		torn = false
	}
	signals := 0
	reopen := func() {
		signals++
		d.Signal(syscall.SIGUSR1)
		d.ErrOut.WaitTimes(t, "log files reopened", signals)
	}
	for round := range 15 {
		harness.Until(t, "there are lines", func() bool { info, err := os.Stat(path); return err == nil && info.Size() > 5000 })
		var err error
		switch round % 5 {
		case 0:
			reopen()
		case 1, 2:
			open(path)
			if err = os.Rename(path, fmt.Sprintf("%s.moved%d", path, round)); round%5 == 1 {
				reopen()
			}
		case 3:
			open(path)
			err = os.Remove(path)
		case 4:
			var text []byte
			if text, err = os.ReadFile(path); err == nil {
				parts = append(parts, part{text: string(text), torn: torn})
				torn = true
				err = os.Truncate(path, 0)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Write("enough", "")
	s.WaitState("count", "exited")
	s.WaitLog("count", "the end\n")
	open(path)

	last := 0
	for i, p := range parts {
		text := p.text
		if p.file != nil {
			all, err := io.ReadAll(p.file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(all)
		} else {
			text = text[:strings.LastIndexByte(text, '\n')+1]
		}
		mayMiss := p.torn
		for line := range strings.Lines(text) {
			var n int
			if line == "the end\n" && i == len(parts)-1 {
				continue
			}
			_, err := fmt.Sscanf(line, "line %d\n", &n)
			intact := err == nil && line == child.Line(n)
			switch {
			case intact && (n == last+1 || mayMiss && n > last):
				last, mayMiss = n, false
			case mayMiss && !intact: // what superd was about to write at the old end of the file
			default:
				t.Fatalf("in part %d of %d: line %q after line %d", i, len(parts), line, last)
			}
		}
	}
	if moved, err := filepath.Glob(path + ".moved*"); err != nil || len(moved) != 6 || last == 0 {
		t.Errorf("%d files were moved away (%v), the last line is %d", len(moved), err, last)
	}
}
