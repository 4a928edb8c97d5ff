package pidfd

import (
	"strings"
	"testing"
)

func TestParseStart(t *testing.T) {
	// Fields 3 to 21, then the start time, then some further fields.
	const rest = " S 1 4242 4242 0 -1 4194560 167 0 0 0 1 2 3 4 20 0 1 0 123456 2621440 230 18446744073709551615"
	tests := []struct {
		name string
		stat string
		want uint64
		fail string // part of the error, "" for none
	}{
		{"a plain name", "4242 (cat)" + rest, 123456, ""},
		{"a name with a space", "4242 (tmux: server)" + rest, 123456, ""},
		{"a name that looks like the end of a name", "4242 () R 1 ()" + rest, 123456, ""},
		{"a name that looks like a whole line", "4242 (x) R 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 (x)" + rest, 123456, ""},
		{"a name with line ends", "4242 (a\n4243 (b)\n)" + rest, 123456, ""},
		{"an empty name", "4242 ()" + rest, 123456, ""},
		{"the start time comes last", "1 (a)" + strings.SplitAfter(rest, "123456")[0], 123456, ""},
		{"the largest start time", "1 (a)" + strings.Replace(rest, "123456", "18446744073709551615", 1), 1<<64 - 1, ""},
		{"nothing", "", 0, "no command name"},
		{"no name", "4242 cat S 1", 0, "no command name"},
		{"cut off before the start time", "1 (a) S 1 4242 4242 0 -1 4194560 167 0 0 0 1 2 3 4 20 0 1 0", 0, "21 fields"},
		{"not a number", "1 (a)" + strings.Replace(rest, "123456", "-1", 1), 0, "invalid syntax"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStart([]byte(tt.stat))
			if got != tt.want || (err == nil) != (tt.fail == "") {
				t.Errorf("parseStart(%q) = %d, %v, want %d, error %q", tt.stat, got, err, tt.want, tt.fail)
			}
			if err != nil && !strings.Contains(err.Error(), tt.fail) {
				t.Errorf("parseStart(%q) failed with %q, want %q", tt.stat, err, tt.fail)
			}
		})
	}
}
