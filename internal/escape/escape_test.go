package escape

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestJSON(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain text stays", `{"a":"b"}`, `{"a":"b"}`},
		{"line ends between values stay", "[\n1,\t2]\n", "[\n1,\t2]\n"},
		{"other scripts, joiners and emoji stay", "\"日本 é 👩\u200d💻\"", "\"日本 é 👩\u200d💻\""},
		{"DEL", "\"a\x7fb\"", `"a\u007fb"`},
		{"C1 that begins a sequence", "\"\u009b2J\"", `"\u009b2J"`},
		{"C1 that begins a title", "\"\u009d0;x\u009c\"", `"\u009d0;x\u009c"`},
		{"direction turned around", "\"a\u202egnp.exe\"", `"a\u202egnp.exe"`},
		{"isolates", "\"\u2066x\u2069\"", `"\u2066x\u2069"`},
		{"line separators", "\"a\u2028b\u2029\"", `"a\u2028b\u2029"`},
		{"a byte order mark", "\"\ufeff\"", `"\ufeff"`},
		{"a tag beyond U+FFFF", "\"\U000e0041\"", `"\udb40\udc41"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(JSON([]byte(tt.text))); got != tt.want {
				t.Errorf("JSON(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestNeeded(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		want := r != nonJoiner && r != joiner && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
		if got := Needed(r); got != want {
			t.Errorf("Needed(%U) = %t, want %t", r, got, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add("a\x7f\u009b\u202e\U000e0041\xff")
	f.Fuzz(func(t *testing.T, s string) {
		text, err := Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		plain, _ := json.Marshal(s)
		var got, want string
		if json.Unmarshal(text, &got) != nil || json.Unmarshal(plain, &want) != nil || got != want {
			t.Errorf("Marshal(%q) = %s, which means %q, want %q", s, text, got, want)
		}
		if i := bytes.IndexFunc(text, Needed); i >= 0 || !utf8.Valid(text) {
			t.Errorf("Marshal(%q) = %q: not safe at byte %d", s, text, i)
		}
	})
}
