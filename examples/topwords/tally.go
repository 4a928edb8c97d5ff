package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"slices"
)

// topSize is the number of most frequent words that are kept.
const topSize = 10

// A tally counts words and always knows the most frequent ones.
type tally struct {
	words  int
	counts map[string]int
	top    []entry // most frequent first, at most topSize
}

// An entry is a word and its count.
type entry struct {
	Word  string
	Count int
}

func newTally() *tally { return &tally{counts: make(map[string]int)} }

func (t *tally) add(word []byte) {
	t.words++
	t.counts[string(word)]++
	e := entry{string(word), t.counts[string(word)]}
	i := slices.IndexFunc(t.top, func(o entry) bool { return o.Word == e.Word })
	switch {
	case i >= 0:
		t.top[i] = e
	case len(t.top) < topSize:
		t.top = append(t.top, e)
	case e.Count > t.top[topSize-1].Count:
		t.top[topSize-1] = e
	default:
		return
	}
	slices.SortStableFunc(t.top, func(a, b entry) int { return cmp.Compare(b.Count, a.Count) })
}

// words calls f with each word of a connection until its end.
func words(conn io.Reader, f func(word []byte)) error {
	lines := bufio.NewReaderSize(conn, 128)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		word, _, _ := bytes.Cut(line, []byte(" "))
		f(word)
	}
}
