package config

import (
	"reflect"
	"testing"
)

func TestCompare(t *testing.T) {
	const old = `
[program.gone]
command = "x"
[program.web]
command = "x"
environment = { A = "1" }
[program.db]
command = "x"
stop_timeout = "1500ms"
`
	same := func(names ...string) Diff { return Diff{Unchanged: names} }
	tests := []struct {
		name, old, new string
		want           Diff
	}{
		{"all at once", old, `
[program.web]
command = "x"
environment = { A = "2" }
[program.db]
command = "x"
stop_timeout = "1.5s"
[program.fresh]
command = "x"
`, Diff{Added: []string{"fresh"}, Removed: []string{"gone"}, Changed: []string{"web"}, Unchanged: []string{"db"}}},
		{"places don't count", "program.a.command = 'x'", "# moved\n[program]\n  [program.a]\n  command = 'x'", same("a")},
		{"ways to write don't count", "program.a.command = 'x y'", "[program.a]\ncommand = ['x', 'y']", same("a")},
		{"a default written out doesn't count", "program.a.command = 'x'",
			"[program.a]\ncommand = 'x'\nlog = { file = 'a.log', max_size = 10_000_000 }\ndirectory = '.'\nenvironment = {}\ngroups = []\nsuccess_exit_codes = [0]\nstop_signal = '15'", same("a")},
		{"a default from the table counts", "program.a.command = 'x'", "defaults.restart = 'never'\nprogram.a.command = 'x'", Diff{Changed: []string{"a"}}},
		{"a mistake counts", "program.a.command = 'x'", "program.a.command = 'x'\nprogram.a.stop_timeout = 5", Diff{Changed: []string{"a"}}},
		{"the same mistake elsewhere doesn't", "program.a.comand = 'x'", "\n\nprogram.a.comand = 'x'", same("a")},
		{"another mistake counts", "program.a.comand = 'x'", "program.a.commnd = 'x'", Diff{Changed: []string{"a"}}},
		{"superd", "program.a.command = 'x'", "superd.log_dir = '/x'\nprogram.a.command = 'x'", Diff{Unchanged: []string{"a"}, Superd: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var configs [2]*Config
			for i, text := range []string{tt.old, tt.new} {
				c, err := load("superd.toml", memory(map[string]string{"superd.toml": text}))
				if err != nil {
					t.Fatal(err)
				}
				configs[i] = c
			}
			if got := Compare(configs[0], configs[1]); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("Compare = %+v, want %+v", got, tt.want)
			}
		})
	}
}
