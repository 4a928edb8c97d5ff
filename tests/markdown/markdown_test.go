package markdown

import (
	"slices"
	"testing"
)

func TestBlocks(t *testing.T) {
	page := "# A\n```\nfree\n```\n## B\n### C\n```toml title=\"superd.toml\"\n[a]\n```\n\n```sh\necho\n\nls\n```\n```\nopen"
	want := []Block{
		{Text: "free\n", Line: 2, Follows: -1},
		{Section: "B", Lang: "toml", Title: "superd.toml", Text: "[a]\n", Line: 7, Follows: 2},
		{Section: "B", Lang: "sh", Text: "echo\n\nls\n", Line: 11, Follows: 1},
	}
	if got := Blocks(page); !slices.Equal(got, want) {
		t.Errorf("Blocks(%q) = %+v, want %+v", page, got, want)
	}
}
