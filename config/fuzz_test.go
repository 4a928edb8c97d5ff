package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// seedConfigs adds the files of all golden cases to the corpus.
func seedConfigs(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for text := range strings.SplitSeq(string(data), "\n=== ") {
			_, text, _ = strings.Cut(text, "\n")
			text, _, _ = strings.Cut(text, "---\n")
			for file := range strings.SplitSeq(text, ">>> ") {
				f.Add([]byte(file))
			}
		}
	}
	for _, text := range []string{
		"", "\xff\xfe", "\x00", "a", "=", "[", "[[", "[a", "a=[", "a={", "a='", `a="\`, `a="""\`, "a='''", "\"\\\n\"=1",
		"a.b.c=1\na.b.d=2\n[a.e]\nf=1\n[[g]]\nh=1\n[g.i]\nj=1\n[[g]]\nh=2\n[[g.k]]\nl=1\n",
		"a = { b = { c = 1, d.e = [ { f = 1 }, { f = 2 } ] }, # x\n }\n",
		"\"a.b\" = 1\n'c d'.\"\\u00e9\" = 2\n\"\" = 3\n",
		"a = \"\"\"\"\"x\"\"\"\"\"\nb = '''''y'''''\nc = \"\"\"x\\\"\"\"\" # \"\"\"\nd = 1\n",
		"a = 1979-05-27 07:32:00\nb = 07:32:00 # c\nd = [1979-05-27 07:32:00,+inf,]\n",
	} {
		f.Add([]byte(text))
	}
}

func FuzzLoad(f *testing.F) {
	seedConfigs(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		files := map[string]string{
			"superd.toml":   string(data),
			"conf.d/a.toml": "[program.a]\ncommand = \"x\"\n[program.b]\ncommand = 5\n",
			"web.env":       "A=1\nB='2'\n",
		}
		c, err := load("superd.toml", memory(files))
		again, errAgain := load("superd.toml", memory(files))
		if !reflect.DeepEqual(c, again) || !reflect.DeepEqual(err, errAgain) {
			t.Fatalf("a second load differs: %v\n%v", err, errAgain)
		}
		if err != nil {
			checkMistakes(t, files, err.(Errors))
			return
		}
		checkMistakes(t, files, c.Errors)
		checkMistakes(t, files, c.Warnings)
		checkArchive(t, c)
		if diff := Compare(c, again); diff.Differs() {
			t.Fatalf("compare finds a difference to itself: %+v", diff)
		}
		for _, p := range c.Programs {
			if len(p.Invalid) == 0 && (len(p.Command) == 0 || p.Backoff.Initial <= 0 || p.Backoff.Max < p.Backoff.Initial ||
				p.StartTimeout <= 0 || p.StopTimeout < 0 || p.StopSignal <= 0 || p.Replicas < 1) {
				t.Fatalf("a valid program has values out of bounds: %+v", p)
			}
			argv, _, dir, err := p.Resolve(Inherited([]string{"HOME=/root"}), nil, nil, nil)
			if err == nil && len(p.Invalid) == 0 && (len(argv) == 0 || !filepath.IsAbs(dir)) {
				t.Fatalf("resolve(%+v) = %q in %q", p, argv, dir)
			}
		}
	})
}

// checkMistakes checks that each mistake has a place that exists and a message of one line.
func checkMistakes(t *testing.T, files map[string]string, mistakes Errors) {
	t.Helper()
	for _, e := range mistakes {
		if e.File == "" || e.Err == nil || strings.ContainsAny(e.Error(), "\n\x00\x1b") {
			t.Fatalf("mistake is not one line: %q", e.Error())
		}
		if e.Line == 0 {
			continue
		}
		lines := strings.Split(files[strings.TrimPrefix(e.File, "/etc/superd/")], "\n")
		if e.Line > len(lines) || e.Column < 1 || e.Column > len(lines[e.Line-1])+1 {
			t.Fatalf("%v: there is no such place", e)
		}
	}
}

// FuzzLocate checks the locator against the decoder: all keys that the decoder reports are located, and the text there
// is the key.
func FuzzLocate(f *testing.F) {
	seedConfigs(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		text := strings.TrimPrefix(string(data), "\ufeff")
		root, tooDeep := locate(text)
		if tooDeep >= 0 {
			return
		}
		var table map[string]any
		meta, err := toml.Decode(text, &table)
		if err != nil || strings.HasPrefix(text, "\xff\xfe") || strings.HasPrefix(text, "\xfe\xff") || strings.HasPrefix(text, "\ufeff") {
			return // the decoder skips further byte order marks
		}
		located := map[string][]*node{}
		collectNodes(root, nil, located)
		for _, key := range meta.Keys() {
			nodes := located[dotted(key)]
			if len(nodes) == 0 {
				t.Fatalf("%s is not located", key)
			}
			for _, n := range nodes {
				if last := key[len(key)-1]; !startsWithKey(text[n.key:], last) {
					t.Fatalf("%s is located at %q", key, text[n.key:])
				}
			}
		}
	})
}

// collectNodes lists the nodes by key; those in arrays have the key of the array before theirs.
func collectNodes(n *node, path []string, located map[string][]*node) {
	for _, item := range n.items {
		collectNodes(item, path, located)
	}
	for name, kid := range n.kids {
		key := append(slices.Clone(path), name)
		located[dotted(key)] = append(located[dotted(key)], kid)
		collectNodes(kid, key, located)
	}
}

// startsWithKey reports whether text begins with the key, bare or quoted.
func startsWithKey(text, key string) bool {
	if text != "" && text[0] != '"' && text[0] != '\'' {
		return key != "" && strings.HasPrefix(text, key)
	}
	for end := 2; end <= len(text); end++ {
		var decoded struct{ K string }
		if text[end-1] == text[0] {
			if _, err := toml.Decode("K="+text[:end], &decoded); err == nil {
				return decoded.K == key
			}
		}
	}
	return false
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{
		"", " ", "a b", "a 'b c' \"d e\"", `a\ b \" \\ \'`, "a ${X:-b c}'${Y}' \"${Z}\" $$ $X '$' \\$", "a\\\nb", `"\a\$"`,
		"''", `a""b`, "a | b > c", "'", `"`, `\`, "${", "# x", "a#b", "~", "$'{X}'", `$"{X}"`, "a\x00b", "é \xff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, _, err := splitCommand(s)
		if err != nil {
			return
		}
		var quoted []string
		for _, arg := range args {
			if plain, unset, err := expand(arg, func(string) (string, bool) { return "v'\"$ x", true }); err == nil && len(unset) == 0 {
				quoted = append(quoted, "'"+strings.ReplaceAll(plain, "'", `'\''`)+"'")
			}
		}
		again, unquoted, err := splitCommand(strings.Join(quoted, " "))
		if err != nil || unquoted != "" || len(again) != len(quoted) {
			t.Fatalf("splitCommand(%q) = %q, %q, %v", quoted, again, unquoted, err)
		}
		for i, arg := range again {
			literal, _, err := expand(arg, func(name string) (string, bool) {
				t.Fatalf("%q in single quotes refers to %s", arg, name)
				return "", false
			})
			if err != nil || "'"+strings.ReplaceAll(literal, "'", `'\''`)+"'" != quoted[i] {
				t.Fatalf("%s came back as %q, %v", quoted[i], literal, err)
			}
		}
	})
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$$", "${X}", "${X:-d}", "${X:-$$}", "${X:-${Y}}", "a${X}b$$${Y:-}c$Z", "${", "${}", "${1}", "${X-d}", "$$${X", "}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		vars := map[string]string{"X": "1", "EMPTY": ""}
		lookup := func(name string) (string, bool) { value, ok := vars[name]; return value, ok }
		expanded, unset, err := expand(s, lookup)
		if len(expanded) > maxExpanded {
			t.Fatalf("expand gives %d bytes", len(expanded))
		}
		if err == nil && !strings.Contains(s, "$") && expanded != s {
			t.Fatalf("expand(%q) = %q", s, expanded)
		}
		if err == nil {
			_, needed := references(s)
			for _, name := range unset {
				if !slices.Contains(needed, name) {
					t.Fatalf("%s is unset and no reference of %q", name, s)
				}
			}
		}
		if back, _, err := expand(escapeDollars(s), lookup); err == nil && back != s {
			t.Fatalf("expand(escapeDollars(%q)) = %q", s, back)
		}
	})
}

func FuzzEnvFile(f *testing.F) {
	for _, s := range []string{"A=1", "export A='x y' # c", "A=\"\\\"\\n\"", "# c\n\nB", "=", "A='", "\ufeffA=1\r\nB = 2\r\n", "export=1", "\x1b=a\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		vars, errs := parseEnvFile("web.env", s)
		checkMistakes(t, map[string]string{"web.env": strings.TrimPrefix(s, "\ufeff")}, errs)
		for name, value := range vars {
			if name == "" || strings.ContainsAny(name, "= \x00") || strings.ContainsAny(value, "\n\x00") {
				t.Fatalf("%q = %q is no variable", name, value)
			}
		}
	})
}
