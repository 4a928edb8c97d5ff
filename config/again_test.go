package config

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// checkAgain holds that LoadAfter says what Load says.
func checkAgain(t *testing.T, files map[string]string, before *Config) *Config {
	t.Helper()
	want, err := load("superd.toml", memory(files))
	got, errAgain := loadAfter("superd.toml", before, memory(files))
	if (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
		t.Fatalf("LoadAfter: %v, Load: %v\nof %q", errAgain, err, files)
	}
	if err != nil {
		return nil
	}
	diff := Compare(want, got)
	if diff.Differs() || got.Errors.Error() != want.Errors.Error() || got.Warnings.Error() != want.Warnings.Error() ||
		!bytes.Equal(got.Archive(), want.Archive()) || !maps.Equal(got.envSums, want.envSums) || !slices.Equal(got.Files, want.Files) {
		t.Fatalf("LoadAfter differs from Load:\n%s%v %v, want %v %v\nof %q", told(diff), got.Errors, got.Warnings, want.Errors, want.Warnings, files)
	}
	return got
}

// TestLoadAfter edits files at random, so that they are sound at times, and loads them after what they were.
func TestLoadAfter(t *testing.T) {
	pieces := []string{
		"[program.%s]\ncommand = 'x'\n", "[program.%s]\ncommand = [\n  'x', # [program.a]\n]\n", "[program.%s]\ncommand = 'x'\nrestart = 'never'\n",
		"[program.%s]\ncommand = \"\"\"x\n[program.a]\n\"\"\"\n", "[program.%s]\ncommand = '''x\n[program.b]\n'''\n[program.%[1]s.log]\nkeep = 3\n",
		"[program.%s]\ncommand = 'x'\nenv_file = 'e.env'\n", "[program.%s]\ncommand = 'x ${A}'\nenv_file = 'e.env'\n", "[program.%s]\ncommand = 'x'\ngroups = ['g']\n",
		"[program.%s]\ncommand = 'x'\nlog.file = 'b.log'\n", "[program.%s]\ncommand = 'x'\nreplicas = 2\n", "[program.%s] # [x]\ncommand = 'x'\nafter = []\n",
		"[program.'%s']\ncommand = 'x'\n", "[program.%s]\ncommand = 'x'\nenvironment = { A = \"#\\\"[\" }\n",
		"[program.%s]\ncommand = 'x'\nrequires = ['d']\n", "[program.%s]\ncommand = 'x'\nafter = ['c']\n",
		"[program.%s]\ncommand = 'x'\ntype = 'oneshot'\n", "[program.%s]\ncommand = 'x'\ntype = 'oneshot'\nschedule = '@every 5m'\n",
		"[program.%s]\ncommand = 'x'\nlog = { sink = 'command', command = 'y' }\n",
	}
	broken := []string{
		"[program.%s]\ncommand = 5\n", "[program.%s]\ncommand = \"\"\"x\n", "[program.%s]\ncommand = 'x'\n[program.c.log]\nkeep = 5\n",
		"[program]\n%s.command = 'x'\n", "[program.%s]\ncommand = 'x'\ngroups = ['a']\n",
	}
	heads := []string{"", "[defaults]\nrestart = 'never'\n", "include = ['conf/*.toml']\n", "superd.exit_when = 'all-exited'\n"}
	reused, loads := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rng.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		pieces := pieces[:4] // so that those meet that concern each other
		draw := func(from []string) string { return from[rng.IntN(len(from))] }
		piece := func(name string) string {
			if rng.IntN(20) == 0 {
				return fmt.Sprintf(draw(broken), name)
			}
			return fmt.Sprintf(draw(pieces), name)
		}
		file := func() (tables []string) {
			for _, name := range []string{"a", "b", "c", "d"} {
				if rng.IntN(8) > 0 {
					tables = append(tables, piece(name))
				}
			}
			return tables
		}
		texts := map[string][]string{"superd.toml": append([]string{draw(heads)}, file()...), "conf/e.toml": {"[program.e]\ncommand = 'x'\n"}}
		files := map[string]string{"e.env": "A=1\n"}
		var before *Config
		for range 20 {
			for name, tables := range texts {
				files[name] = strings.Join(tables, "")
			}
			if before == nil {
				before, _ = load("superd.toml", memory(files))
			} else if c := checkAgain(t, files, before); c != nil {
				loads++
				for _, p := range c.Programs {
					if before.Program(p.Name) == p {
						reused++
					}
				}
				if len(c.Errors) == 0 {
					before = c
				}
			}
			switch tables := texts["superd.toml"]; rng.IntN(8) {
			case 0:
				files["e.env"] = draw([]string{"A=1\n", "A=2\n", "B=1\n", "broken\n"})
			case 1:
				texts["conf/e.toml"] = []string{piece(draw([]string{"e", "a"}))}
			case 2:
				tables[0] = draw(heads)
			case 3:
				texts["superd.toml"] = append(tables[:1:1], file()...)
			case 4:
				if i := rng.IntN(len(tables)); i > 0 {
					texts["superd.toml"] = slices.Delete(slices.Clone(tables), i, i+1)
				}
			default:
				if i := rng.IntN(len(tables)); i > 0 {
					name, _ := headerOf(tables[i])
					if name == "" || rng.IntN(4) == 0 {
						name = draw([]string{"a", "b", "c", "d"})
					}
					tables[i] = piece(name)
				}
			}
		}
	}
	if loads < 500 || reused < loads {
		t.Errorf("%d loads, %d programs taken over: the test shows nothing", loads, reused)
	}
}

