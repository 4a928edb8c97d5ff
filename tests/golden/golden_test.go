package golden

import "testing"

func TestDifference(t *testing.T) {
	tests := []struct {
		got, want string
		n         int
		is, was   string
	}{
		{"", "", 0, "", ""},
		{"a\nb\n", "a\nb\n", 0, "", ""},
		{"a\nc\n", "a\nb\n", 2, "c", "b"},
		{"a\n", "a\nb\n", 2, "", "b"},
		{"a\nb", "a\nb\n", 3, "(the end)", ""},
	}
	for _, tt := range tests {
		if n, is, was := difference(tt.got, tt.want); n != tt.n || is != tt.is || was != tt.was {
			t.Errorf("difference(%q, %q) = %d, %q, %q, want %d, %q, %q", tt.got, tt.want, n, is, was, tt.n, tt.is, tt.was)
		}
	}
}
