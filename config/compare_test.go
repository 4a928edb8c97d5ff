package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"superd/config/codec"
	"superd/config/filewatch"
	"superd/sandbox"
)

// describe returns the differences in the form of the tests.
func describe(d Diff) string {
	var b strings.Builder
	add := func(name, kind string, keys []KeyChange) {
		fmt.Fprintf(&b, "%s %s", name, kind)
		for i, k := range keys {
			fmt.Fprintf(&b, "%s %v", map[bool]string{true: ":", false: ","}[i == 0], k)
			if k.Restart {
				b.WriteString(" (restart)")
			}
		}
		b.WriteString("\n")
	}
	for _, c := range d.Programs {
		add(c.Name, string(c.Kind), c.Keys)
	}
	if len(d.Superd) > 0 {
		add("[superd]", "differs", d.Superd)
	}
	return b.String()
}

func TestCompare(t *testing.T) {
	const one = "program.a.command = 'x'\n"
	tests := []struct{ name, old, new, want string }{
		{"all at once", `
[program.gone]
command = "x"
[program.web]
command = "x"
stop_timeout = "5s"
[program.db]
command = "x"
stop_timeout = "1500ms"
[program.run]
command = "x"
`, `
[program.run]
command = ["x", "y z"]
umask = "022"
[program.web]
command = "x"
stop_timeout = "6s"
[program.db]
command = "x"
stop_timeout = "1.5s"
[program.fresh]
command = "x"
`, `db unchanged
fresh added
gone removed
run restart needed: command ["x"] -> ["x", "y z"] (restart), umask = "022" (restart)
web applied live: stop_timeout "5s" -> "6s"
`},
		{"places don't count", one, "# moved\n[program]\n  [program.a]\n  command = 'x'", "a unchanged\n"},
		{"ways to write don't count", "program.a.command = 'x y'", "[program.a]\ncommand = ['x', 'y']", "a unchanged\n"},
		{"a default written out doesn't count", one,
			"[program.a]\ncommand = 'x'\nlog = { file = 'a.log', max_size = 10_000_000 }\ndirectory = '.'\nenvironment = {}\ngroups = []\nreplicas = 1\nsuccess_exit_codes = [0]\nstop_signal = '15'", "a unchanged\n"},
		{"a default from the table counts", one, "defaults.restart = 'never'\n" + one, `a applied live: restart "always" -> "never"` + "\n"},
		{"a value that was not there", one, one + "program.a.user = 'root'", `a restart needed: user = "root" (restart)` + "\n"},
		{"a value that is no more", one + "program.a.user = 'root'", one, `a restart needed: user "root" removed (restart)` + "\n"},
		{"no secret is shown", one + "program.a.environment = { A = 'secret', B = 'secret', C = 'c' }",
			one + "program.a.environment = { A = 'hidden', D = 'hidden', C = 'c' }",
			"a restart needed: environment.A changed (restart), environment.B removed (restart), environment.D added (restart)\n"},
		{"live and not", one, one + "program.a.environment.A = '1'\nprogram.a.groups = ['g']",
			`a restart needed: environment.A added (restart), groups [] -> ["g"]` + "\n"},
		{"log rotation is live", one, one + "program.a.log = { max_size = 5, keep = 1, compress = true }",
			`a applied live: log.max_size "10MB" -> "5", log.keep 10 -> 1, log.compress false -> "gzip"` + "\n"},
		{"the log file is not", one, one + "program.a.log.file = 'b.log'", `a restart needed: log.file = "b.log" (restart)` + "\n"},
		{"more replicas", one + "program.a.replicas = 2", one + "program.a.replicas = 3", "a applied live: replicas 2 -> 3\n"},
		{"numbers come", one, one + "program.a.replicas = 3", "a restart needed: replicas 1 -> 3 (restart)\n"},
		{"numbers go", one + "program.a.replicas = 3", one, "a restart needed: replicas 3 -> 1 (restart)\n"},
		{"the only one goes", one, one + "program.a.replicas = 0", "a applied live: replicas 1 -> 0\n"},
		{"a mistake counts", one, one + "program.a.stop_timeout = 5",
			`a restart needed: stop_timeout has a mistake: must be a duration such as "5s", got the integer 5: write "5s" (restart)` + "\n"},
		{"a mistake that is corrected counts", one + "program.a.comand = 'x'", one, "a restart needed: comand corrected (restart)\n"},
		{"the same mistake elsewhere doesn't", "program.a.comand = 'x'", "\n\nprogram.a.comand = 'x'", "a unchanged\n"},
		{"a table for rolling restarts", one, one + "program.a.rolling = {}", "a applied live: rolling added\n"},
		{"other rolling restarts", one + "program.a.rolling = {}", one + "program.a.rolling.pause = '1s'", `a applied live: rolling.pause "0s" -> "1s"` + "\n"},
		{"no rolling restarts", one + "program.a.rolling.surge = 2", one, "a applied live: rolling.surge 2 -> 1, rolling removed\n"},
		{"watched files", one, one + "program.a.watch = { paths = ['/x'] }", `a applied live: watch.paths [] -> ["/x"], watch added` + "\n"},
		{"other watched files", one + "program.a.watch.paths = ['/x']", one + "program.a.watch = { paths = ['/x'], signal = 'HUP' }", `a applied live: watch.signal = "SIGHUP"` + "\n"},
		{"superd", one, "superd.log_dir = '/x'\nsuperd.exit_when = 'all-exited'\n" + one,
			`a unchanged` + "\n" + `[superd] differs: log_dir = "/x" (restart), exit_when "never" -> "all-exited"` + "\n"},
		{"files that are included", one, "include = ['conf.d/*.toml']", "a removed\nincluded added\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var configs [2]*Config
			for i, text := range []string{tt.old, tt.new} {
				c, err := load("superd.toml", memory(map[string]string{"superd.toml": text, "conf.d/one.toml": "program.included.command = 'x'"}))
				if err != nil {
					t.Fatal(err)
				}
				configs[i] = c
			}
			diff := Compare(configs[0], configs[1])
			if got := describe(diff); got != tt.want {
				t.Errorf("Compare gives\n%swant\n%s", got, tt.want)
			}
			if got, want := diff.Differs(), tt.want != "a unchanged\n"; got != want {
				t.Errorf("Differs() = %v, want %v", got, want)
			}
		})
	}
}

