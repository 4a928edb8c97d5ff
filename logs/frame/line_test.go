package frame

import (
	"bytes"
	"testing"
)

func TestNewestLine(t *testing.T) {
	tests := []struct {
		name, text string
		ended      int // -1: no run has ended
		want       string
		start      int
	}{
		{"nothing", "", -1, "", -1},
		{"nothing, and a run has ended", "", 0, "", -1},
		{"a line", "one\n", -1, "one", 0},
		{"the last one", "one\ntwo\nthree\n", -1, "three", 8},
		{"not the partial one", "one\ntw", -1, "one", 0},
		{"only a partial one", "tw", -1, "", -1},
		{"an empty line", "one\n\n", -1, "", 4},
		{"carriage return and NUL stay", "a\x00b\r\n", -1, "a\x00b\r", 0},
		{"the partial one of a run that has ended", "one\ntw", 6, "tw", 4},
		{"all that a run has left", "tw", 2, "tw", 0},
		{"a run that ended with a line", "one\ntwo\n", 8, "two", 4},
		{"a run that ended with an empty line", "one\n\n", 5, "", 4},
		{"the next run begins a line of its own", "one\ntwothree\n", 7, "three", 7},
		{"the next run has no complete line yet", "one\ntwoth", 7, "two", 4},
		{"a run that ended before this text", "one\ntwo\n", 0, "two", 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if line, start := NewestLine([]byte(tt.text), tt.ended); string(line) != tt.want || start != tt.start {
				t.Errorf("newestLine(%q, %d) = %q at %d, want %q at %d", tt.text, tt.ended, line, start, tt.want, tt.start)
			}
		})
	}
}

// FuzzNewestLine compares the result with that of a forward reading, line by line.
func FuzzNewestLine(f *testing.F) {
	f.Add([]byte("one\ntwo\nthr"), 7)
	f.Add([]byte("\n\n"), -1)
	f.Fuzz(func(t *testing.T, text []byte, ended int) {
		if ended < -1 || ended > len(text) {
			t.Skip()
		}
		var want []byte
		start, begin := -1, 0
		for i := 0; i <= len(text); i++ {
			if i == ended && begin < i {
				want, start, begin = text[begin:i], begin, i
			}
			if i < len(text) && text[i] == '\n' {
				want, start, begin = text[begin:i], begin, i+1
			}
		}
		if line, at := NewestLine(text, ended); !bytes.Equal(line, want) || at != start {
			t.Fatalf("newestLine(%q, %d) = %q at %d, want %q at %d", text, ended, line, at, want, start)
		}
	})
}