// TestLoadAfterConcernsOthers changes one program where that is another one's mistake.
func TestLoadAfterConcernsOthers(t *testing.T) {
	const (
		other    = "[program.web]\ncommand = 'x'\n"
		requires = "[program.web]\ncommand = 'x'\nrequires = ['db']\n"
	)
	tests := []struct{ name, web, before, after string }{
		{"what is required gets a schedule", requires, "type = 'oneshot'", "type = 'oneshot'\nschedule = '@every 5m'"},
		{"what is awaited gets a schedule", "[program.web]\ncommand = 'x'\nafter = ['db']\n", "", "type = 'oneshot'\nschedule = '@every 5m'"},
		{"a cycle is closed", requires, "", "after = ['web']"},
		{"a log file of another's", other, "", "log.file = 'web.log'"},
		{"a group of that name", other, "", "groups = ['web']"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := func(db string) map[string]string {
				return map[string]string{"superd.toml": tt.web + "[program.db]\ncommand = 'x'\n" + db + "\n"}
			}
			before, err := load("superd.toml", memory(text(tt.before)))
			if err != nil || len(before.Errors)+len(before.Warnings) > 0 {
				t.Fatal(err, before.Errors, before.Warnings)
			}
			if after := checkAgain(t, text(tt.after), before); after == nil || len(after.Errors) == 0 {
				t.Errorf("load(%q) has no error", text(tt.after))
			}
		})
	}
}

func TestSplitTables(t *testing.T) {
	tests := []struct {
		name, text string
		want       []table // nil: it is not sure
	}{
		{"heads and programs", "a=1\n[program.x]\nb=1\n[program.x.log]\nc=1\n[superd]\n[program.y]\n",
			[]table{{"", "a=1\n"}, {"x", "[program.x]\nb=1\n[program.x.log]\nc=1\n"}, {"", "[superd]\n"}, {"y", "[program.y]\n"}}},
		{"headers within values", "[program.x]\na=[\n[program.y]\n]\nb='''\n[program.y]\n'''''\nc=\"\"\"\\\"\"\"\n[program.y]\"\"\"\n",
			[]table{{"x", "[program.x]\na=[\n[program.y]\n]\nb='''\n[program.y]\n'''''\nc=\"\"\"\\\"\"\"\n[program.y]\"\"\"\n"}}},
		{"comments", "[program.x] # ' [ \"\n# '''\na = 1 # [\n[program.y] # no end",
			[]table{{"x", "[program.x] # ' [ \"\n# '''\na = 1 # [\n"}, {"y", "[program.y] # no end"}}},
		{"other ways to write a header", "[ program.x ]\n[program.'x']\n[[program.x]]\n",
			[]table{{"", "[ program.x ]\n"}, {"", "[program.'x']\n"}, {"", "[[program.x]]\n"}}},
		{"a program in two places", "[program.x]\n[program.y]\n[program.x.log]\n", nil},
		{"a string without an end", "[program.x]\na = '''\n[program.y]\n", nil},
		{"an array without an end", "[program.x]\na = [\n[program.y]\n", nil},
		{"a quote without an end", "a = 'x\n", nil},
		{"nothing", "", []table{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := splitTables(tt.text)
			if ok != (tt.want != nil) || ok && !slices.Equal(got, tt.want) {
				t.Errorf("splitTables(%q) = %q, %v, want %q", tt.text, got, ok, tt.want)
			}
		})
	}
}

// manyPrograms returns a file of n programs.
func manyPrograms(n int) string {
	var b strings.Builder
	b.WriteString("[defaults]\nstop_timeout = '5s'\n")
	for i := range n {
		fmt.Fprintf(&b, "[program.p%05d]\ncommand = ['sleep', '%d']\nenvironment = { A = '%d' }\ngroups = ['all']\n", i, i, i)
	}
	return b.String()
}

// BenchmarkLoad measures 10,000 programs: all of them, and when one is another one.
func BenchmarkLoad(b *testing.B) {
	files := map[string]string{"superd.toml": manyPrograms(10_000)}
	before, err := load("superd.toml", memory(files))
	if err != nil || len(before.Errors) > 0 {
		b.Fatal(err, before.Errors)
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			load("superd.toml", memory(files))
		}
	})
	changed := map[string]string{"superd.toml": strings.Replace(files["superd.toml"], "['sleep', '5000']", "['sleep', 'x']", 1)}
	b.Run("one-changed", func(b *testing.B) {
		for b.Loop() {
			after, err := loadAfter("superd.toml", before, memory(changed))
			if err != nil {
				b.Fatal(err)
			}
			if diff := Compare(before, after); len(diff.Names(RestartNeeded)) != 1 {
				b.Fatal(told(diff))
			}
		}
	})
}