// TestEachKeyIsClassified fails for a key without an entry about when it takes effect.
func TestEachKeyIsClassified(t *testing.T) {
	tables := map[string]map[string]effect{"program": effects(), "superd": superdEffects, "control": controlEffects, "compat": compatEffects, "socket": socketEffects}
	for _, k := range keys() {
		if of := tables[k.table]; of != nil {
			if _, ok := of[k.name]; !ok {
				t.Errorf("%s.%s: say in effects when another value comes into force", k.table, k.name)
			}
		}
	}
	for table, of := range tables {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if findKey(table, name) == nil {
				t.Errorf("effects has %s.%s, which is no key", table, name)
			}
		}
	}
}

// TestEachFieldIsCompared fails for a field of a program in which a difference goes unnoticed.
func TestEachFieldIsCompared(t *testing.T) {
	// Not part of the definition, or compared by other means
	none := []string{"Name", "File", "Line", "Invalid"}
	visitLeaves(reflect.ValueOf(fullProgram()).Elem(), "", func(path string, _ reflect.Value) {
		if slices.Contains(none, strings.TrimPrefix(path, ".")) {
			return
		}
		before, after := fullProgram(), fullProgram()
		visitLeaves(reflect.ValueOf(after).Elem(), "", func(other string, leaf reflect.Value) {
			if other == path {
				alter(t, leaf)
			}
		})
		if c := CompareProgram(before, after); c.Kind == Unchanged || len(c.Keys) == 0 {
			t.Errorf("a difference in Program%s is %s, by the keys %v", path, c.Kind, c.Keys)
		}
	})
}

// fullProgram returns a program without nil pointers.
func fullProgram() *Program {
	p := DefaultProgram("web")
	p.Ready, p.Health, p.Umask = &Ready{}, &Health{}, new(uint32)
	p.Log.Mode = new(uint32)
	for k := range p.Directories {
		p.Directories[k].Mode = new(uint32)
	}
	p.Attributes = Attributes{Nice: new(int), IONice: &codec.IONice{}, Scheduling: &codec.Scheduling{Policy: codec.PolicyFIFO}, OOMScoreAdj: new(int)}
	p.Limits = Limits{Memory: new(int64), MemoryHigh: new(int64), Swap: new(int64), CPUWeight: new(int64), CPU: new(float64), Tasks: new(int64)}
	p.Rolling, p.Sockets, p.Watch = &Rolling{}, &ProgramSockets{}, &filewatch.Settings{}
	p.Sandbox = &sandbox.Settings{NoNewPrivileges: new(bool)}
	return p
}

// visitLeaves calls visit with each field that has no fields.
func visitLeaves(v reflect.Value, path string, visit func(string, reflect.Value)) {
	switch {
	case v.Kind() == reflect.Pointer:
		visitLeaves(v.Elem(), path, visit)
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			visitLeaves(v.Index(i), fmt.Sprint(path, "[", i, "]"), visit)
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			visitLeaves(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	default:
		visit(path, v)
	}
}

func alter(t *testing.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Uint32:
		v.SetUint(v.Uint() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"X": "x"}))
	default:
		t.Fatalf("no other value for a %v", v.Kind())
	}
}

