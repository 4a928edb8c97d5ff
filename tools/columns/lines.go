package main

import (
	"go/scanner"
	"go/token"
	"regexp"
	"strings"
	"unicode/utf8"
)

// inGo returns the lines beyond the limit that hold a comment, or a part of one.
func inGo(text []byte) []longLine {
	lines := strings.Split(string(text), "\n")
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	var long []longLine
	for {
		pos, tok, comment := s.Scan()
		if tok == token.EOF {
			return long
		}
		if tok != token.COMMENT {
			continue
		}
		first := file.Line(pos)
		for i := range strings.Split(comment, "\n") {
			line := lines[first+i-1]
			if n := columns(line); n > limit && !isDirective(comment) {
				long = append(long, longLine{first + i, n})
			}
		}
	}
}

// isDirective reports whether a comment speaks to a tool: nothing follows // directly in prose.
func isDirective(comment string) bool {
	rest, ok := strings.CutPrefix(comment, "//")
	return ok && rest != "" && rest[0] >= 'a' && rest[0] <= 'z'
}

// inMarkdown returns the lines of prose beyond the limit.
func inMarkdown(text []byte) []longLine {
	var long []longLine
	fence := ""
	for i, line := range strings.Split(string(text), "\n") {
		trimmed := strings.TrimLeft(line, " ")
		if mark := fenceOf(trimmed); mark != "" && (fence == "" || mark == fence) {
			if fence == "" {
				fence = mark
			} else {
				fence = ""
			}
			continue
		}
		if fence != "" || trimmed == "" || strings.ContainsRune("|#<", rune(trimmed[0])) {
			continue
		}
		if n := columns(line); n > limit {
			long = append(long, longLine{i + 1, n})
		}
	}
	return long
}

// fenceOf returns the mark that opens or closes a block of code, or nothing.
func fenceOf(line string) string {
	for _, mark := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, mark) {
			return mark
		}
	}
	return ""
}

// target matches what can't be wrapped: the target of a link, or an address.
var target = regexp.MustCompile(`\]\([^)]*\)|\S+://\S+`)

// columns returns the width of a line without the targets of its links.
func columns(line string) int {
	line = target.ReplaceAllString(line, "")
	return utf8.RuneCountInString(line) + strings.Count(line, "\t")*(tabWidth-1)
}
