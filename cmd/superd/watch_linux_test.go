package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const patience = 90 * time.Second

// openTerminal opens a pseudo-terminal of this size and returns both ends.
func openTerminal(t *testing.T, columns, rows uint16) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { user.Close() })
	n, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return user, program
}

// untilShown reads until text appears, and returns all that was read.
func untilShown(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	shown := make(chan string, 1)
	go func() {
		var all bytes.Buffer
		buf := make([]byte, 4096)
		for !strings.Contains(all.String(), text) {
			n, err := from.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				break
			}
		}
		shown <- all.String()
	}()
	select {
	case s := <-shown:
		if !strings.Contains(s, text) {
			t.Fatalf("shown %q, want %q in it", s, text)
		}
		return s
	case <-time.After(patience):
		t.Fatalf("%q is not shown within %v", text, patience)
		panic("unreachable")
	}
}

func TestWatchDrawsAndRestoresTheTerminal(t *testing.T) {
	next := make(chan string)
	dir := superdStub(t, map[string]http.HandlerFunc{"/v1/status/watch": func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case line := <-next:
				fmt.Fprintln(w, line)
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}})
	user, program := openTerminal(t, 60, 10)
	t.Setenv("NO_COLOR", "1")
	status := make(chan int, 1)
	var stderr bytes.Buffer
	go func() {
		status <- run(t.Context(), []string{"ctl", "--runtime-dir", dir, "status", "--watch"}, program, &stderr)
	}()

	next <- upAndDown
	first := untilShown(t, user, "hello")
	if !strings.Contains(first, "\x1b[?1049h") || !strings.Contains(first, time.Now().Format("15:")) {
		t.Errorf("first drawing is %q, want the alternate screen and the time", first)
	}
	next <- strings.Replace(upAndDown, "hello", "world", 1)
	untilShown(t, user, "world")
	untilShown(t, user, "2 instances, 1 up") // again, for the clock
	if err := unix.Kill(os.Getpid(), unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	untilShown(t, user, "\x1b[?25h\x1b[?1049l")
	select {
	case got := <-status:
		if got != 0 || stderr.Len() > 0 {
			t.Errorf("status %d, %q, want 0", got, &stderr)
		}
	case <-time.After(patience):
		t.Fatal("Ctrl-C does not end it")
	}
}

func TestWatchWithoutTerminalPrintsTables(t *testing.T) {
	dir := superdStub(t, map[string]http.HandlerFunc{"/v1/status/watch": fixed(200, upAndDown+"\n"+upAndDown)})
	var stdout, stderr bytes.Buffer
	if got := run(t.Context(), []string{"ctl", "--runtime-dir", dir, "status", "--watch"}, &stdout, &stderr); got != statusNoSuperd {
		t.Errorf("status %d after superd ended, want %d: %s", got, statusNoSuperd, &stderr)
	}
	if n := strings.Count(stdout.String(), "NAME "); n != 2 || strings.Contains(stdout.String(), "\x1b") {
		t.Errorf("printed %q, want two plain tables", &stdout)
	}
}

func TestStatusOnTerminalFitsAndIsColoured(t *testing.T) {
	dir := superdStub(t, map[string]http.HandlerFunc{"/v1/status": fixed(200, upAndDown)})
	user, program := openTerminal(t, 50, 10)
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	var stderr bytes.Buffer
	if got := run(t.Context(), []string{"ctl", "--runtime-dir", dir, "status"}, program, &stderr); got != 0 {
		t.Errorf("status %d: %s", got, &stderr)
	}
	if shown := untilShown(t, user, "exit status"); !strings.Contains(shown, "\x1b[31mfailed") || strings.Contains(shown, "CPU") {
		t.Errorf("shown %q, want failed in red, and no CPU in 50 columns", shown)
	}
}

func TestWatchedProcess(t *testing.T) {
	child := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	p, ok := watchProcess(child.Process.Pid)
	if !ok {
		t.Fatalf("process %d can't be watched", child.Process.Pid)
	}
	defer p.Close()
	ended := make(chan error, 1)
	go func() { ended <- p.Wait(t.Context()) }()
	select {
	case err := <-ended:
		t.Fatalf("ended before the process: %v", err)
	// Not a wait: on a slow machine the test may pass wrongly, but it can't fail wrongly.
	case <-time.After(20 * time.Millisecond):
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Wait: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Wait has not returned at the end")
	}
}
