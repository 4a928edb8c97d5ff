package main

import (
	"strings"
	"testing"
)

func TestLines(t *testing.T) {
	words := strings.Repeat("word ", 20) // 100 columns with the space at the end
	short, long := words[:99], words+"x"
	tests := []struct {
		name, text string
		check      func([]byte) []longLine
		want       int // number of the long line; 0: none
	}{
		{"a comment that ends at column 100", "package p\n// " + short[:97], inGo, 0},
		{"a comment that is longer", "package p\n// " + short[:98], inGo, 2},
		{"a comment behind code", "package p\nvar a = 1 // " + short, inGo, 2},
		{"a tab", "package p\n\t// " + short[:94], inGo, 2},
		{"the second line of a comment", "package p\n/* x\n" + long + " */", inGo, 3},
		{"code", "package p\nvar a = `" + long + "`", inGo, 0},
		{"a string with slashes", "package p\nvar a = \"// " + long + "\"", inGo, 0},
		{"a directive", "//go:generate " + long + "\npackage p", inGo, 0},
		{"an address", "package p\n// https://example.org/" + strings.Repeat("x", 100), inGo, 0},
		{"letters of two bytes", "package p\n// " + strings.Repeat("ü", 97), inGo, 0},
		{"prose", "a\n" + long, inMarkdown, 2},
		{"prose that ends at column 100", words[:99] + "x", inMarkdown, 0},
		{"an item of a list", "- " + short, inMarkdown, 1},
		{"a table", "| " + long, inMarkdown, 0},
		{"a heading", "# " + long, inMarkdown, 0},
		{"a link", "[a](" + words + ") " + short[:90], inMarkdown, 0},
		{"too much beside a link", "[a](b) " + long, inMarkdown, 1},
		{"a block of code", "```\n~~~\n" + long + "\n```", inMarkdown, 0},
		{"after a block of code", "```\nx\n```\n" + long, inMarkdown, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.check([]byte(tt.text))
			if (tt.want == 0) != (len(got) == 0) || tt.want != 0 && got[0].number != tt.want {
				t.Errorf("too long: %v, want line %d", got, tt.want)
			}
		})
	}
}
