package places

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"superd/config"
	"superd/config/directory"
)

func env(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestCandidates(t *testing.T) {
	for _, tt := range []struct {
		name string
		uid  int
		vars map[string]string
		want []string
	}{
		{"root has no file of its own", 0, map[string]string{"XDG_CONFIG_HOME": "/c", "HOME": "/root"}, []string{"./superd.toml", "/etc/superd/superd.toml"}},
		{"a user has", 1000, map[string]string{"XDG_CONFIG_HOME": "/c"}, []string{"./superd.toml", "/c/superd/superd.toml", "/etc/superd/superd.toml"}},
		{"in .config by default", 1000, map[string]string{"HOME": "/home/u"}, []string{"./superd.toml", "/home/u/.config/superd/superd.toml", "/etc/superd/superd.toml"}},
		{"a relative variable doesn't count", 1000, map[string]string{"XDG_CONFIG_HOME": "c"}, []string{"./superd.toml", "/etc/superd/superd.toml"}},
	} {
		if got := candidates(env(tt.vars), tt.uid); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: candidates = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	home := filepath.Join(dir, "home")
	vars := env(map[string]string{"XDG_CONFIG_HOME": home})
	if got, err := Find("x/y.toml", vars, 1000); got != "x/y.toml" || err != nil {
		t.Errorf("Find with -c = %q, %v", got, err)
	}
	if _, err := os.Stat("/etc/superd/superd.toml"); err != nil {
		_, err := Find("", vars, 1000)
		want := "find configuration: there is no ./superd.toml, " + home + "/superd/superd.toml or /etc/superd/superd.toml: write one, or name another file with -c"
		if err == nil || err.Error() != want {
			t.Errorf("Find of nothing gives error %v, want %s", err, want)
		}
	}
	own := filepath.Join(home, "superd", "superd.toml")
	for _, path := range []string{own, "./superd.toml"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Find("", vars, 1000); got != path || err != nil {
			t.Errorf("Find = %q, %v, want %q", got, err, path)
		}
	}
}

func TestRuntimeDir(t *testing.T) {
	configured := &config.Config{Superd: config.Superd{RuntimeDir: "/configured"}}
	all := map[string]string{"SUPERD_RUNTIME_DIR": "/env", "RUNTIME_DIRECTORY": "/unit:/second", "XDG_RUNTIME_DIR": "/run/user/1000"}
	without := func(names ...string) map[string]string {
		vars := map[string]string{}
		for name, value := range all {
			vars[name] = value
		}
		for _, name := range names {
			delete(vars, name)
		}
		return vars
	}
	for _, tt := range []struct {
		name, flag string
		conf       *config.Config
		vars       map[string]string
		uid        int
		want       string
	}{
		{"the flag goes first", "/flag", configured, all, 0, "/flag"},
		{"then the variable", "", configured, all, 0, "/env"},
		{"then the file", "", configured, without("SUPERD_RUNTIME_DIR"), 0, "/configured"},
		{"then systemd", "", &config.Config{}, without("SUPERD_RUNTIME_DIR"), 0, "/unit"},
		{"root's default", "", nil, without("SUPERD_RUNTIME_DIR", "RUNTIME_DIRECTORY"), 0, "/run/superd"},
		{"a user's default", "", nil, without("SUPERD_RUNTIME_DIR", "RUNTIME_DIRECTORY"), 1000, "/run/user/1000/superd"},
		{"a user without a session", "", nil, nil, 1000, "/tmp/superd-1000"},
	} {
		if got := RuntimeDir(tt.flag, tt.conf, env(tt.vars), tt.uid); got != tt.want {
			t.Errorf("%s: RuntimeDir = %s, want %s", tt.name, got, tt.want)
		}
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if got, want := RuntimeDir("run", nil, env(nil), 0), filepath.Join(dir, "run"); got != want {
		t.Errorf("RuntimeDir of a relative flag = %s, want %s", got, want)
	}
}

func TestLogDir(t *testing.T) {
	for _, tt := range []struct {
		conf *config.Config
		uid  int
		want string
	}{
		{&config.Config{Superd: config.Superd{LogDir: "/logs"}}, 0, "/logs"},
		{&config.Config{}, 0, "/var/log/superd"},
		{nil, 1000, "/run/x/log"},
	} {
		if got := LogDir(tt.conf, "/run/x", tt.uid); got != tt.want {
			t.Errorf("LogDir(%+v, %d) = %s, want %s", tt.conf, tt.uid, got, tt.want)
		}
	}
}

func TestRootsOf(t *testing.T) {
	for _, tt := range []struct {
		uid  int
		vars map[string]string
		want [directory.Kinds]string
	}{
		{0, map[string]string{"XDG_RUNTIME_DIR": "/x"}, [directory.Kinds]string{"/run", "/var/lib", "/var/cache", "/var/log"}},
		{1000, map[string]string{"HOME": "/home/a"}, [directory.Kinds]string{"", "/home/a/.local/state", "/home/a/.cache", "/home/a/.local/state/log"}},
		{1000, map[string]string{"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/1000/", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "c"},
			[directory.Kinds]string{"/run/user/1000", "/s", "/h/.cache", "/s/log"}},
		{1000, nil, [directory.Kinds]string{}},
	} {
		if got := RootsOf(func(name string) string { return tt.vars[name] }, tt.uid).Roots; got != tt.want {
			t.Errorf("RootsOf(%v, %d) = %q, want %q", tt.vars, tt.uid, got, tt.want)
		}
	}
}
