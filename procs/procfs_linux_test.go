package procs

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	line := func(name, state string, threads int) string {
		return fmt.Sprintf("42 (%s) %s 7 40 39 0 -1 4194560 1 2 3 4 150 25 7 8 39 -19 %d 0 12345 99 300 18446744073709551615 1", name, state, threads)
	}
	stat := func(name string, state byte, dead bool) procStat {
		return procStat{pid: 42, parent: 7, group: 40, session: 39, start: 12345, command: name, state: state, dead: dead,
			cpu: 1750 * time.Millisecond, rss: 300 * int64(os.Getpagesize())}
	}
	tests := []struct {
		name, line string
		want       procStat
	}{
		{"plain", line("sh", "S", 1), stat("sh", 'S', false)},
		{"a name of parentheses and spaces", line(") Z 1 (", "S", 1), stat(") Z 1 (", 'S', false)},
		{"a zombie", line("sh", "Z", 1), stat("sh", 'Z', true)},
		{"its first thread has ended", line("sh", "Z", 2), stat("sh", 'Z', false)},
		{"it waits in the kernel", line("sh", "D", 1), stat("sh", 'D', false)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := parseStat([]byte(tt.line)); got != tt.want || err != nil {
				t.Errorf("parseStat(%q) = %+v, %v, want %+v", tt.line, got, err, tt.want)
			}
		})
	}
	for _, bad := range []string{"", "42", "42 sh S 1", "42 (sh) S 1 2", strings.Replace(line("sh", "S", 1), "12345", "x", 1), strings.Replace(line("sh", "S", 1), "150", "x", 1), "x" + line("sh", "S", 1)} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) = %+v, want an error", bad, got)
		}
	}
}

func TestReadProcess(t *testing.T) {
	if p, err := ReadProcess(os.Getpid()); err != nil || p.Parent != os.Getppid() || p.RSS == 0 || p.Start == 0 || p.Command == "" {
		t.Errorf("ReadProcess of this one: %+v, %v", p, err)
	}
	if _, err := ReadProcess(1 << 30); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadProcess of nobody: %v, want %v", err, os.ErrNotExist)
	}
}

func BenchmarkReadProcess(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadProcess(os.Getpid()); err != nil {
			b.Fatal(err)
		}
	}
}
