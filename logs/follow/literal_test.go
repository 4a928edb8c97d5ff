package follow

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestLiteralsOfExpressions(t *testing.T) {
	tests := []struct {
		expression string
		want       string // separated by blanks, a blank in them as ^; + if JSON escapes them
	}{
		{"error", "error"},
		{"^GET /x", "GET^/x"},
		{"error|warn", "error warn"},
		{"(a|b)+ failed", "^failed"},
		{"errors?", "error"},
		{"(?:ab){2,}", "ab"},
		{"x.*longer.*y", "longer"},
		{"(?i)error", "error"},
		{"(?i)Request Failed", "t^failed"},
		{"(?i)ss|k", ""},
		{"(?i:warn)|ERROR", "warn error"},
		{"error|.", ""},
		{"[0-9]+", ""},
		{"a*", ""},
		{"", ""},
		{"\ufffd", ""},
		{"aa|bb|cc|dd|ee|ff|gg|hh|ii", ""},
		{`say "hi"`, `say^"hi"+`},
	}
	for _, tt := range tests {
		got := ""
		if s := newLiteralSearch(regexp.MustCompile(tt.expression)); s != nil {
			got = strings.ReplaceAll(string(bytes.Join(s.literals, []byte{0})), " ", "^")
			got = strings.ReplaceAll(got, "\x00", " ")
			if s.escaped {
				got += "+"
			}
		}
		if got != tt.want {
			t.Errorf("literals of %q: %q, want %q", tt.expression, got, tt.want)
		}
	}
}

// TestLiteralSearchFindsAll: each place where one of the literals is is found once, in order.
func TestLiteralSearchFindsAll(t *testing.T) {
	s := newLiteralSearch(regexp.MustCompile("ab|c"))
	for _, text := range []string{"abxcxxab", "c", "", "xx"} {
		var got []int
		s.reset()
		for at := s.find([]byte(text), 0); at < len(text); at = s.find([]byte(text), at+1) {
			got = append(got, at)
		}
		var want []int
		for i := range text {
			if strings.HasPrefix(text[i:], "ab") || text[i] == 'c' {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("literals in %q at %v, want %v", text, got, want)
		}
	}
}
