package document

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// seedTOML adds the files of config's golden cases, and odd ones, to the corpus.
func seedTOML(f *testing.F) {
	paths, err := filepath.Glob("../testdata/*.txt")
	if err != nil || len(paths) == 0 {
		f.Fatal("no golden cases: ", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for text := range strings.SplitSeq(string(data), "\n=== ") {
			_, text, _ = strings.Cut(text, "\n")
			text, _, _ = strings.Cut(text, "---\n")
			f.Add([]byte(text))
		}
	}
	for _, text := range []string{
		"", "\xff\xfe", "\x00",
		"a", "=", "[", "[[", "[a", "a=[", "a={", "a='", `a="\`, `a="""\`, "a='''", "\"\\\n\"=1",
		"a.b.c=1\na.b.d=2\n[a.e]\nf=1\n[[g]]\nh=1\n[g.i]\nj=1\n[[g]]\nh=2\n[[g.k]]\nl=1\n",
		"a = { b = { c = 1, d.e = [ { f = 1 }, { f = 2 } ] }, # x\n }\n",
		"\"a.b\" = 1\n'c d'.\"\\u00e9\" = 2\n\"\" = 3\n",
		"a = \"\"\"\"\"x\"\"\"\"\"\nb = '''''y'''''\nc = \"\"\"x\\\"\"\"\" # \"\"\"\nd = 1\n",
		"a = 1979-05-27 07:32:00\nb = 07:32:00 # c\nd = [1979-05-27 07:32:00,+inf,]\n",
	} {
		f.Add([]byte(text))
	}
}

// FuzzLocate checks the locator against the decoder: all keys that the decoder reports are located,
// and the text there is the key.
func FuzzLocate(f *testing.F) {
	seedTOML(f)
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
			nodes := located[Dotted(key)]
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
	for name, entry := range n.entries {
		key := append(slices.Clone(path), name)
		located[Dotted(key)] = append(located[Dotted(key)], entry)
		collectNodes(entry, key, located)
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
		"", " ", "a b", "a 'b c' \"d e\"",
		`a\ b \" \\ \'`, "a ${X:-b c}'${Y}' \"${Z}\" $$ $X '$' \\$", "a\\\nb", `"\a\$"`, "$X $X'' ",
		"''", `a""b`, "a | b > c",
		"'", `"`, `\`, "${", "# x", "a#b", "~", "$'{X}'", `$"{X}"`, "a\x00b", "é \xff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, _, err := SplitCommand(s)
		if err != nil {
			return
		}
		var quoted []string
		for _, arg := range args {
			if plain, unset, err := Expand(arg, func(string) (string, bool) { return "v'\"$ x", true }); err == nil && len(unset) == 0 {
				quoted = append(quoted, "'"+strings.ReplaceAll(plain, "'", `'\''`)+"'")
			}
		}
		resplit, unquoted, err := SplitCommand(strings.Join(quoted, " "))
		if err != nil || unquoted != "" || len(resplit) != len(quoted) {
			t.Fatalf("SplitCommand(%q) = %q, %q, %v", quoted, resplit, unquoted, err)
		}
		for i, arg := range resplit {
			literal, _, err := Expand(arg, func(name string) (string, bool) {
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
	for _, s := range []string{"", "$", "$$", "${X}", "${X:-d}", "${X:-$$}",
		"${X:-${Y}}", "${8+X}", "${8+2*X}", "${8+EMPTY}", "${+X}", "a${X}b$$${Y:-}c$Z", "${", "${}", "${1}", "${X-d}", "$$${X", "}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		vars := map[string]string{"X": "1", "EMPTY": ""}
		lookup := func(name string) (string, bool) { value, ok := vars[name]; return value, ok }
		expanded, unset, err := Expand(s, lookup)
		if len(expanded) > maxExpanded {
			t.Fatalf("expand gives %d bytes", len(expanded))
		}
		if err == nil && !strings.Contains(s, "$") && expanded != s {
			t.Fatalf("Expand(%q) = %q", s, expanded)
		}
		if err == nil {
			_, needed := References(s)
			for _, name := range unset {
				if !slices.Contains(needed, name) {
					t.Fatalf("%s is unset and no reference of %q", name, s)
				}
			}
		}
		if back, _, err := Expand(EscapeDollars(s), lookup); err == nil && back != s {
			t.Fatalf("Expand(EscapeDollars(%q)) = %q", s, back)
		}
	})
}

func FuzzEnvFile(f *testing.F) {
	for _, s := range []string{"A=1", "export A='x y' # c",
		"A=\"\\\"\\n\"", "# c\n\nB", "=", "A='", "\ufeffA=1\r\nB = 2\r\n", "export=1", "\x1b=a\x00",
		"A=a\\\n b\\ \n;c\nB='x\n'\"y\\\r\n\"z # c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		vars, errs := parseEnvFile("web.env", s)
		lines := strings.Split(strings.TrimPrefix(s, byteOrderMark), "\n")
		for _, e := range errs {
			if strings.ContainsAny(e.Error(), "\n\x00\x1b") {
				t.Fatalf("mistake is not one line: %q", e.Error())
			}
			if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > len(lines[e.Line-1])+1 {
				t.Fatalf("%v: there is no such place", e)
			}
		}
		for name, value := range vars {
			if name == "" || strings.ContainsAny(name, "= \x00") || strings.ContainsAny(value, "\x00") {
				t.Fatalf("%q = %q is no variable", name, value)
			}
		}
	})
}
