package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// checkHalves compares what two halves say with what the whole says, and reports whether it was told from halves.
func checkHalves(t *testing.T, text string) bool {
	t.Helper()
	root, tooDeep := locate(text)
	if tooDeep >= 0 {
		return false
	}
	got, ok := decodeHalves(text, root)
	var want map[string]any
	if _, err := toml.Decode(text, &want); ok && err != nil {
		t.Errorf("in halves %q is taken, the whole is not: %v", text, err)
	}
	if ok && fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) { // NaN is not equal to itself
		t.Errorf("in halves %q says\n%v\nas a whole\n%v", text, got, want)
	}
	return ok
}

func TestHalves(t *testing.T) {
	for _, tt := range []struct {
		text   string
		halves bool
	}{
		{"[superd]\nlog_dir = 'l'\n[program.a]\ncommand = 'x'\n[program.b]\ncommand = 'y'\n", true},
		{"[program.a]\nx = 1\n[program.a.log]\ny = 1\n[program.b]\nx = 2\n[program.b.log]\ny = 2\n", true},
		{"[program]\n[program.a]\nx = 1\n[program.b]\nx = 2\n", true},
		{"[[program.a]]\nx = 1\n[program.b]\nx = 2\n", true},
		{"[program.a]\nx = '''\n[program.no]\n'''\n[program.b]\nx = 2\n", true},
		{"[program.a]\nx = [\n[program.b]\n]\n", false},
		{"", false},
		{"[program.a]\n", false},
		{"\nprogram = { a = { x = 1 } }\n[program.b]\nx = 2\n", false},       // can't be added to
		{"\nprogram.a.x = 1\n[program.b]\nx = 2\n", false},                   // likewise
		{"\nprogram = 1\n[program.b]\nx = 2\n", false},                       // no table
		{"[[program]]\na = 1\n[program.b]\nx = 2\n", false},                  // an array of them
		{"[program.a]\nx = 1\n[program.a]\nx = 2\n", false},                  // twice
		{"[program.a]\nx = 1\n[program.b]\nx = 2\n[program.a.log]\n", false}, // in both
		{"[program.a]\nx = 1\n[program.b]\nx = 2\n[program]\n", false},       // a header of its own there
		{"[program]\n[program.a]\nx = 1\n[program.b]\nx = 2\n[program]\n", false},
		{"[program.a]\nx = 1\n[program.b]\nx = 2\n[superd]\n", false}, // something else there
		{"[program.a]\nx = 1\n[program.b]\nx = \n", false},            // no TOML
		{"[program.a]\nx = \n[program.b]\nx = 1\n", false},
		{"[program.a]\nx = 1\n[program.b\n", false},
		{"[program.a]\nx = '''\n[program.b]\nx = 1\n", false},
	} {
		if got := checkHalves(t, tt.text); got != tt.halves {
			t.Errorf("%q is told from halves: %v", tt.text, got)
		}
	}
}

// What is written in more than one file's length is loaded as ever, with each mistake at its place.
func TestHalvesOfALongFile(t *testing.T) {
	var b strings.Builder
	for i := range 500 {
		fmt.Fprintf(&b, "[program.p%d]\ncommand = 'x'\n", i)
	}
	if text := b.String(); len(text) < minHalved || !checkHalves(t, text) {
		t.Errorf("%d bytes are not decoded in halves", len(text))
	}
	b.WriteString("oops\n")
	_, err := load("superd.toml", memory(map[string]string{"superd.toml": b.String()}))
	if want := "superd.toml:1001:"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("load gives %v, want %s…", err, want)
	}
}

func FuzzHalves(f *testing.F) {
	seedConfigs(f)
	f.Add([]byte("[program.a]\nx = '''\n[program.no]\n'''\n[program.b.c]\nx = 2\n[program]\n"))
	f.Fuzz(func(t *testing.T, data []byte) { checkHalves(t, string(data)) })
}
