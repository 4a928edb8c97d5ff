package logs

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestLastLine(t *testing.T) {
	long := strings.Repeat("x", 3000)
	tests := []struct {
		name   string
		chunks []string
		want   string
		ended  string // after end
	}{
		{"nothing", nil, "", ""},
		{"a line", []string{"one\n"}, "one", "one"},
		{"the last of a chunk", []string{"one\ntwo\nthree\n"}, "three", "three"},
		{"not the partial one", []string{"one\ntw"}, "one", "tw"},
		{"put together", []string{"o", "n", "e\nt", "wo", "\nthr"}, "two", "thr"},
		{"an empty line", []string{"one\n", "\n"}, "", ""},
		{"carriage return and NUL stay", []string{"a\x00b\r\n"}, "a\x00b\r", "a\x00b\r"},
		{"a long line's beginning", []string{"y" + long + "\nz"}, "y" + long[:1023], "z"},
		{"a long line in pieces", []string{"y" + long, long, "\n"}, "y" + long[:1023], "y" + long[:1023]},
		{"partial at last", []string{"only"}, "", "only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l lastLine
			for _, chunk := range tt.chunks {
				l.feed([]byte(chunk))
			}
			if got := string(l.complete); got != tt.want {
				t.Errorf("feed(%.40q): complete = %.40q, want %.40q", tt.chunks, got, tt.want)
			}
			l.end()
			if got := string(l.complete); got != tt.ended {
				t.Errorf("feed(%.40q), end(): complete = %.40q, want %.40q", tt.chunks, got, tt.ended)
			}
		})
	}
}

func TestLastLineOfAnyChunking(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		text := make([]byte, rng.IntN(5000))
		for i := range text {
			text[i] = "ab\n"[min(rng.IntN(400), 2)%3]
			if rng.IntN(300) > 0 && text[i] == '\n' {
				text[i] = 'c'
			}
		}
		var whole, pieces lastLine
		whole.feed(text)
		for rest := text; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			pieces.feed(rest[:n])
			rest = rest[n:]
		}
		if got, want := string(pieces.complete), string(whole.complete); got != want {
			t.Fatalf("in pieces the last line of %q is %q, want %q", text, got, want)
		}
		if got, want := string(pieces.partial), string(whole.partial); got != want {
			t.Fatalf("in pieces the partial line of %q is %q, want %q", text, got, want)
		}
	}
}

func TestTailOfOutput(t *testing.T) {
	long := strings.Repeat("0123456789", 200)
	tests := []struct {
		name   string
		chunks []string
		want   string
	}{
		{"nothing", nil, ""},
		{"all of a little", []string{"one\ntw", "o\n"}, "one\ntwo\n"},
		{"the end of a long chunk", []string{"before", long}, long[len(long)-tailBytes:]},
		{"the end of long pieces", []string{long[:1000], long[1000:1020], long[1020:]}, long[len(long)-tailBytes:]},
		{"exactly full", []string{long[:tailBytes]}, long[:tailBytes]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var tail tail
			for _, chunk := range tt.chunks {
				tail.feed([]byte(chunk))
			}
			if got := string(tail.bytes); got != tt.want {
				t.Errorf("feed(%.40q): %.40q of %d bytes, want %.40q of %d", tt.chunks, got, len(got), tt.want, len(tt.want))
			}
			if all := strings.Join(tt.chunks, ""); tail.cut != (all != tt.want) {
				t.Errorf("feed(%.40q): cut is %v", tt.chunks, tail.cut)
			}
		})
	}
}
