package terminal

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestSanitize(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"plain text stays", "listening on :8080", "listening on :8080"},
		{"the end of the line goes", "a\n", "a"},
		{"a DOS end of line goes", "a\r\n", "a"},
		{"a carriage return within is shown", "10%\r20%", `10%\x0d20%`},
		{"clear screen is shown", "\x1b[2J\x1b[H", `\x1b[2J\x1b[H`},
		{"a window title is shown", "\x1b]0;owned\a", `\x1b]0;owned\x07`},
		{"colours go", "\x1b[1;31mred\x1b[0m", "red"},
		{"a colour with separators goes", "\x1b[38:2:1:2:3mx\x1b[m", "x"},
		{"an unfinished colour is shown", "\x1b[31", `\x1b[31`},
		{"an escape within a colour is shown", "\x1b[3\x1b[2J", `\x1b[3\x1b[2J`},
		{"NUL and DEL are shown", "a\x00b\x7f", `a\x00b\x7f`},
		{"a C1 control is shown", "\u009b2J", `\u009b2J`},
		{"an eight-bit control is shown", "\x9b2J", `\x9b2J`},
		{"bytes that are not UTF-8 are shown", "caf\xe9 \xff", `caf\xe9 \xff`},
		{"half a rune at the end is shown", "x\xe2\x82", `x\xe2\x82`},
		{"a replacement character stays", "\ufffd", "\ufffd"},
		{"bidi override is shown", "a\u202egnp.exe", `a\u202egnp.exe`},
		{"bidi isolate is shown", "\u2066x\u2069", `\u2066x\u2069`},
		{"line separators are shown", "a\u2028b\u2029c", `a\u2028b\u2029c`},
		{"an invisible tag is shown", "\U000e0041", `\U000e0041`},
		{"joiners stay", "👩\u200d💻", "👩\u200d💻"},
		{"other scripts stay", "日本語 здравствуй", "日本語 здравствуй"},
		{"a tab goes to the next stop", "ab\tc", "ab      c"},
		{"a tab at a stop goes a whole stop", "12345678\tc", "12345678        c"},
		{"a tab counts wide characters", "日本\tc", "日本    c"},
		{"a tab counts what is shown", "\x00\tc", `\x00    c`},
		{"a tab ignores colours", "\x1b[31ma\tb", "a       b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Sanitize(tt.line); got != tt.want {
				t.Errorf("Sanitize(%q) = %q, want %q", tt.line, got, tt.want)
			}
		})
	}
}

func TestSanitizeColoured(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"plain text stays", "up\n", "up"},
		{"a colour stays, and ends with the line", "\x1b[31mred", "\x1b[31mred\x1b[0m"},
		{"others are shown", "\x1b[2J\x1b[1mx", "\\x1b[2J\x1b[1mx\x1b[0m"},
		{"a tab ignores colours", "\x1b[31ma\tb", "\x1b[31ma       b\x1b[0m"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := SanitizeColoured(tt.line); got != tt.want {
				t.Errorf("SanitizeColoured(%q) = %q, want %q", tt.line, got, tt.want)
			}
		})
	}
}

func FuzzSanitize(f *testing.F) {
	for _, seed := range []string{"", "a\tb\n", "\x1b[31mx", "\x1b\x1b[1m[2J", "\x9b\xc2\x9b", "\u202e\u200d", "\x1b[\x1b[m2J"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		got := Sanitize(line)
		if !utf8.ValidString(got) {
			t.Errorf("Sanitize(%q) = %q: not UTF-8", line, got)
		}
		for _, r := range got {
			if unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
				t.Errorf("Sanitize(%q) = %q: holds %U", line, got, r)
			}
		}
		if again := Sanitize(got); again != got {
			t.Errorf("Sanitize(%q) = %q, again: %q", line, got, again)
		}
		if cut := Cut(got, 10); Width(cut) > 10 {
			t.Errorf("Cut(%q, 10) = %q: %d columns wide", got, cut, Width(cut))
		}
	})
}

func TestCut(t *testing.T) {
	tests := []struct {
		s     string
		width int
		want  string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "ab…"},
		{"abcd", 1, "…"},
		{"abcd", 0, ""},
		{"日本語", 6, "日本語"},
		{"日本語", 5, "日本…"},
		{"日本語", 4, "日…"},
		{"👩\u200d💻 at work", 5, "👩\u200d💻 a…"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
	}
	for _, tt := range tests {
		if got := Cut(tt.s, tt.width); got != tt.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tt.s, tt.width, got, tt.want)
		}
	}
}

func BenchmarkSanitizePlain(b *testing.B) {
	line := strings.Repeat("GET /index.html 200 ", 5)
	b.ReportAllocs()
	for b.Loop() {
		Sanitize(line)
	}
}
