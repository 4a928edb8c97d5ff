package terminal

import (
	"iter"
	"slices"
	"strings"
)

const (
	gap     = "  " // between columns
	minRest = 12   // least width of the last column when it is cut
	minName = 4    // least width of the first column when it is cut
)

// A Column is one column of a [Table].
type Column struct {
	Title string
	Right bool // aligned to the right, for numbers
	// If the width is short, columns of the highest rank are dropped first; 0: never dropped
	Rank int
	// Width to which it is cut before a column is dropped; 0: never cut, except the first and the
	// last
	Least int
}

// A Cell is one value of a [Table]. Its text is one line and has passed [Sanitize].
type Cell struct {
	Text   string
	Colour Colour
}

// A Table has rows of cells under titles. Its last column takes the remaining width.
type Table struct {
	Columns []Column

	cells []Cell // row by row
}

// Grow reserves space for that many rows.
func (t *Table) Grow(rows int) { t.cells = slices.Grow(t.cells, rows*len(t.Columns)) }

// Add adds a row, with a cell for each column.
func (t *Table) Add(row ...Cell) { t.cells = append(t.cells, row...) }

func (t *Table) rows() iter.Seq[[]Cell] { return slices.Chunk(t.cells, len(t.Columns)) }

// Lines returns the lines of [Table.Text] without line ends.
func (t *Table) Lines(o Output) []string {
	return strings.Split(strings.TrimSuffix(string(t.Text(o)), "\n"), "\n")
}

// Text returns the titles and rows, one line each, fitted to the width of o.
//
// It drops columns by rank until there is room for the last one and for about a third of the width
// for the first; then it cuts these two. No line is wider than o.Width, which must be a few columns
// at least.
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

// appendRow appends a line without its line end and trailing spaces.
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
			switch least := t.Columns[column].Least; {
			case column == 0:
				sum += min(natural[column], max(minRest, width/3))
			case column == last:
				sum += min(natural[column], minRest)
			case least > 0:
				sum += min(natural[column], least)
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
		t.fit(shown, widths, width)
	}
	return shown, widths
}

// fit shrinks the widths of the shown columns to a total of total columns: the last column, those
// that may be cut, the first, then any other.
func (t *Table) fit(shown, widths []int, total int) {
	sum := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	shrink := func(i, least int) {
		w := max(min(widths[i], least), widths[i]-max(sum-total, 0))
		sum -= widths[i] - w
		widths[i] = w
	}
	if end := len(shown) - 1; shown[end] == len(t.Columns)-1 {
		shrink(end, minRest)
	}
	for i, column := range shown {
		if least := t.Columns[column].Least; least > 0 {
			shrink(i, least)
		}
	}
	shrink(0, minName)
	for i := range slices.Backward(widths) {
		shrink(i, 1)
	}
}
