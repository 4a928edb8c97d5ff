package sandbox

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"superd/tests/harness"
)

// An attempt is the result of one escape.
type attempt struct {
	without, with string
	refusal       string // reason of a start that was refused; "": it was not
}

// TestEscapes: what a key forbids is done without it and refused with it, whatever rights superd
// has, or the start is refused with the key's name and what to do. With best_effort it then is a
// warning in the status.
func TestEscapes(t *testing.T) {
	needRoot(t)
	for _, w := range ways {
		t.Run(string(w), func(t *testing.T) {
			t.Parallel()
			checkAttempts(t, w, attemptEscapes(t, w))
		})
	}
}

// TestEscapesOfEachKey: no key lacks an escape.
func TestEscapesOfEachKey(t *testing.T) {
	reference, err := os.ReadFile("../../docs/reference.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| (?:<a [^>]*></a>)?`sandbox\\.([a-z_.]+)` ").FindAllStringSubmatch(string(reference), -1)
	if len(rows) < 15 {
		t.Errorf("the reference has %d keys of sandbox, want 15 and more", len(rows))
	}
	for _, row := range rows {
		name := row[1]
		if name == "best_effort" { // which forbids nothing
			continue
		}
		if !slices.ContainsFunc(escapes, func(e escape) bool { return e.key == name }) {
			t.Errorf("no escape tries sandbox.%s", name)
		}
	}
}

// checkAttempts compares results with what the escapes say.
func checkAttempts(t *testing.T, w way, results []attempt) {
	t.Helper()
	for i, e := range escapes {
		got := results[i]
		what := fmt.Sprintf("%s = %s, %s", e.key, e.value, e.try)
		if w == asRoot && got.without != e.without {
			t.Errorf("%s: without the key %q, want %q", what, got.without, e.without)
		}
		switch refused := slices.Contains(e.refused, w); {
		case refused && got.refusal == "":
			t.Errorf("%s: the program runs and says %q, want a refused start", what, got.with)
		case refused:
			if err := e.checkRefusal(got.refusal); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		case got.refusal != "":
			t.Errorf("%s: the start is refused: %s", what, got.refusal)
		case !slices.Contains(strings.Split(e.with, "|"), got.with):
			t.Errorf("%s: with the key %q, want %q", what, got.with, e.with)
		}
	}
}

// checkRefusal checks that a refused start names a key, what is missing and what to do.
func (e *escape) checkRefusal(reason string) error {
	place, rest, _ := strings.Cut(strings.TrimPrefix(reason, "apply sandbox."), ": ")
	key, _, _ := strings.Cut(place, " ")
	named := key == e.key || e.key == "preset" || strings.HasPrefix(e.base, key+" =")
	if !named || !strings.Contains(rest, ": ") {
		return fmt.Errorf("the start is refused: %q, want key, cause and remedy", reason)
	}
	return nil
}

