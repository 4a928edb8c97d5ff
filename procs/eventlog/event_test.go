package eventlog

import (
	"slices"
	"testing"
)

func TestLastLines(t *testing.T) {
	tests := []struct {
		name, text string
		cut        bool
		want       []string
	}{
		{"nothing", "", false, nil},
		{"only line ends", "\n\r\n", false, nil},
		{"a partial last line counts", "a\nb", false, []string{"a", "b"}},
		{"line ends go", "a\r\n\nb\r\n\n", false, []string{"a", "", "b"}},
		{"the last ones", "1\n2\n3\n4\n", false, []string{"2", "3", "4"}},
		{"a beginning within a line goes", "lf\nb\n", true, []string{"b"}},
		{"unless it is all there is", "lf\n", true, []string{"…lf"}},
		{"what is not UTF-8 is replaced", "a\xffb\n", false, []string{"a\ufffdb"}},
	}
	for _, tt := range tests {
		if got := LastLines(tt.text, tt.cut, 3); !slices.Equal(got, tt.want) {
			t.Errorf("%s: LastLines(%q, %v, 3) = %q, want %q",
				tt.name, tt.text, tt.cut, got, tt.want)
		}
	}
}
