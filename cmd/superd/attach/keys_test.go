package attach

import "testing"

// TestParseKeys: keys are characters and ctrl-X.
func TestParseKeys(t *testing.T) {
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "ctrl-A,d": "\x01d", "ctrl-]": "\x1d", "~,.": "~.",
		"": "", "ctrl-": "", "ctrl-1": "", "ctrl-p,": "", "escape": "", " ": "",
	} {
		got, err := parseKeys(text)
		if string(got) != want && err == nil || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestMatcher: all but the detach keys goes to the program, keys with which they begin late.
func TestMatcher(t *testing.T) {
	for _, tt := range []struct {
		keys   string
		typed  []string
		want   string
		detach bool
	}{
		{"pq", []string{"abc"}, "abc", false},
		{"pq", []string{"ap"}, "a", false},
		{"pq", []string{"ap", "b"}, "apb", false},
		{"pq", []string{"ap", "qx"}, "a", true},
		{"pq", []string{"ppq"}, "p", true},
		{"ppq", []string{"p", "p", "p", "q"}, "p", true},
		{"x", []string{"abx"}, "ab", true},
	} {
		m := &matcher{keys: []byte(tt.keys)}
		got, detach := "", false
		for _, typed := range tt.typed {
			var text []byte
			text, detach = m.pass([]byte(typed))
			got += string(text)
		}
		if got != tt.want || detach != tt.detach {
			t.Errorf("%s in %q: %q, %v, want %q, %v", tt.keys, tt.typed, got, detach, tt.want, tt.detach)
		}
	}
}
