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
	lineWith := func(name, state string, flags, threads, endCode int) string {
		return fmt.Sprintf("42 (%s) %s 7 40 39 0 -1 %d 1 2 3 4 150 25 7 8 39 -19 %d 0 12345 99 300 18446744073709551615 4000 %d"+
			strings.Repeat(" 1", 22)+" 9000 9000", name, state, flags, threads, endCode)
	}
	line := func(name, state string, threads int) string {
		return lineWith(name, state, 0x400100, threads, 8000)
	}
	stat := func(name string, state byte, dead bool) procStat {
		return procStat{pid: 42, parent: 7, group: 40, session: 39, start: 12345, command: name, state: state, dead: dead,
			cpu: 1750 * time.Millisecond, rss: 300 * int64(os.Getpagesize())}
	}
	bare := func(s procStat) procStat {
		s.bare = true
		return s
	}
	withVariables := func(s procStat) procStat {
		s.environ = 100
		return s
	}
	ofKernel := func(s procStat) procStat {
		s.kernel = true
		return s
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
		{"in the midst of an exec", lineWith("sh", "R", 0x400100, 1, 0), bare(stat("sh", 'R', false))},
		{"with variables", strings.Replace(line("sh", "S", 1), "9000 9000", "9000 9100", 1), withVariables(stat("sh", 'S', false))},
		{"a zombie has no environment", lineWith("sh", "Z", 0x400100, 1, 0), stat("sh", 'Z', true)},
		{"a thread of the kernel", lineWith("sh", "S", 0x208040, 1, 0), ofKernel(stat("sh", 'S', false))},
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