// attemptEscapes tries each escape under a superd with these rights: without the key, with it, and
// with best_effort.
func attemptEscapes(t *testing.T, w way) []attempt {
	t.Helper()
	s := harness.NewSite(t, "")
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	shared, err := os.MkdirTemp("/var/tmp", "superd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(shared) })
	layOut(t, s.Dir, s.Dir)
	target := exec.Command("sleep", "infinity")
	if err := target.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = target.Process.Kill()
		_ = target.Wait() // it was killed
	})
	s.Write("target", strconv.Itoa(target.Process.Pid))
	replace := strings.NewReplacer("DIR", s.Dir, "PORT", strconv.Itoa(listener.Addr().(*net.TCPAddr).Port),
		"SHARED", shared, "DEVICE", someDevice(t)).Replace

	var b strings.Builder
	fmt.Fprint(&b, "[defaults]\nrestart = 'never'\ndirectory = '/'\n")
	for i, e := range escapes {
		for _, name := range []string{"without", "with", "best"} {
			fmt.Fprintf(&b, "[program.%s%d]\ncommand = [%q, 'probe-stay', %q]\n", name, i, s.Path("child"), replace(e.try))
			if e.user && w == asRoot {
				fmt.Fprint(&b, "user = 'daemon'\n")
			}
			for key := range strings.Lines(replace(e.base)) {
				fmt.Fprintf(&b, "sandbox.%s\n", key)
			}
			if name != "without" {
				fmt.Fprintf(&b, "sandbox.%s = %s\n", e.key, replace(e.value))
			}
			if name == "best" {
				fmt.Fprint(&b, "sandbox.best_effort = true\n")
			}
		}
	}
	s.Configure(b.String())
	if w == asUser || w == userInContainer {
		s.Chmod(".", 0o777)
	}
	contained := harness.Refusing("mount,unshare,setns,clone_newuser", "EPERM")
	const nothing = " --bounding-set=-all --inh-caps=-all"
	switch w {
	case asRoot:
		s.Start()
	case asUser:
		s.Start(harness.As(65534))
	case rootInContainer:
		s.Start(harness.Under(`exec setpriv`+nothing+` "$@"`), contained)
	case userInContainer:
		s.Start(harness.Under(`exec setpriv --reuid=65534 --regid=65534 --clear-groups`+nothing+` "$@"`), contained)
	}
	results := make([]attempt, len(escapes))
	for i, e := range escapes {
		results[i].without, _ = said(s, fmt.Sprint("without", i))
		results[i].with, results[i].refusal = said(s, fmt.Sprint("with", i))
		if results[i].refusal == "" {
			continue
		}
		best := fmt.Sprint("best", i)
		if result, refusal := said(s, best); refusal != "" {
			t.Errorf("%s with best_effort, %s: the start is refused: %s", e.key, e.try, refusal)
		} else if result == "" {
			t.Errorf("%s with best_effort: no result", e.key)
		}
		key, _, _ := strings.Cut(strings.TrimPrefix(results[i].refusal, "apply "), " ")
		if got := warnings(t, s, best); !strings.Contains(strings.Join(got, "\n"), strings.TrimSuffix(key, ":")) {
			t.Errorf("%s with best_effort: the status has the warnings %q, want one of %s", e.key, got, key)
		}
	}
	return results
}

// said returns what a program printed, or why its start was refused.
func said(s *harness.Site, name string) (result, refusal string) {
	s.T.Helper()
	st := s.WaitStatus(name, "has a result", func(st harness.Status) bool {
		return st.State == "failed" || st.LastLine != ""
	})
	if st.LastLine == "" && st.Exit == nil {
		return "", st.Reason
	}
	_, result, _ = strings.Cut(strings.TrimSpace(s.Log(name)), " ")
	return result, ""
}

// warnings returns what the status says of a program's sandbox.
func warnings(t *testing.T, s *harness.Site, name string) []string {
	t.Helper()
	var all []struct {
		Warnings []string `json:"sandbox_warnings"`
	}
	if err := json.Unmarshal([]byte(s.MustCtl("status", "--json", name).Out), &all); err != nil || len(all) != 1 {
		t.Fatalf("status of %s: %d programs, %v", name, len(all), err)
	}
	return all[0].Warnings
}

// layOut makes in dir what the escapes need when it is at dest: child is the probe, suid a
// set-user-ID binary; open and owned are directories that anybody may write to; hidden has a file;
// root has the probe at the same path.
func layOut(t *testing.T, dir, dest string) {
	t.Helper()
	probe := filepath.Join(dir, "child")
	harness.BuildChild(t, probe)
	inRoot := filepath.Join(dir, "root", dest)
	for _, path := range []string{"open", "owned", "hidden", "root/proc", "root/sys", "root/dev", "root/run", "root/usr", "root/etc"} {
		makeDir(t, filepath.Join(dir, path))
	}
	makeDir(t, inRoot)
	copyFile(t, probe, filepath.Join(inRoot, "child"), 0o755)
	copyFile(t, "/bin/true", filepath.Join(dir, "open/file"), 0o755)
	copyFile(t, "/usr/bin/id", filepath.Join(dir, "suid"), 0o755|os.ModeSetuid)
	if err := os.WriteFile(filepath.Join(dir, "hidden/secret"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"open", "owned"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

func makeDir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// someDevice returns a device that a private /dev lacks.
func someDevice(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/dev/kmsg", "/dev/console", "/dev/fuse", "/dev/loop-control", "/dev/net/tun"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Skip("/dev has harmless devices only")
	return ""
}
