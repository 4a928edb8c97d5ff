package pty

import "testing"

// TestFilter: carriage returns before line feeds are dropped, also over two reads; others stay.
func TestFilter(t *testing.T) {
	for _, tt := range []struct {
		reads []string
		want  string
	}{
		{[]string{"a\r\nb\r\n"}, "a\nb\n"},
		{[]string{"a\r", "\nb"}, "a\nb"},
		{[]string{"10%\r20%\r", "30%\r\n"}, "10%\r20%\r30%\n"},
		{[]string{"a\r\r\n"}, "a\r\n"},
		{[]string{"\n", "", "\r", "", "x"}, "\n\rx"},
	} {
		var f filter
		got := ""
		for _, read := range tt.reads {
			got += string(f.filter([]byte(read)))
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.reads, got, tt.want)
		}
	}
}
