package docs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

// A reader follows a page: a shell in a directory, on a machine of its own.
type reader struct {
	site   *harness.Site
	dir    string
	holder int    // a process of the machine
	path   string // PATH

	in  io.Writer
	out *bufio.Reader
}

const done = "--- done with this block ---"

func newReader(t *testing.T) *reader {
	s := harness.NewSite(t, "")
	s.Mkdir("machine")
	s.Mkdir("page")
	r := &reader{site: s, dir: s.Path("page"), holder: harness.Booted(t, s.Path("machine"))}
	superd, errPath := exec.LookPath("superd")
	ui := s.UI()
	r.path = strings.Join([]string{filepath.Dir(superd), filepath.Dir(ui), "/usr/sbin:/usr/bin:/sbin:/bin"}, ":")
	shell := r.command("bash", "-eu")
	in, errIn := shell.StdinPipe()
	out, errOut := shell.StdoutPipe()
	if err := errors.Join(errPath, errIn, errOut, shell.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if t.Failed() { // a page ends its superd; one that failed may not have come there
			shell.Process.Kill()
			r.command("superd", "shutdown").Run()
		}
		shell.Wait()
	})
	r.in, r.out = in, bufio.NewReader(out)
	return r
}

// command returns a command in the machine, and there in the directory of the page. It finds the
// packages of the system, and superd.
func (r *reader) command(command ...string) *exec.Cmd {
	inside := []string{"--mount", "--net", "--target", strconv.Itoa(r.holder), "--", "sh", "-c", `cd "$0" && exec "$@"`, r.dir}
	// Not the context of the test: it is done before the clean-up.
	cmd := exec.CommandContext(context.Background(), "nsenter", append(inside, command...)...)
	cmd.Env = append(r.site.Env, "PATH="+r.path, "HOME="+r.site.Dir, "LC_ALL=C.UTF-8", "TZ=UTC")
	return cmd
}

// startJournald runs Debian's journald in the machine, which systemd would do.
func (r *reader) startJournald() {
	r.site.T.Helper()
	journald := r.command("sh", "-c", "mkdir -p /run/systemd/journal /run/log/journal && exec /lib/systemd/systemd-journald")
	if err := journald.Start(); err != nil {
		r.site.T.Fatal(err)
	}
	r.site.T.Cleanup(func() {
		journald.Process.Kill()
		journald.Wait()
	})
	harness.Until(r.site.T, "journald listens", func() bool {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root/run/systemd/journal/socket", r.holder))
		return err == nil
	})
}

// write writes a file of the page. A path that is absolute is one of the machine.
func (r *reader) write(name, text string) {
	r.site.T.Helper()
	path := filepath.Join(r.dir, name)
	if filepath.IsAbs(name) {
		path = fmt.Sprintf("/proc/%d/root%s", r.holder, name)
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode))
	if err != nil {
		r.site.T.Fatal(err)
	}
}

// run runs the commands of a block to their end and returns what they print. The shell ends at the
// first that fails.
func (r *reader) run(text string) (printed string, err error) {
	block := r.site.Write("block", text)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		fmt.Fprintf(r.in, ". %s </dev/null 2>&1; echo '%s'\n", block, done)
		for {
			line, errRead := r.out.ReadString('\n')
			if before, ok := strings.CutSuffix(line, done+"\n"); ok {
				printed += before
				return
			}
			printed += line
			if errRead != nil {
				err = errors.New("a command failed")
				return
			}
		}
	}()
	select {
	case <-ended:
		return printed, err
	case <-time.After(2 * harness.Deadline):
		return "", fmt.Errorf("not done within %v", 2*harness.Deadline)
	}
}

// background starts the commands of a block in another terminal, and waits until superd answers.
func (r *reader) background(text string) error {
	out, err := r.run(fmt.Sprintf("(\n%s) </dev/null >'../%s' 2>&1 &\n", text, firstTerminal))
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	said := []byte{}
	for deadline := time.Now().Add(harness.Deadline); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if said, err = r.command("superd", "ctl", "version").CombinedOutput(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("superd does not answer: %w\n%s%s", err, said, r.site.Read(firstTerminal))
}

var (
	numbers   = regexp.MustCompile(`\b[0-9a-f]{8,}\b|[0-9]+(?:\.[0-9]+)*`)
	durations = regexp.MustCompile(`\b(?:0(?:h|m|s|ms|µs))+\b`)
	spaces    = regexp.MustCompile(`[ \t]+`)
)

// differs returns in what a text of a page differs from what was printed; "" if in nothing. Numbers
// and how many blanks there are do not count. A line … stands for any lines, and … at the end of a
// line for any text.
func differs(page, printed string) string {
	plain := func(text string) []string {
		text = spaces.ReplaceAllString(durations.ReplaceAllString(numbers.ReplaceAllString(text, "0"), "0s"), " ")
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return lines
	}
	want, got := plain(page), plain(printed)
	skip := false
	for _, line := range want {
		if line == "…" {
			skip = true
			continue
		}
		for {
			if len(got) == 0 {
				return fmt.Sprintf("the page shows %q, which was not printed", line)
			}
			next := got[0]
			got = got[1:]
			begin, cut := strings.CutSuffix(line, "…")
			if next == line || cut && strings.HasPrefix(next, begin) {
				break
			}
			if !skip {
				return fmt.Sprintf("the page shows %q, printed was %q", line, next)
			}
		}
		skip = false
	}
	if len(got) > 0 && !skip {
		return fmt.Sprintf("the page lacks %q", got[0])
	}
	return ""
}

func TestDiffers(t *testing.T) {
	for _, tt := range []struct {
		name, page, printed string
		same                bool
	}{
		{"numbers and blanks", "web  running  12 \n", "web running 4711\n", true},
		{"durations", "after 1m3s, at 12:30:01.5\n", "after 20.5ms, at 08:00:00.123\n", true},
		{"ids", "run=9f86d081\n", "run=43cea3e8\n", true},
		{"another word", "web running\n", "web failed\n", false},
		{"any lines", "a\n…\nb\n", "a\nx\ny\nb\n", true},
		{"any lines at the end", "a\n…\n", "a\nx\n", true},
		{"any end of a line", "a…\n", "abc\n", true},
		{"a line is missing", "a\n…\nb\n", "a\nx\n", false},
		{"a line too many", "a\n", "a\nb\n", false},
	} {
		if wrong := differs(tt.page, tt.printed); (wrong == "") != tt.same {
			t.Errorf("%s: differs(%q, %q) = %q", tt.name, tt.page, tt.printed, wrong)
		}
	}
}
