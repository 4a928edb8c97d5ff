package torture

import (
	"strings"
	"testing"
)

func TestLedger(t *testing.T) {
	tests := []struct {
		name, log string
		fault     string // "": none
		open      int    // runs without their end
	}{
		{"two whole runs", "a r1 1 x\na r1 2 x\na r1 end 2\na r2 1 x\na r2 end 1\n", "", 0},
		{"a run that is not over", "a r1 1 x\n", "", 1},
		{"a line is missing", "a r1 1 x\na r1 3 x\na r1 end 3\n", "line 3 of run r1 follows line 1", 0},
		{"a line is doubled", "a r1 1 x\na r1 1 x\na r1 end 1\n", "line 1 of run r1 follows line 1", 0},
		{"the first line is missing", "a r1 2 x\na r1 end 2\n", "line 2 of run r1 follows line 0", 0},
		{"the last lines are missing", "a r1 1 x\na r1 end 2\n", "ended at line 2, the last one in the log is 1", 0},
		{"a run that comes again", "a r1 1 x\na r1 end 1\na r1 2 x\n", "goes on after its end", 0},
		{"a run without its end", "a r1 1 x\na r2 1 x\na r2 end 1\n", "", 1},
		{"a torn line", "a r1 1 x\na r1a r1 2 x\n", "a r1a r1 2 x", 2},
		{"a line torn by the end of the run", "a r1 1 x\na r1 2a r2 1 x\na r2 end 1\n", "", 1},
		{"bytes of others", "a r1 1 x\nb r1 2 x\n", "b r1 2 x", 1},
		{"no end of a line", "a r1 1 x\na r1 2", "within a line", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 3, len(tt.log)} { // in reads of different sizes
				l := ledger{instance: "a", path: t.TempDir() + "/none"}
				for rest := tt.log; rest != ""; {
					n := min(size, len(rest))
					l.parse([]byte(rest[:n]))
					rest = rest[n:]
				}
				if err := l.readAll(); err != nil {
					t.Fatal(err)
				}
				got := strings.Join(l.faults, "; ")
				if (got == "") != (tt.fault == "") || !strings.Contains(got, tt.fault) || len(l.open) != tt.open {
					t.Errorf("by %d bytes: faults %q, %d open; want %q, %d", size, got, len(l.open), tt.fault, tt.open)
				}
			}
		})
	}
}
