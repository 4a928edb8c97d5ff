package fdstore

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain makes the test binary the next program, too: it prints the descriptors that it was
// given.
func TestMain(m *testing.M) {
	switch os.Getenv("FDSTORE_CHILD") {
	case "exec":
		os.Setenv("FDSTORE_CHILD", "take")
		fmt.Println(execHere())
		os.Exit(1)
	case "low":
		files := Take(func(map[string]int) bool { return true }, nil)
		open := map[int]bool{}
		for _, fd := range files {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags == unix.FD_CLOEXEC {
				open[fd] = true
			}
		}
		own, err := unix.Open("/dev/null", unix.O_CLOEXEC, 0)
		fmt.Println(len(files), len(open), err == nil && own < FirstFD+lowNumbers)
		os.Exit(0)
	case "take":
		trust := os.Getenv("FDSTORE_TRUST") == "1"
		files := Take(func(map[string]int) bool { return trust }, nil)
		var lines []string
		for name, fd := range files {
			flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
			text := make([]byte, 100)
			n, _ := unix.Pread(fd, text, 0)
			lines = append(lines, fmt.Sprintf("%s %q %v %v\n", name, text[:n], flags == unix.FD_CLOEXEC, err))
		}
		slices.Sort(lines)
		fmt.Print(strings.Join(lines, ""), len(Take(nil, nil)), os.Getenv("LISTEN_FDS"), "\n")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestTakeFreesLowNumbers: many descriptors leave the low numbers free, which this program needs
// itself, and each is there.
func TestTakeFreesLowNumbers(t *testing.T) {
	const many = 200
	var names []string
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	file := tempFile(t, "")
	for i := range many {
		names = append(names, fmt.Sprint("file", i))
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	cmd.Env = append(os.Environ(), "FDSTORE_CHILD=low", "FDSTORE_TRUST=1", "GORACE=atexit_sleep_ms=0", fmt.Sprint("LISTEN_FDS=", many), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	if got, err := cmd.CombinedOutput(); err != nil || string(got) != "200 200 true\n" {
		t.Errorf("descriptors, different and open ones, and whether a new one lies low: %s%v", got, err)
	}
}

// execHere executes the test binary with five descriptors of various numbers.
func execHere() error {
	files := map[string]int{}
	for i := range 5 {
		f, err := os.CreateTemp("", "")
		if err != nil {
			return err
		}
		os.Remove(f.Name())
		fmt.Fprint(f, "text ", i)
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, []int{20, 9, 5, 8, 7}[i])
		if err != nil {
			return err
		}
		files[fmt.Sprint("file", i)] = fd
	}
	before, _ := openFiles(nil)
	if err := Exec("/nonexistent", nil, nil, files, nil); !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("an execution that can't be: %w", err)
	}
	if after, _ := openFiles(nil); after != before {
		return fmt.Errorf("limit of open files %v after a failed execution, before %v", after, before)
	}
	for name, fd := range files {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			return fmt.Errorf("%s after a failed execution: %w", name, err)
		}
		if flags != unix.FD_CLOEXEC {
			return fmt.Errorf("%s after a failed execution: flags %v", name, flags)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return Exec(self, os.Args, os.Environ(), files, nil)
}

func TestExecPassesDescriptors(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "FDSTORE_CHILD=exec", "GORACE=atexit_sleep_ms=0")
	got, err := cmd.CombinedOutput()
	want := ""
	for i := range 5 {
		want += fmt.Sprintf("file%d \"text %d\" true <nil>\n", i, i)
	}
	if want += "0\n"; err != nil || string(got) != want {
		t.Errorf("the next program has\n%s%v, want\n%s", got, err, want)
	}
}

func TestTake(t *testing.T) {
	tests := []struct {
		name string
		env  []string
		want string
	}{
		{"nothing", nil, "0\n"},
		{"the parent is believed", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=a:b", "FDSTORE_TRUST=1"}, "a \"1\" true <nil>\nb \"2\" true <nil>\n0\n"},
		{"another parent", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=a:b"}, "0\n"},
		{"meant for another process", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=a:b", "LISTEN_PID=1", "FDSTORE_TRUST=1"}, "0\n"},
		{"one name twice", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=a:a", "FDSTORE_TRUST=1"}, "a \"2\" true <nil>\n0\n"},
		{"more than are open", []string{"LISTEN_FDS=4", "LISTEN_FDNAMES=a:b:c:d", "FDSTORE_TRUST=1"}, "a \"1\" true <nil>\nb \"2\" true <nil>\n0\n"},
		{"they lie elsewhere", []string{"LISTEN_FDS=1", "LISTEN_FDNAMES=b", "SUPERD_FD_GAPS=2,", "FDSTORE_TRUST=1"}, "b \"2\" true <nil>\n0\n"},
		{"it is not clear where they lie", []string{"LISTEN_FDS=2", "LISTEN_FDNAMES=a:b", "SUPERD_FD_GAPS=x,-1", "FDSTORE_TRUST=1"}, "a \"1\" true <nil>\nb \"2\" true <nil>\n0\n"},
		{"without names", []string{"LISTEN_FDS=1", "FDSTORE_TRUST=1"}, "unknown \"1\" true <nil>\n0\n"},
		{"not a number", []string{"LISTEN_FDS=x", "FDSTORE_TRUST=1"}, "0\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(append(os.Environ(), "FDSTORE_CHILD=take", "GORACE=atexit_sleep_ms=0"), tt.env...)
			for _, text := range []string{"1", "2"} {
				cmd.ExtraFiles = append(cmd.ExtraFiles, tempFile(t, text))
			}
			if got, err := cmd.CombinedOutput(); err != nil || string(got) != tt.want {
				t.Errorf("Take has\n%s%v, want\n%s", got, err, tt.want)
			}
		})
	}
}

func TestStore(t *testing.T) {
	ours, theirs := pair(t)
	m := Over(ours)
	receiver, store := NewReceiver(theirs), Store{}
	receive := func() {
		for {
			message, ok, err := receiver.Next()
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				return
			}
			store.Apply(message)
		}
	}
	one, two := tempFile(t, "one"), tempFile(t, "two")
	for _, s := range []struct {
		name string
		file *os.File
	}{{"1", one}, {"2", two}, {"1", two}, {"3", one}} {
		if err := m.Store(s.name, int(s.file.Fd())); err != nil {
			t.Fatal(err)
		}
	}
	m.Discard("3")
	m.Discard("unknown")
	for _, name := range []string{"", "a:b", "a\nb", strings.Repeat("x", 256)} {
		if err := m.Store(name, int(one.Fd())); err == nil {
			t.Errorf("Store(%q) is no error", name)
		}
	}
	if err := m.Store("4", 1<<20); !errors.Is(err, unix.EBADF) {
		t.Errorf("Store of no descriptor: %v", err)
	}
	receive()
	text := func(fd int) string {
		b := make([]byte, 10)
		n, _ := unix.Pread(fd, b, 0)
		return string(b[:n])
	}
	if files := store.Files(); len(files) != 2 || text(files["1"]) != "two" || text(files["2"]) != "two" {
		t.Errorf("stored are %v", files)
	}
	if stored := m.Stored(); len(stored) != 1 || stored["2"] != int(two.Fd()) {
		t.Errorf("Kept() = %v, want the later one of two names of the same", stored)
	}
	m.Forget("2")
	if stored := m.Stored(); len(stored) != 1 || stored["1"] != int(two.Fd()) {
		t.Errorf("Kept() = %v, want the one that was not forgotten", stored)
	}
	// A number that belongs to another file now is not returned.
	unix.Dup3(int(one.Fd()), int(two.Fd()), unix.O_CLOEXEC)
	if stored := m.Stored(); len(stored) != 0 {
		t.Errorf("Kept() = %v, of closed descriptors", stored)
	}
	unwanted := tempFile(t, "unwanted")
	sendPacket(ours, "READY=1", int(unwanted.Fd()), 0)
	before := openDescriptors(t)
	receive()
	if after := openDescriptors(t); after != before {
		t.Errorf("%d descriptors after one that is not stored, %d before", after, before)
	}
	m.Close(time.Minute)
	unix.Shutdown(ours, unix.SHUT_WR)
	if _, _, err := receiver.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want EOF", err)
	}
}

// TestFullSocket: messages that the socket has no space for are sent later, in order, with the
// descriptor of the time of the call.
func TestFullSocket(t *testing.T) {
	ours, theirs := pair(t)
	unix.SetsockoptInt(ours, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096)
	m := Over(ours)
	const count = 200
	text := strings.Repeat("x", 500)
	for i := range count {
		m.Send(fmt.Sprintf("N=%d\n%s", i, text))
	}
	last := tempFile(t, "last")
	if err := m.Store("last", int(last.Fd())); err != nil {
		t.Fatal(err)
	}
	last.Close()
	receiver := NewReceiver(theirs)
	for i := range count + 1 {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(theirs), Events: unix.POLLIN}}, 30_000); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
		message, ok, err := receiver.Next()
		if err != nil || !ok {
			t.Fatalf("message %d: %v, %v", i, ok, err)
		}
		if n, _ := message.Value("N"); i < count && n != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, n)
		}
		if i == count {
			b := make([]byte, 10)
			if len(message.Files) != 1 {
				t.Fatalf("the descriptor is not there: %v", message)
			}
			if n, err := unix.Pread(message.Files[0], b, 0); string(b[:max(n, 0)]) != "last" {
				t.Errorf("the descriptor has %q, %v", b, err)
			}
			unix.Close(message.Files[0])
		}
	}
	if !m.Close(30 * time.Second) {
		t.Error("it did not end")
	}
}

func TestEveryStateAndTheLastStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := pair(t)
		n := Over(ours)
		n.Ready("0 instances")
		synctest.Wait()
		for i := range 1000 {
			n.Status(fmt.Sprintf("%d instances", i))
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		n.Reloading()
		n.Ready("999 instances")
		time.Sleep(statusPause)
		n.Stopping()
		n.Close(time.Minute)

		var states, statuses []string
		receiver := NewReceiver(theirs)
		for {
			m, ok, err := receiver.Next()
			if err != nil || !ok {
				break
			}
			if text, ok := m.Value("STATUS"); ok {
				statuses = append(statuses, text)
			} else {
				states = append(states, m.Lines[0])
			}
		}
		if want := []string{"READY=1", "RELOADING=1", "READY=1", "STOPPING=1"}; !slices.Equal(states, want) {
			t.Errorf("sent states %q, want %q", states, want)
		}
		if len(statuses) > 5 || statuses[len(statuses)-1] != "999 instances" {
			t.Errorf("sent statuses %q, want few, the last one 999 instances", statuses)
		}
	})
}

func TestConnect(t *testing.T) {
	path := t.TempDir() + "/notify"
	if _, err := Connect(path); !errors.Is(err, unix.ENOENT) {
		t.Errorf("Connect without a listener: %v", err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	m, err := Connect(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Watchdog()
	m.Close(time.Minute)
	b := make([]byte, 100)
	if n, _, err := unix.Recvfrom(fd, b, 0); !bytes.Equal(b[:max(n, 0)], []byte("WATCHDOG=1")) {
		t.Errorf("received %q, %v", b, err)
	}
	noop := Noop()
	if err := noop.Store("1", fd); err != nil || noop.Stored()["1"] != fd {
		t.Errorf("Noop: %v, %v", err, noop.Stored())
	}
	noop.Close(time.Minute)
}

func pair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

func tempFile(t *testing.T, text string) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	fmt.Fprint(f, text)
	return f
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestStoreClosesWhatItHasAndNothingElse(t *testing.T) {
	var s Store
	var fds []int
	for range 9 {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	stored := map[int]bool{fds[0]: true, fds[4]: true, fds[5]: true}
	for i, fd := range fds {
		if !stored[fd] {
			s.Put([]string{strconv.Itoa(i), "file" + strconv.Itoa(i)}[i%2], fd)
		}
	}
	s.Close()
	for _, fd := range fds {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if open := err == nil; open != stored[fd] {
			t.Errorf("descriptor %d of %v is open: %v, want %v", fd, fds, open, stored[fd])
		}
		if stored[fd] {
			unix.Close(fd)
		}
	}
	if len(s.Files()) > 0 {
		t.Errorf("the store has %v", s.Files())
	}
}
