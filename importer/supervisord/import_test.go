package supervisord

import (
	"fmt"
	"os"
	"testing"

	"superd/importer/draft"
)

func TestTry(t *testing.T) {
	path := os.Getenv("TRY")
	if path == "" {
		t.Skip()
	}
	doc, err := Import(draft.Machine(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	doc.SortNotes()
	fmt.Print(doc.TOML())
	for _, n := range doc.Notes {
		fmt.Println(n)
	}
}
