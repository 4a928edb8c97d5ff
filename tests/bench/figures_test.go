package bench

import (
	"fmt"

	"superd/tests/table"
)

// Figures are what was measured, in its order.
type figures struct {
	rows [][]string
}

func (f *figures) add(what, format string, args ...any) {
	f.rows = append(f.rows, []string{what, fmt.Sprintf(format, args...)})
}

// String is a table with a line on where it was measured.
func (f *figures) String() string {
	return fmt.Sprintf("Measured by `make bench`: %s.\n\n%s", table.Machine(), table.Markdown([]string{"what", "figure"}, f.rows))
}
