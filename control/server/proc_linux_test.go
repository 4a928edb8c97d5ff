package server

import (
	"errors"
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	page := int64(os.Getpagesize())
	const tail = " S 1 10 10 0 -1 4194560 100 0 0 0 150 25 0 0 20 0 1 0 987654 1000000 300 18446744073709551615 1 1"
	tests := []struct {
		name, line string
		want       usage
		fails      bool
	}{
		{"plain", "10 (web)" + tail, usage{987654, 1750 * time.Millisecond, 300 * page}, false},
		{"a name that imitates the line", "10 (a) R 9 (b) " + tail, usage{987654, 1750 * time.Millisecond, 300 * page}, false},
		{"negative nice", "10 (x) S 1 10 10 0 -1 4194560 100 0 0 0 1 1 0 0 39 -19 1 0 5 1 2 0\n", usage{5, 20 * time.Millisecond, 2 * page}, false},
		{"empty", "", usage{}, true},
		{"cut off", "10 (web) S 1 10", usage{}, true},
		{"not a number", "10 (x) S 1 10 10 0 -1 4194560 100 0 0 0 a 1 0 0 20 0 1 0 5 1 2 0", usage{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseStat([]byte(tt.line))
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("parseStat(%q) = %+v, %v, want %+v", tt.line, got, err, tt.want)
			}
		})
	}
}

func TestReadUsageOfNobody(t *testing.T) {
	if _, err := readUsage(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("readUsage: %v, want %v", err, os.ErrNotExist)
	}
}

func BenchmarkReadUsage(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readUsage(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}
