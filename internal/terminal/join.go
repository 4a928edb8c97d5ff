package terminal

// A Part is a table with a name, for [Join].
type Part struct {
	Name  string
	Table *Table // nil: none
	Note  Cell   // a row of its own, such as why there is no table; empty: none
}

// Join returns one table of all parts, which have the same columns. Its first column has that title
// and the names of the parts. A note is in the last column.
func Join(title string, parts []Part) *Table {
	all := &Table{Columns: []Column{{Title: title}}}
	for _, p := range parts {
		if p.Table != nil {
			all.Columns = append(all.Columns, p.Table.Columns...)
			break
		}
	}
	for _, p := range parts {
		name := Cell{Text: p.Name}
		if p.Table != nil {
			for row := range p.Table.rows() {
				all.Add(append([]Cell{name}, row...)...)
			}
		}
		if p.Note.Text != "" {
			row := make([]Cell, len(all.Columns))
			row[0], row[len(row)-1] = name, p.Note
			all.Add(row...)
		}
	}
	return all
}
