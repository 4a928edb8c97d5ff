package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"superd/tests/harness"
)

// TestAPIExamples: the examples of the API do what they say, and report what goes wrong.
func TestAPIExamples(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[program.web]
		command = "sh -c 'echo it prints; exec sleep infinity'"
		ready = { line = "it prints" }
		`)
	s.Start()
	s.WaitState("web", "running")
	api := buildOutside(t)
	for _, example := range [][]string{
		{"../examples/api/curl.sh"}, {"python3", "../examples/api/client.py"}, {api},
	} {
		name := filepath.Base(example[len(example)-1])
		before := s.Status("web").Pid
		out, err := runExample(t, append(example, s.Socket(), "web"))
		for _, want := range []string{"running, pid ", "it prints", "start"} {
			if err != nil || !strings.Contains(out, want) {
				t.Errorf("%s: %v, lacks %q:\n%s", name, err, want, out)
			}
		}
		if after := s.Status("web").Pid; after == before {
			t.Errorf("%s: pid %d as before, want a restart", name, after)
		}
		for _, wrong := range []struct{ socket, name, want string }{
			{s.Socket(), "wbe", "did you mean"},
			{s.Path("none.sock"), "web", s.Path("none.sock")},
		} {
			want := wrong.want
			if name == "curl.sh" && wrong.name == "web" {
				want = "curl: (7)" // older ones do not say more
			}
			out, err := runExample(t, append(example, wrong.socket, wrong.name))
			if err == nil || !strings.Contains(out, want) || strings.Contains(out, "Traceback") {
				t.Errorf("%s %s %s: %v, want %q:\n%s", name, wrong.socket, wrong.name, err, want, out)
			}
		}
	}
}

func runExample(t *testing.T, command []string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Deadline)
	defer cancel()
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	return string(out), err
}

// buildOutside builds the example in Go in a module of its own, as docs/api.md says, and returns
// its path.
func buildOutside(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyFile := func(from, to string) {
		text, err := os.ReadFile(filepath.Join(root, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copyFile("examples/api/main.go", "main.go")
	copyFile("go.sum", "go.sum")
	module := fmt.Sprintf("module example.com/api\n\ngo 1.26\n\nrequire superd v0.0.0\n\nreplace superd => %s\n", root)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", "api", ".")
	build.Dir = dir
	// All that it needs is in the cache of modules.
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-mod=mod", "-deps", ".")
	list.Dir, list.Env = dir, build.Env
	deps, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(deps)) {
		if strings.HasPrefix(dep, "superd/") && dep != "superd/control" {
			t.Errorf("a program with the client links %s", dep)
		}
	}
	return filepath.Join(dir, "api")
}
