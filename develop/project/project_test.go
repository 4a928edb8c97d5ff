package project

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// homeIn returns a home in a new directory, and a directory for projects.
func homeIn(t *testing.T) (Home, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "home-") // not t.TempDir: its paths are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h := HomeOf(func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": dir, "HOME": dir}[name] }, os.Geteuid())
	if h.Dir != filepath.Join(dir, "superd-projects") || h.Logs != filepath.Join(dir, ".local/state/superd/projects") {
		t.Errorf("home is %+v", h)
	}
	return h, t.TempDir()
}

// start makes the project of a file look as if it ran.
func start(t *testing.T, h Home, file string) *Project {
	t.Helper()
	p, err := h.At(file)
	if err == nil {
		err = p.Prepare()
	}
	if err == nil {
		err = p.Save()
	}
	if err == nil {
		err = os.MkdirAll(p.RuntimeDir(), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", p.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return p
}

func files(all []*Project) (names []string) {
	for _, p := range all {
		names = append(names, p.File)
	}
	return names
}

func TestIn(t *testing.T) {
	h, dir := homeIn(t)
	if all, err := h.All(); len(all) > 0 || err != nil {
		t.Errorf("All without a home = %v, %v", all, err)
	}
	below := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(below, link); err != nil {
		t.Fatal(err)
	}
	first, second := filepath.Join(dir, "Procfile"), filepath.Join(dir, "a", "superd.toml")
	for _, file := range []string{first, second} {
		start(t, h, file)
	}
	ended, err := h.At(filepath.Join(below, "Procfile"))
	if err != nil || ended.Prepare() != nil || ended.Save() != nil {
		t.Fatal(err)
	}
	for at, want := range map[string][]string{dir: {first}, filepath.Join(dir, "a"): {second}, below: {second}, link: {second}, "/": nil} {
		if got, err := h.In(at); err != nil || !slices.Equal(files(got), want) {
			t.Errorf("In(%s) = %v, %v, want %v", at, files(got), err, want)
		}
	}
	if all, err := h.All(); err != nil || len(all) != 3 {
		t.Errorf("All = %v, %v", files(all), err)
	}
	if err := os.WriteFile(filepath.Join(ended.Dir(), "project.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := h.All(); err != nil || len(all) != 2 {
		t.Errorf("All with a damaged record = %v, %v", files(all), err)
	}
}

func TestState(t *testing.T) {
	h, dir := homeIn(t)
	p := start(t, h, filepath.Join(dir, strings.Repeat("long", 20), "..", "Procfile"))
	if p.Name != filepath.Base(dir) || len(p.Socket()) > 107 {
		t.Errorf("the project is %q, its socket %s", p.Name, p.Socket())
	}
	lock := filepath.Join(p.RuntimeDir(), "superd.lock")
	for _, step := range []struct {
		do   func() error
		want State
	}{
		{func() error { return os.WriteFile(lock, nil, 0o600) }, Running},
		{func() error { return os.Remove(p.Socket()) }, Killed},
		{func() error { return os.Remove(lock) }, Ended},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := p.State(); got != step.want {
			t.Errorf("State = %s, want %s", got, step.want)
		}
	}
}

func TestForeignHome(t *testing.T) {
	h, dir := homeIn(t)
	p, err := h.At(filepath.Join(dir, "Procfile"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(h.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := h.All(); err == nil || !strings.Contains(err.Error(), "others may write it: run chmod go-w") {
		t.Errorf("All in a home that others may write = %v", err)
	}
	if err := p.Prepare(); err == nil {
		t.Error("Prepare accepts a home that others may write")
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Chown(h.Dir, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := p.Prepare(); err == nil || !strings.Contains(err.Error(), "belongs to user 1") {
		t.Errorf("Prepare in the home of another user = %v", err)
	}
	if other := HomeOf(func(string) string { return filepath.Dir(h.Dir) }, 4711); other.Dir != "/tmp/superd-projects-4711" {
		t.Errorf("the home of user 4711 is %s", other.Dir)
	}
}
