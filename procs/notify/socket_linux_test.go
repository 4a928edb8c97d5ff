package notify

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/loop"
)

const drainTimer = 90 * time.Second

// TestMain makes the test binary send a message instead, as another process.
func TestMain(m *testing.M) {
	if path, ok := os.LookupEnv("SEND_TO"); ok {
		if err := send(path, os.Getenv("SEND")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func send(path, text string, fds ...int) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Sendmsg(fd, []byte(text), unix.UnixRights(fds...), &unix.SockaddrUnix{Name: path}, 0)
}

// A rig is a loop with a notify socket.
type rig struct {
	testing.TB
	*loop.Loop
	scope *loop.Scope
	path  string
	got   []string
	turns []uint64 // turns of the messages
}

func newRig(t testing.TB) *rig {
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, Loop: l, scope: l.Root().Child(), path: filepath.Join(t.TempDir(), "notify")}
	t.Cleanup(func() { l.Stop(); _ = l.Run() })
	return r
}

// receive listens on a new socket, which accepts messages of this process.
func (r *rig) receive() int {
	r.Helper()
	fd, err := Open(r.path)
	if err != nil {
		r.Fatal(err)
	}
	r.receiveFrom(fd)
	return fd
}

func (r *rig) receiveFrom(fd int) {
	r.Helper()
	note := func(text string) {
		r.got = append(r.got, text)
		r.turns = append(r.turns, r.Turns())
		if strings.HasSuffix(text, "last") {
			r.Stop()
		}
	}
	if _, err := Receive(r.scope, fd, Handler{
		Accept: func(s Sender) bool { return s.Pid == os.Getpid() },
		Message: func(s Sender, m Message) bool {
			if s.UID != os.Getuid() {
				r.Errorf("message of user %d", s.UID)
			}
			note(m.Status)
			return false
		},
		Refused: func(s Sender, err error) { note(strings.ReplaceAll(err.Error(), fmt.Sprint(s.Pid), "PID")) },
	}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) send(text string, fds ...int) {
	r.Helper()
	if err := send(r.path, text, fds...); err != nil {
		r.Fatal(err)
	}
}

// run runs the loop until a status "last" was received.
func (r *rig) run() {
	r.Helper()
	r.Root().After(drainTimer, func() {
		r.Errorf("no end; heard %q", r.got)
		r.Stop()
	})
	if err := r.Run(); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) expect(want ...string) {
	r.Helper()
	if !slices.Equal(r.got, want) {
		r.Errorf("heard\n%q, want\n%q", r.got, want)
	}
}

func TestReceive(t *testing.T) {
	r := newRig(t)
	r.receive()
	info, err := os.Stat(r.path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o666 {
		t.Errorf("the socket has mode %v", info.Mode())
	}
	r.send("STATUS=one")
	r.send("STATUS=two\nMAINPID=x")
	r.send(strings.Repeat("x", maxMessage+1)) // within the pause of refused
	r.send("STATUS=last")
	r.run()
	r.expect("one", `parse message: "x" is not a value of MAINPID`, "two", "last")
}

// TestReceiveLater: a socket that can't be watched at first is watched later, and no message is
// lost.
func TestReceiveLater(t *testing.T) {
	r := newRig(t)
	fd, err := Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.scope.OnReadableEdge(fd, func() {}) // the loop refuses a second kind of watch
	if err != nil {
		t.Fatal(err)
	}
	heard := false
	l, err := Receive(r.scope, fd, Handler{
		Accept:  func(Sender) bool { return true },
		Message: func(Sender, Message) bool { heard = true; r.Stop(); return false },
	})
	if err == nil || l == nil {
		t.Fatalf("Receive = %v, %v; want a receiver, and why it has no watch", l, err)
	}
	r.send("STATUS=last")
	r.scope.After(watchPause/2, other.Stop)
	if r.run(); !heard {
		t.Error("the message was not received")
	}
}

func TestTooLongMessage(t *testing.T) {
	r := newRig(t)
	r.receive()
	r.send("STATUS=" + strings.Repeat("x", maxMessage-7+1))
	r.send("STATUS=last")
	r.run()
	r.expect("refuse message: it has more than 4096 bytes", "last")
}

// TestForeignSender: the sender, another process, ends before its message is read.
func TestForeignSender(t *testing.T) {
	r := newRig(t)
	r.receive()
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{"SEND_TO=" + r.path, "SEND=READY=1\nSTATUS=foreign"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	r.send("STATUS=last")
	r.run()
	r.expect("refuse message: process PID has ended and can't be attributed: a sender must not end before its message is received (BARRIER=1; systemd-notify without --no-block)", "last")
}

// TestBarrier passes descriptors: they are closed, in order.
func TestBarrier(t *testing.T) {
	r := newRig(t)
	r.receive()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	r.send("STATUS=before")
	r.send("BARRIER=1\nSTATUS=barrier", p[1])
	r.send("FDSTORE=1\nSTATUS=more", slices.Repeat([]int{p[1]}, 200)...)
	r.send("STATUS=after")
	unix.Close(p[1])
	if _, err := r.scope.OnHangup(p[0], func() {
		r.got = append(r.got, "hangup")
		r.Stop()
	}); err != nil {
		t.Fatal(err)
	}
	r.run()
	if !slices.Equal(r.got[:3], []string{"before", "barrier", "more"}) || !slices.Contains(r.got, "hangup") {
		t.Errorf("heard %q", r.got)
	}
}

// TestForeignDescriptorsAreClosed: descriptors of other senders are closed, too.
func TestForeignDescriptorsAreClosed(t *testing.T) {
	r := newRig(t)
	fd, err := Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Receive(r.scope, fd, Handler{Accept: func(Sender) bool { return false }, Refused: func(Sender, error) {}}); err != nil {
		t.Fatal(err)
	}
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(p[0])
	r.send("READY=1", p[1])
	unix.Close(p[1])
	if _, err := r.scope.OnHangup(p[0], r.Stop); err != nil {
		t.Fatal(err)
	}
	r.run()
}

// TestFlood sends as fast as the socket accepts: no turn reads more than its share, and there is a
// pause now and then.
func TestFlood(t *testing.T) {
	const messages = 2 * messagesPerWindow
	r := newRig(t)
	r.receive()
	failed := make(chan error, 1)
	go func() {
		conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: r.path, Net: "unixgram"})
		if err != nil {
			failed <- err
			return
		}
		defer conn.Close()
		for range messages {
			if _, err := conn.Write([]byte("STATUS=flood")); err != nil {
				failed <- err
				return
			}
		}
		_, err = conn.Write([]byte("STATUS=last"))
		failed <- err
	}()
	start := r.Now()
	r.run()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if len(r.got) != messages+1 {
		t.Errorf("heard %d messages of %d", len(r.got), messages+1)
	}
	inTurn := map[uint64]int{}
	for _, turn := range r.turns {
		if inTurn[turn]++; inTurn[turn] > messagesPerTurn {
			t.Fatalf("more than %d messages in a turn", messagesPerTurn)
		}
	}
	if took := r.Now() - start; took < 2*window {
		t.Errorf("%d messages in %v", messages+1, took)
	}
}

// TestSuccessorReceives: another receiver listens on a socket, as after a restart of superd: with
// the stored descriptor, then with a new one at the same path.
func TestSuccessorReceives(t *testing.T) {
	first := newRig(t)
	fd := first.receive()
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	first.scope.Close()
	first.send("STATUS=meanwhile")
	first.send("STATUS=last")

	second := newRig(t)
	second.receiveFrom(kept)
	second.run()
	second.expect("meanwhile", "last")

	third := newRig(t)
	third.path = first.path
	third.receive()
	third.send("STATUS=last")
	third.run()
	third.expect("last")
	if left, _ := filepath.Glob(first.path + "*"); len(left) != 1 {
		t.Errorf("left there: %q", left)
	}
}

// TestWhenTaken: a callback waits for the present messages, after one that is kept.
func TestWhenTaken(t *testing.T) {
	r := newRig(t)
	fd, err := Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	var recorded func()
	receiver, err := Receive(r.scope, fd, Handler{
		Accept:       func(Sender) bool { return true },
		Message:      func(_ Sender, m Message) bool { r.got = append(r.got, m.Status); return m.Status == "kept" },
		WhenRecorded: func(done func()) { recorded = done },
	})
	if err != nil {
		t.Fatal(err)
	}
	add := func(text string) func() { return func() { r.got = append(r.got, text) } }
	receiver.WhenTaken(add("the socket is empty"))
	r.send("STATUS=kept")
	receiver.WhenTaken(add("all taken"))
	r.send("STATUS=after it")
	r.Root().After(2*drainTimeout, func() { add("recorded")(); recorded() })
	r.Root().After(3*drainTimeout, func() { receiver.WhenTaken(add("the socket is empty")); r.Stop() })
	r.run()
	r.expect("the socket is empty", "kept", "recorded", "after it", "all taken", "the socket is empty")
}

// TestWhenTakenDuringAFlood: a callback waits for the messages of a sender that does not stop.
func TestWhenTakenDuringAFlood(t *testing.T) {
	r := newRig(t)
	fd, err := Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := Receive(r.scope, fd, Handler{
		Accept:  func(Sender) bool { return true },
		Message: func(Sender, Message) bool { r.send("STATUS=x"); return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.send("STATUS=x")
	r.send("STATUS=x")
	receiver.WhenTaken(r.Stop)
	r.run()
}

// TestWhenTakenDuringAKeptFlood: later messages do not delay a callback for earlier ones,
// though each is kept until the journal has its effects.
func TestWhenTakenDuringAKeptFlood(t *testing.T) {
	r := newRig(t)
	fd, err := Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	handled, called := 0, 0
	receiver, err := Receive(r.scope, fd, Handler{
		Accept: func(Sender) bool { return true },
		Message: func(Sender, Message) bool {
			handled++
			r.send("STATUS=x")
			return true
		},
		// Below the budget
		WhenRecorded: func(done func()) { r.scope.After(2*window/messagesPerWindow, done) },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.send("STATUS=x")
	receiver.WhenTaken(func() { called = handled; r.Stop() })
	r.Root().After(drainTimer/3, r.Stop)
	r.run()
	if called != socketCapacity {
		t.Errorf("called after %d of %d messages, want it after %d, as many as there can have been", called, handled, socketCapacity)
	}
}

func TestScopeClosedByHandler(t *testing.T) {
	r := newRig(t)
	fd, err := Open(r.path)
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	if _, err := Receive(r.scope, fd, Handler{
		Accept:  func(Sender) bool { return true },
		Message: func(Sender, Message) bool { messages++; r.scope.Close(); return false },
	}); err != nil {
		t.Fatal(err)
	}
	r.send("STOPPING=1")
	r.send("STOPPING=1")
	r.Root().After(time.Millisecond, r.Stop)
	r.run()
	if messages != 1 {
		t.Errorf("%d messages", messages)
	}
	if err := send(r.path, "READY=1"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("send to a closed socket: %v", err)
	}
}

func TestOpenFails(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), strings.Repeat("x", 110)), filepath.Join(t.TempDir(), "missing", "notify")} {
		before := openFDs(t)
		if fd, err := Open(path); err == nil {
			t.Errorf("Open(%q) = %d", path, fd)
		}
		if after := openFDs(t); after != before {
			t.Errorf("%d descriptors, %d before", after, before)
		}
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestAwaitNewline(t *testing.T) {
	tests := []struct {
		name  string
		write []string
		close bool
		err   string
	}{
		{"a newline", []string{"\n"}, false, ""},
		{"text before it", []string{"ready", "\n"}, false, ""},
		{"text after it", []string{"ready\nand more"}, true, ""},
		{"closed", []string{"ready"}, true, "await newline: the descriptor was closed without one"},
		{"a flood", slices.Repeat([]string{strings.Repeat("x", 4096)}, 17), false, "await newline: none in 69632 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			var p [2]int
			if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			written := make(chan struct{})
			go func() {
				defer close(written)
				for _, s := range tt.write {
					unix.Write(p[1], []byte(s))
				}
				if tt.close {
					unix.Close(p[1])
				}
			}()
			calls := 0
			got := ""
			if err := AwaitNewline(r.scope, p[0], func(err error) {
				if calls++; err != nil {
					got = err.Error()
				}
				r.Root().After(0, r.Stop)
			}); err != nil {
				t.Fatal(err)
			}
			r.run()
			if calls != 1 || got != tt.err {
				t.Errorf("%d calls, error %q, want %q", calls, got, tt.err)
			}
			if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_GETFD, 0); err != unix.EBADF {
				t.Errorf("the read end is open: %v", err)
			}
			<-written
			if !tt.close {
				unix.Close(p[1])
			}
		})
	}
}
