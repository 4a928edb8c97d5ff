// Command recording draws a recording of a terminal, in asciinema's format asciicast, as an animated
// picture: SVG with CSS and without scripts, which plays where pages show pictures only. Who has
// asked for less motion sees the last screen.
//
//	go -C tools run ./recording ../docs/images/tutorial.cast ../docs/images/tutorial.svg
//
// It knows what a shell and superd write: lines from top to bottom, in colours. Anything else, such as
// a movement of the cursor, is an error.
package main

import (
	"bytes"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: recording FILE.cast FILE.svg")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(path, to string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	c, err := readCast(text)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	s, err := play(c)
	if err != nil {
		return fmt.Errorf("play %s: %w", path, err)
	}
	var picture bytes.Buffer
	draw(&picture, c, s)
	return os.WriteFile(to, picture.Bytes(), 0o644)
}
