// Package markdown reads the fenced blocks of the project's pages.
package markdown

import "strings"

// A Block is a fenced block of a page.
type Block struct {
	Section string // the heading of second level above it
	Lang    string // the word after the fence; "" if there is none
	Title   string // as in ```toml title="superd.toml"
	Text    string
	Line    int // of the fence, counted from 1
	Follows int // number of lines between it and the block before; -1 for the first
}

// Blocks returns the fenced blocks of a page that begin in the first column, in order.
func Blocks(page string) (blocks []Block) {
	section, last, number := "", -1, 0
	var open *Block
	for line := range strings.Lines(page) {
		number++
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			lang, rest, _ := strings.Cut(strings.TrimSpace(fence), " ")
			_, title, _ := strings.Cut(rest, `title="`)
			title, _, _ = strings.Cut(title, `"`)
			open = &Block{Section: section, Lang: lang, Title: title, Line: number, Follows: -1}
			if last >= 0 {
				open.Follows = number - last - 1
			}
		case isFence:
			blocks = append(blocks, *open)
			open, last = nil, number
		case open != nil:
			open.Text += line
		case strings.HasPrefix(line, "## "):
			section = strings.TrimSpace(line[3:])
		}
	}
	return blocks
}
