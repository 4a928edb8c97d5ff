package config

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestLoadAfter: programs with the same meaning are the same *Program, all others are new.
func TestLoadAfter(t *testing.T) {
	const (
		web    = "[program.web]\ncommand = 'web'\nenvironment = { A = '1' }\nrequires = ['db']\n"
		db     = "[program.db]\ncommand = 'db'\nenv_file = 'db.env'\nready.tcp = '127.0.0.1:1'\n"
		logged = "[program.x]\ncommand = 'x'\nlog = { sink = 'command', command = 'y' }\n"
		broken = "[program.broken]\ncommand = 5\n"
		all    = web + db + logged + broken
	)
	tests := []struct {
		name, text string
		others     []string // new objects of the programs after the reload
	}{
		{"nothing is different", all, nil},
		{"another order, comments and blank lines", "# new\n\n" + broken + logged + db + "\n\n" + web, nil},
		{"another way to write it", strings.Replace(all, "'web'\n", "[\"web\"]\n", 1), nil},
		{"a default that was in force", "[defaults]\nreplicas = 1\n" + all, nil},
		{"another command", strings.Replace(all, "'web'", "'www'", 1), []string{"web"}},
		{"another logger", strings.Replace(all, "'y'", "'z'", 1), []string{"x", "x.logger"}},
		{"another mistake", strings.Replace(all, "5", "6", 1), []string{"broken"}},
		{"a mistake corrected", strings.Replace(all, "5", "'5'", 1), []string{"broken"}},
		{"a program added", all + "[program.new]\ncommand = 'n'\n", []string{"new"}},
		{"one removed that another requires", web + logged + broken, []string{"web"}},
		{"another default", "[defaults]\nstop_timeout = '7s'\n" + all, []string{"broken", "db", "web", "x", "x.logger"}},
	}
	files := map[string]string{"superd.toml": all, "db.env": "A=1\n"}
	before, err := load("superd.toml", memory(files))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := maps.Clone(files)
			files["superd.toml"] = tt.text
			got, err := loadAfter("superd.toml", before, memory(files))
			if err != nil {
				t.Fatal(err)
			}
			var others []string
			for _, p := range got.Programs {
				if p != before.Program(p.Name) {
					others = append(others, p.Name)
				}
			}
			if !slices.Equal(others, tt.others) {
				t.Errorf("loadAfter has other programs %q, want %q", others, tt.others)
			}
			want, err := load("superd.toml", memory(files))
			if err != nil {
				t.Fatal(err)
			}
			diff := Compare(want, got)
			if diff.Differs() || !bytes.Equal(got.Archive(), want.Archive()) ||
				!maps.Equal(got.envSums, want.envSums) || got.Errors.Error() != want.Errors.Error() {
				t.Errorf("loadAfter differs from load: %s%v, want %v", describe(diff), got.Errors, want.Errors)
			}
		})
	}
}

// BenchmarkReload measures LoadAfter and Compare for 10,000 programs of which one has changed.
func BenchmarkReload(b *testing.B) {
	var text strings.Builder
	text.WriteString("[defaults]\nstop_timeout = '5s'\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "[program.p%05d]\ncommand = ['sleep', '%d']\n", i, i)
		fmt.Fprintf(&text, "environment = { A = '%d' }\ngroups = ['all']\n", i)
	}
	before, err := load("superd.toml", memory(map[string]string{"superd.toml": text.String()}))
	if err != nil || len(before.Errors) > 0 {
		b.Fatal(err, before.Errors)
	}
	changed := strings.Replace(text.String(), "['sleep', '5000']", "['sleep', 'x']", 1)
	files := map[string]string{"superd.toml": changed}
	b.ReportAllocs()
	for b.Loop() {
		after, err := loadAfter("superd.toml", before, memory(files))
		if err != nil {
			b.Fatal(err)
		}
		if diff := Compare(before, after); len(diff.Names(RestartNeeded)) != 1 {
			b.Fatal(describe(diff))
		}
	}
}