func TestEnvFileSum(t *testing.T) {
	text := map[string]string{"superd.toml": "[program.a]\ncommand='x'\nenv_file='a.env'\n[program.b]\ncommand='x'\nenv_file='none.env'"}
	sum := func(env string) uint64 {
		t.Helper()
		text["a.env"] = env
		c, err := load("superd.toml", memory(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := c.EnvFileSum(c.Programs[1]); ok {
			t.Errorf("EnvFileSum of a file that can't be read = %d", got)
		}
		got, ok := c.EnvFileSum(c.Programs[0])
		if !ok || got == 0 {
			t.Fatalf("EnvFileSum = %d, %v", got, ok)
		}
		return got
	}
	first := sum("A=1\nB=2\n")
	if same := sum("# said otherwise\nB='2'\nexport A=1\n"); same != first {
		t.Error("the same variables have two sums")
	}
	for _, other := range []string{"A=1\nB=3\n", "A=1\n", "A=1\nB=2\nC=\n", "A=1B=2\n"} {
		if sum(other) == first {
			t.Errorf("%q has the sum of another file", other)
		}
	}
}

// TestSumOfEnvFiles: the sum is that of the start, and depends on each file and on which optional
// ones exist.
func TestSumOfEnvFiles(t *testing.T) {
	text := map[string]string{
		"superd.toml": "[program.a]\ncommand='x'\nenv_file=['a.env', '-b.env']\n[program.b]\ncommand='x'\nenv_file=['-a.env']\n",
	}
	sums := map[uint64]string{}
	check := func(name string, ok bool) {
		t.Helper()
		c, err := load("superd.toml", memory(text))
		if err != nil {
			t.Fatal(err)
		}
		sum, got := c.EnvFileSum(c.Program("a"))
		if got != ok {
			t.Fatalf("%s: EnvFileSum is known: %v, want %v", name, got, ok)
		}
		if _, known := c.EnvFileSum(c.Program("b")); !known {
			t.Errorf("%s: the sum of an optional file is unknown", name)
		}
		if !ok {
			return
		}
		if other, taken := sums[sum]; taken {
			t.Errorf("%s has the sum of %s", name, other)
		}
		sums[sum] = name
		restored, err := restore(c.Archive(), memory(nil))
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := restored.EnvFileSum(restored.Program("a")); again != sum {
			t.Errorf("%s: restored from its archive, the sum is another", name)
		}
		_, started, err := c.Program("a").ReadEnvFiles(func(path string) (map[string]string, error) {
			text, ok := text[strings.TrimPrefix(path, "/etc/superd/")]
			if !ok {
				return nil, fs.ErrNotExist
			}
			key, value, _ := strings.Cut(strings.TrimSpace(text), "=")
			return map[string]string{key: value}, nil
		})
		if err != nil || started != sum {
			t.Errorf("%s: at the start the sum is %d, %v, want %d", name, started, err, sum)
		}
	}
	check("no file", false)
	text["a.env"] = "A=1\n"
	check("the needed file", true)
	text["b.env"] = "A=2\n"
	check("both", true)
	text["b.env"] = "B=2\n"
	check("both, other contents", true)
	text["b.env"] = "broken\n"
	check("an optional file with a mistake", false)
}

// TestReadEnvFiles: a later file overrides an earlier one, and only a missing optional file is
// passed over.
func TestReadEnvFiles(t *testing.T) {
	files := map[string]map[string]string{"/a": {"A": "a", "B": "a"}, "/b": {"B": "b"}}
	read := func(path string) (map[string]string, error) {
		switch {
		case path == "/locked":
			return nil, fs.ErrPermission
		case files[path] == nil:
			return nil, fs.ErrNotExist
		}
		return files[path], nil
	}
	for _, tt := range []struct {
		files []codec.EnvFile
		want  map[string]string
		err   error
	}{
		{nil, nil, nil},
		{[]codec.EnvFile{{Path: "/a", Optional: false}, {Path: "/none", Optional: true}, {Path: "/b", Optional: true}}, map[string]string{"A": "a", "B": "b"}, nil},
		{[]codec.EnvFile{{Path: "/b", Optional: false}, {Path: "/a", Optional: false}}, map[string]string{"A": "a", "B": "a"}, nil},
		{[]codec.EnvFile{{Path: "/a", Optional: false}, {Path: "/none", Optional: false}}, nil, fs.ErrNotExist},
		{[]codec.EnvFile{{Path: "/locked", Optional: true}}, nil, fs.ErrPermission},
	} {
		p := &Program{Settings: &Settings{EnvFiles: tt.files}}
		got, sum, err := p.ReadEnvFiles(read)
		if !errors.Is(err, tt.err) || !maps.Equal(got, tt.want) || (sum != 0) != (len(tt.want) > 0) {
			t.Errorf("%v: %v, sum %d, %v; want %v, %v", tt.files, got, sum, err, tt.want, tt.err)
		}
	}
	if files["/a"]["B"] != "a" {
		t.Error("the variables of a file were changed")
	}
}
