package terminal

import (
	"fmt"
	"strings"
	"testing"

	"superd/tests/golden"
)

func statusTable() *Table {
	cells := func(texts ...string) []Cell {
		row := make([]Cell, len(texts))
		for i, s := range texts {
			row[i] = Cell{Text: s, Colour: Green}
		}
		return row
	}
	t := &Table{
		Columns: []Column{{Title: "NAME"}, {Title: "STATE"}, {Title: "SINCE", Right: true, Rank: 3}, {Title: "PID", Right: true, Rank: 2},
			{Title: "RESTARTS", Right: true, Rank: 4}, {Title: "CPU", Right: true, Rank: 6}, {Title: "MEMORY", Right: true, Rank: 5}, {Title: "LAST LINE", Rank: 1}},
	}
	for _, row := range [][]Cell{
		cells("cache", "running", "3h", "812", "0", "12.4s", "18.3M", "1:M 21 Nov 2026 07:20:45.123 * Ready to accept connections unix"),
		cells("web@1", "running", "12s", "204817", "3", "0.02s", "9.1M", "要求を受け付けました：すべて正常に動作しています、次の要求を待っています"),
		cells("worker-of-the-long-name", "backoff", "1s", "", "1412", "", "", "panic: oops"),
		cells("x", "failed", "2d", "", "0", "", "", ""),
	} {
		t.Add(row...)
	}
	return t
}

func TestTableFitsWidth(t *testing.T) {
	for _, width := range []int{0, 40, 80, 120, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			lines := statusTable().Lines(Output{Width: width})
			got := string(statusTable().Text(Output{Width: width}))
			if joined := strings.Join(lines, "\n") + "\n"; joined != got {
				t.Errorf("lines of the table are\n%s\nits text\n%s", joined, got)
			}
			golden.Check(t, fmt.Sprintf("table-%d.txt", width), got)
		})
	}
}

func TestTableIsNeverTooWide(t *testing.T) {
	for width := 10; width < 250; width++ {
		for _, line := range statusTable().Lines(Output{Width: width}) {
			if Width(line) > width {
				t.Errorf("width %d: line of %d columns: %q", width, Width(line), line)
			}
			if strings.HasSuffix(line, " ") {
				t.Errorf("width %d: line ends in a space: %q", width, line)
			}
		}
	}
}

func TestTableColoursTextOnly(t *testing.T) {
	coloured := statusTable().Lines(Output{Width: 80, Colour: true})
	for i, plain := range statusTable().Lines(Output{Width: 80}) {
		// A padded last cell is trimmed only if no colour follows it; compare what is visible.
		if got := strings.TrimRight(Sanitize(coloured[i]), " "); got != plain {
			t.Errorf("line %d with colours shows %q, want %q", i, got, plain)
		}
		if !strings.Contains(coloured[i], "\x1b[") {
			t.Errorf("line %d has no colour: %q", i, coloured[i])
		}
	}
}

func TestPaletteIsStable(t *testing.T) {
	p, q := NewPalette(), NewPalette()
	web := p.Colour("web")
	q.Colour("a-name-that-may-be-first")
	if got := p.Colour("web"); got != web {
		t.Errorf("second colour of web is %d, the first was %d", got, web)
	}
	if got := NewPalette().Colour("web"); got != web {
		t.Errorf("web has colour %d in another palette, want %d", got, web)
	}
	seen := map[Colour]bool{}
	all := NewPalette()
	for i := range len(nameColours()) {
		c := all.Colour(fmt.Sprint("program-", i))
		if c == Red || seen[c] {
			t.Errorf("program %d has colour %d, red or taken", i, c)
		}
		seen[c] = true
	}
	if c := all.Colour("one-too-many"); c == NoColour {
		t.Error("no colour once every colour is taken")
	}
}

func BenchmarkTable(b *testing.B) {
	table := statusTable()
	four := table.cells
	for range 249 {
		table.Add(four...)
	}
	for _, o := range []Output{{}, {Width: 120, Colour: true}} {
		b.Run(fmt.Sprintf("width=%d", o.Width), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Text(o)
			}
		})
	}
}
