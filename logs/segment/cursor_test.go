package segment

import "testing"

func TestBadCursors(t *testing.T) {
	for _, text := range []string{"", "n", "r", "x1.2", "r1", "r1.2.3", "n1.2", "r-1.2", "r1.-2", "n1.2.3.4", "n1.!.3", "r99999999999999999999.0"} {
		if c, err := ParseCursor(text); err == nil {
			t.Errorf("ParseCursor(%q) = %v, want an error", text, c)
		}
	}
}
