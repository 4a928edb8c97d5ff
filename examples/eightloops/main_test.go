package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the program, as compare and the children start it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == printNumbersCommand || os.Args[1] == "-report" || os.Args[1] == "-child") {
		if err := run(os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // with -race each of them would end a second late
	os.Exit(m.Run())
}

// onEach runs a test on each way. At a hang, the deadline kills the children, and the way ends.
func onEach(t *testing.T, test func(t *testing.T, w variant, s *stage)) {
	for _, w := range variants {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := &stage{out: io.Discard, beat: 50 * time.Millisecond, interrupted: make(chan os.Signal, 1)}
			defer close(s.interrupted)
			run := w.run
			w.run = func(s *stage) error {
				hang := time.AfterFunc(time.Minute, func() {
					t.Error("the way did not end")
					s.kill()
				})
				defer hang.Stop()
				return run(s)
			}
			test(t, w, s)
			for _, c := range s.children {
				if err := syscall.Kill(c.process.Pid(), 0); err != syscall.ESRCH {
					t.Errorf("signal %s: %v, want that it is gone", c.name, err)
				}
			}
		})
	}
}

// speakers returns children that print until they are killed.
func speakers(t *testing.T) [2][]string {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return [2][]string{{self, printNumbersCommand, "1"}, {self, printNumbersCommand, "2"}}
}

// A printer calls a function for each printed line.
type printer func(line string)

func (p printer) Write(b []byte) (int, error) {
	p(string(b))
	return len(b), nil
}

// TestEnd checks children that end by themselves, one in the middle of a line.
func TestEnd(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w variant, s *stage) {
		var noted []string
		s.onLine = func(line string) { noted = append(noted, line) }
		s.beat = time.Hour
		last := ""
		s.out = printer(func(line string) {
			_, board, _ := strings.Cut(line, " ")
			if board == last {
				t.Errorf("printed twice: %s", board)
			}
			last = board
		})
		err := s.perform(w, [2][]string{
			{"sh", "-c", "printf 'on'; sleep 0.1; printf 'e\\ntwo\\n'; exit 3"},
			{"sh", "-c", "echo eins; exec >/dev/null; sleep 0.1; kill -KILL $$"},
		})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(noted)
		if want := []string{"eins", "one", "two"}; !slices.Equal(noted, want) {
			t.Errorf("noted %q, want %q", noted, want)
		}
		if !strings.Contains(last, "alpha two (exit status 3)") || !strings.Contains(last, "beta eins (killed by SIGKILL)") {
			t.Errorf("printed last: %s", last)
		}
	})
}

// TestInterrupt interrupts when both children have printed.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	both := regexp.MustCompile(`alpha \d+ .* beta +\d+`)
	onEach(t, func(t *testing.T, w variant, s *stage) {
		interrupted := false
		s.out = printer(func(line string) {
			if !interrupted && both.MatchString(line) {
				interrupted = true
				s.interrupted <- syscall.SIGINT
			}
		})
		if err := s.perform(w, speakers(t)); err != nil {
			t.Error(err)
		}
		if !interrupted {
			t.Error("it ended before it was interrupted")
		}
	})
}

// TestSignal interrupts the program itself.
func TestSignal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, speakers(t)[0][0], "-child", "/proc/self/exe "+printNumbersCommand, "coroutines")
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, readErr := bufio.NewReader(output).ReadString('\n')
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil || readErr != nil {
		t.Errorf("read: %v, end: %v, want a line, and success after SIGINT", readErr, err)
	}
}

// TestPanic checks a panic in a function that all ways call.
func TestPanic(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w variant, s *stage) {
		s.out = printer(func(string) { panic("a bug") })
		defer func() {
			if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), "a bug") {
				t.Errorf("panic: %v, want a bug", v)
			}
		}()
		_ = s.perform(w, speakers(t))
	})
}

// TestBeat checks children that print nothing.
func TestBeat(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w variant, s *stage) {
		if w.name == "blocking" {
			s.interrupted <- syscall.SIGINT // blocking has no beat
		}
		printed := 0
		s.out = printer(func(string) {
			if printed++; printed == 3 {
				s.interrupted <- syscall.SIGINT
			}
		})
		if err := s.perform(w, [2][]string{{"sleep", "60"}, {"sleep", "60"}}); err != nil {
			t.Error(err)
		}
		if printed < 3 && w.name != "blocking" {
			t.Errorf("printed %d times, want 3", printed)
		}
	})
}

func TestCompare(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "loops.md")
	if err := os.WriteFile(page, []byte("<!-- eightloops:begin -->\n<!-- eightloops:end -->\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run([]string{"--compare", "--for", "500ms", "--update", page}, &out); err != nil {
		t.Fatal(err)
	}
	for _, w := range variants {
		if !regexp.MustCompile(`(?m)^\| ` + w.name + ` \| .* \| [1-9]\d* \|$`).MatchString(out.String()) {
			t.Errorf("no row of %s in\n%s", w.name, &out)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), out.String()) {
		t.Errorf("the page has\n%s, want it to contain\n%s", text, &out)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"nonsense":                 `no way "nonsense"; the ways are blocking, busy`,
		"-child /no/such busy":     "name another by -child",
		"":                         "which way?",
		"--compare busy":           "which way?",
		"--child relative/no busy": "relative/no",
	} {
		err := run(strings.Fields(args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("run(%q) = %v, want %s", args, err, want)
		}
	}
}
