package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A cast is a recording: asciicast, version 2.
type cast struct {
	Version, Width, Height int
	Title                  string
	events                 []event // of output
	end                    float64 // seconds
}

// An event is a piece of output at a time, in seconds from the begin.
type event struct {
	at   float64
	text string
}

func readCast(text []byte) (*cast, error) {
	header, rest, _ := strings.Cut(string(text), "\n")
	c := new(cast)
	if err := json.Unmarshal([]byte(header), c); err != nil {
		return nil, err
	}
	if c.Version != 2 || c.Width <= 0 || c.Height <= 0 {
		return nil, fmt.Errorf("version %d, %d columns, %d rows: want version 2", c.Version, c.Width, c.Height)
	}
	for line := range strings.Lines(rest) {
		var e event
		var kind string
		if err := json.Unmarshal([]byte(line), &[]any{&e.at, &kind, &e.text}); err != nil {
			return nil, err
		}
		if e.at < c.end {
			return nil, fmt.Errorf("%s: its time is before the last one", strings.TrimSpace(line))
		}
		c.end = e.at
		if kind == "o" {
			c.events = append(c.events, e)
		}
	}
	if len(c.events) == 0 {
		return nil, errors.New("no output")
	}
	return c, nil
}
