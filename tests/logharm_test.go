package tests

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"superd/tests/child"
	"superd/tests/harness"
)

// victim is the content of a file of root that a program tries to change or read by way of superd.
const victim = "a secret of root\n"

// A vault is a set of files of root that programs try to change or read by way of superd.
type vault struct {
	*harness.Site
	names []string
}

// own makes a directory of the user daemon.
func (v *vault) own(name string) {
	v.T.Helper()
	v.Mkdir(name)
	if err := os.Chown(v.Path(name), 1, 1); err != nil {
		v.T.Fatal(err)
	}
}

// put makes a file of root.
func (v *vault) put(name string) string {
	v.T.Helper()
	v.Write("vault/"+name, victim)
	v.Chmod("vault/"+name, 0o600)
	v.names = append(v.names, name)
	return v.Path("vault/" + name)
}

// check reports changes of the files.
func (v *vault) check() {
	v.T.Helper()
	for _, name := range v.names {
		info, err := os.Stat(v.Path("vault/" + name))
		if err != nil {
			v.T.Error(err)
			continue
		}
		if got := v.Read("vault/" + name); got != victim {
			v.T.Errorf("%s: the file of root holds %.200q", name, got)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 || info.Mode() != 0o600 {
			v.T.Errorf("%s: the file of root belongs to user %d and has mode %v", name, uid, info.Mode())
		}
	}
}

// TestLogReplacedByLink: a program whose user may write its log directory replaces its log by
// links. superd, as root, does not write, chown, open for others or show their targets, and reports
// the links.
func TestLogReplacedByLink(t *testing.T) {
	t.Parallel()
	needRoot(t)
	v := &vault{Site: harness.NewSite(t, "")}
	v.Mkdir("vault")
	v.Chmod("vault", 0o711)
	attacks := []struct{ name, script, file, keys, want string }{
		{"raw", "ln -s DIR/vault/raw DIR/raw/log", "raw/log", ``, "it is a symbolic link"},
		{"text", "ln -s DIR/vault/text DIR/text/log", "text/log", `format = "text"`, "it is a symbolic link"},
		{"drop", "ln -s DIR/vault/drop DIR/drop/log", "drop/log", `overflow = "drop"`, "it is a symbolic link"},
		{"owner", "ln -s DIR/vault/owner DIR/owner/log", "owner/log", `owner = "daemon", mode = "0666"`, "it is a symbolic link"},
		{"none", "ln -s DIR/vault/new DIR/none/log", "none/log", ``, "it is a symbolic link"},
		{"hard", "true", "hard/log", `owner = "daemon"`, "it has 2 names"},
		{"parent", "ln -s DIR/vault DIR/parent/deep", "parent/deep/parent", ``, "it is a symbolic link"},
		// The log is opened before the program runs, so that its second run finds the link.
		{"direct", "rm -f DIR/direct/log; ln -s DIR/vault/direct DIR/direct/log; exit", "direct/log", `format = "direct"`, "it is a symbolic link"},
	}
	var conf strings.Builder
	for _, a := range attacks {
		fmt.Fprintf(&conf, `
			[program.%s]
			user = "daemon"
			restart = "always"
			command = ["sh", "-c", "%s; echo evil; exec sleep infinity"]
			log = { file = "DIR/%s", %s }`, a.name, a.script, a.file, cmp.Or(a.keys, `stderr = "merge"`))
		v.put(a.name)
		v.own(a.name)
	}
	// As a user may, where the kernel does not protect hard links
	if err := os.Link(v.Path("vault/hard"), v.Path("hard/log")); err != nil {
		t.Fatal(err)
	}
	v.Configure(conf.String())
	d := v.Start()
	for _, a := range attacks {
		v.WaitStatus(a.name, "has its log refused", func(st harness.Status) bool {
			return st.LogOutage != nil && strings.Contains(st.LogOutage.Reason, a.want) || strings.Contains(st.Reason, a.want)
		})
		if r := v.Ctl("logs", a.name, "-n", "100"); strings.Contains(r.Out+r.ErrOut, strings.TrimSpace(victim)) {
			t.Errorf("%s: superd ctl logs shows a file of root: %q", a.name, r.Out)
		}
		if st := v.Status(a.name); strings.Contains(st.LastLine, strings.TrimSpace(victim)) {
			t.Errorf("%s: the status shows a file of root: %q", a.name, st.LastLine)
		}
	}
	if _, err := os.Lstat(v.Path("vault/new")); err == nil {
		t.Error("superd has made a file where a link leads to")
	}
	d.Signal(syscall.SIGTERM)
	d.Wait()
	v.check()
}

// TestLogReplacedByFIFO: programs replace their logs by FIFOs without a reader, which fill up.
// Other programs' logs on that file system go on.
func TestLogReplacedByFIFO(t *testing.T) {
	t.Parallel()
	needRoot(t)
	v := &vault{Site: harness.NewSite(t, "")}
	const many = 5
	var conf strings.Builder
	for i := range many {
		name := fmt.Sprint("fifo", i)
		v.own(name)
		fmt.Fprintf(&conf, "[program.%s]\nuser = 'daemon'\nlog.file = \"DIR/%s/log\"\n"+
			"command = [\"sh\", \"-c\", \"mkfifo DIR/%s/log && exec 9<>DIR/%s/log; head -c 200000 /dev/zero & exec sleep infinity\"]\n",
			name, name, name, name)
	}
	open := v.Gate("gate")
	conf.WriteString("[program.neighbour]\ncommand = [\"sh\", \"-c\", \"read x < DIR/gate; echo of the neighbour; exec sleep infinity\"]\n")
	v.Configure(conf.String())
	v.Start()
	harness.Until(t, "four have filled their FIFOs, or are refused", func() bool {
		n := 0
		for i := range many {
			name := fmt.Sprint("fifo", i)
			if strings.Contains(v.Ctl("why", name).Out, "it is a FIFO") || fullFIFO(v.Path(name+"/log")) {
				n++
			}
		}
		return n >= 4
	})
	open()
	v.WaitLog("neighbour", "of the neighbour\n")
	for i := range many {
		name := fmt.Sprint("fifo", i)
		harness.Until(t, "superd reports the FIFO of "+name, func() bool {
			return strings.Contains(v.Ctl("why", name).Out, "it is a FIFO")
		})
	}
}

// fullFIFO reports whether a FIFO is full.
func fullFIFO(path string) bool {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
	return err == nil && n == 0
}

// TestLogsThatTakeNoSpace: a program makes files in its log directory that look like rotated
// segments and exceed all limits, but take no space on the disk: with holes, or as hard links to
// one file. Other programs' rotated segments are kept.
func TestLogsThatTakeNoSpace(t *testing.T) {
	t.Parallel()
	needRoot(t)
	v := &vault{Site: harness.NewSite(t, "")}
	const stamp = ".2099010%dT000000.000000Z" // newer than all others
	for _, name := range []string{"rotated", "current", "packed", "linked"} {
		v.own(name)
		v.Write(name+"/log", "one\n")
	}
	v.Write("packed/log.gz", "") // counted like any file, whatever it is
	huge := map[string]int64{
		"rotated/log" + fmt.Sprintf(stamp, 1): 1 << 40, "current/log": 1 << 30, "packed/log" + fmt.Sprintf(stamp, 1) + ".gz": 1 << 40,
	}
	for name, size := range huge {
		if _, err := os.Stat(v.Path(name)); err != nil {
			v.Write(name, "")
		}
		if err := os.Truncate(v.Path(name), size); err != nil {
			t.Fatal(err)
		}
	}
	linked := v.Write("linked/body", strings.Repeat("x", 300_000))
	for i := range 9 {
		if err := os.Link(linked, v.Path("linked/log"+fmt.Sprintf(stamp, i+1))); err != nil {
			t.Fatal(err)
		}
	}
	const lines = 30_000
	v.Configure(fmt.Sprintf(`
		log_max_total = "2MB"
		[defaults]
		user = "daemon"
		command = ["sh", "-c", "echo two; exec sleep infinity"]
		log = { keep = 1000, max_size = "1MB" }
		[program.rotated]
		log = { file = "DIR/rotated/log", compress = "gzip" }
		[program.current]
		log = { file = "DIR/current/log", compress = "gzip" }
		[program.packed]
		log.file = "DIR/packed/log"
		[program.linked]
		log.file = "DIR/linked/log"
		[program.neighbour]
		command = "child lines %d"
		user = "root"
		restart = "never"
		log = { max_size = "20kB", compress = "zstd" }
		`, lines))
	v.Start()
	v.WaitState("neighbour", "exited")
	last := strings.TrimSpace(child.Line(lines))
	v.WaitLog("neighbour", last)
	found := func(glob string) []string {
		names, err := filepath.Glob(v.Path(glob))
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	harness.Until(t, "what is rotated of the neighbour is compressed", func() bool {
		return len(found("log/neighbour.log.*Z")) == 0
	})
	got := v.MustCtl("logs", "-n", "all", "neighbour").Out
	if n := strings.Count(got, "\n"); n != lines {
		t.Errorf("%d lines of the neighbour are kept, want %d", n, lines)
	}
	if packed := found("rotated/*.gz*"); len(packed) > 0 {
		t.Errorf("a file of nothing but a hole is compressed: %v", packed)
	}
}
