package terminal

import (
	"iter"
	"slices"
	"strings"
)

const (
	gap     = "  " // between columns
	minRest = 12   // a last column that has to be cut is worth showing from this width on
	minName = 4    // the first column is never cut below this
)

// A Column is one column of a [Table].
type Column struct {
	Title string
	Right bool // numbers: aligned to the right
	Rank  int  // where the width is short, the column of the highest rank goes first; 0 never goes
}

// A Cell is one value of a [Table]; its text takes one line and has been through [Sanitize].
type Cell struct {
	Text   string
	Colour Colour
}

// A Table is rows of cells under titles. Its last column takes the width that the others leave.
type Table struct {
	Columns []Column

	cells []Cell // row by row
}

// Grow makes room for so many rows.
func (t *Table) Grow(rows int) { t.cells = slices.Grow(t.cells, rows*len(t.Columns)) }

// Add adds a row, a cell for each column.
func (t *Table) Add(row ...Cell) { t.cells = append(t.cells, row...) }

// rows returns the rows.
func (t *Table) rows() iter.Seq[[]Cell] { return slices.Chunk(t.cells, len(t.Columns)) }

// Lines returns the lines of [Table.Text] without their ends.
func (t *Table) Lines(o Output) []string {
	return strings.Split(strings.TrimSuffix(string(t.Text(o)), "\n"), "\n")
}

// Text returns the titles and the rows, a line each, fitted to the width of o.
//
// Columns are dropped by rank until there is room for the last one and for a third of the width or so of
// the first; then these two are cut. No line is wider than o.Width, which has to be a few columns at least.
func (t *Table) Text(o Output) []byte {
	shown, widths := t.layout(o.Width)
	lineBytes := 1
	for _, w := range widths {
		lineBytes += w + len(gap)
	}
	all := make([]byte, 0, lineBytes*(len(t.cells)/len(t.Columns)+1))
	titles := make([]Cell, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = Cell{c.Title, Bold}
	}
	all = append(t.appendRow(all, titles, shown, widths, o.Colour), '\n')
	for row := range t.rows() {
		all = append(t.appendRow(all, row, shown, widths, o.Colour), '\n')
	}
	return all
}

// appendRow appends a line without its end and without spaces there.
func (t *Table) appendRow(all []byte, row []Cell, shown, widths []int, colour bool) []byte {
	begin := len(all)
	for i, column := range shown {
		cell := row[column]
		text, width := cell.Text, Width(cell.Text)
		if width > widths[i] {
			text = Cut(text, widths[i])
			width = Width(text)
		}
		if i > 0 {
			all = append(all, gap...)
		}
		if t.Columns[column].Right {
			all = appendSpaces(all, widths[i]-width)
		}
		if colour {
			text = cell.Colour.Paint(text)
		}
		all = append(all, text...)
		if !t.Columns[column].Right && i < len(shown)-1 {
			all = appendSpaces(all, widths[i]-width)
		}
	}
	end := len(all)
	for end > begin && all[end-1] == ' ' {
		end--
	}
	return all[:end]
}

func appendSpaces(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
	}
	return b
}

// layout returns the columns to show and their widths.
func (t *Table) layout(width int) (shown, widths []int) {
	last := len(t.Columns) - 1
	natural := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		natural[i] = Width(c.Title)
		shown = append(shown, i)
	}
	for row := range t.rows() {
		for i := range row {
			natural[i] = max(natural[i], Width(row[i].Text))
		}
	}
	need := func() int {
		sum := len(gap) * (len(shown) - 1)
		for _, column := range shown {
			switch column {
			case 0:
				sum += min(natural[column], max(minRest, width/3))
			case last:
				sum += min(natural[column], minRest)
			default:
				sum += natural[column]
			}
		}
		return sum
	}
	if width > 0 {
		for need() > width {
			victim := slices.MaxFunc(shown, func(a, b int) int { return t.Columns[a].Rank - t.Columns[b].Rank })
			if t.Columns[victim].Rank == 0 {
				break
			}
			shown = slices.DeleteFunc(shown, func(c int) bool { return c == victim })
		}
	}
	for _, column := range shown {
		widths = append(widths, natural[column])
	}
	if width > 0 {
		fit(widths, width, shown[len(shown)-1] == last)
	}
	return shown, widths
}

// fit shrinks widths to total columns: the last one if it is elastic, then the first, then whatever is left.
func fit(widths []int, total int, elastic bool) {
	sum := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	shrink := func(i, least int) {
		w := max(min(widths[i], least), widths[i]-max(sum-total, 0))
		sum -= widths[i] - w
		widths[i] = w
	}
	if elastic {
		shrink(len(widths)-1, minRest)
	}
	shrink(0, minName)
	for i := range slices.Backward(widths) {
		shrink(i, 1)
	}
}
