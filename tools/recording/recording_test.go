package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

const pictures = "../../docs/images/"

// TestPictureIsOfTheRecording compares the picture in the documentation with its recording.
func TestPictureIsOfTheRecording(t *testing.T) {
	text, err := os.ReadFile(pictures + "tutorial.cast")
	if err != nil {
		t.Fatal(err)
	}
	picture := drawn(t, string(text))
	kept, err := os.ReadFile(pictures + "tutorial.svg")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(picture, kept) {
		t.Error("docs/images/tutorial.svg is not what is drawn of tutorial.cast: make recording")
	}
	if limit := 200_000; len(picture) > limit {
		t.Errorf("the picture has %d bytes, want at most %d", len(picture), limit)
	}
}

func drawn(t *testing.T, text string) []byte {
	t.Helper()
	c, err := readCast([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := play(c)
	if err != nil {
		t.Fatal(err)
	}
	var picture bytes.Buffer
	draw(&picture, c, s)
	for d := xml.NewDecoder(bytes.NewReader(picture.Bytes())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return picture.Bytes()
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v\n%s", err, picture.String())
		}
	}
}

const header = `{"version":2,"width":5,"height":2,"title":"a & b"}` + "\n"

func TestPlay(t *testing.T) {
	c, err := readCast([]byte(header +
		`[0, "o", "$ "]` + "\n" + `[0.1, "o", "l"]` + "\n" + `[0.2, "o", "s"]` + "\n" + `[0.2, "m", "here"]` + "\n" +
		`[0.3, "o", "\r\n"]` + "\n" + `[0.4, "o", "\u001b[31mab\u001b[0mcdef\r\n$ "]` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := play(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []span{
		{row: 0, column: 0, text: "$ "},
		{row: 0, column: 2, text: "ls", at: 0.1, typedUntil: 0.2},
		{row: 1, column: 0, text: "ab", style: "31", at: 0.4},
		{row: 1, column: 2, text: "cde", at: 0.4},
		{row: 2, column: 0, text: "f", at: 0.4}, // beyond the last column
		{row: 3, column: 0, text: "$ ", at: 0.4},
	}
	if !slices.Equal(s.spans, want) {
		t.Errorf("spans\n%v, want\n%v", s.spans, want)
	}
	if want := []scroll{{0, 0}, {0.4, 1}, {0.4, 2}}; !slices.Equal(s.scrolls, want) {
		t.Errorf("scrolls %v, want %v", s.scrolls, want)
	}
}

func TestDraw(t *testing.T) {
	picture := string(drawn(t, header+`[0, "o", "<a>\r\n"]`+"\n"+`[2, "o", "  \u001b[32mb"]`+"\n"+`[4, "o", "\r\n\r\n"]`+"\n"))
	for _, part := range []string{
		"<title>a &amp; b</title>", "&lt;a&gt;</text>", `fill="#8fce6a">b</text>`,
		// It comes after half of the time
		"@keyframes a2_000{0%{visibility:hidden}50%{visibility:visible}}",
		"100%{transform:translateY(-36px)}", // two rows are gone
	} {
		if !strings.Contains(picture, part) {
			t.Errorf("the picture lacks %s:\n%s", part, picture)
		}
	}
}

// TestRefused: what can't be drawn is an error, not another picture.
func TestRefused(t *testing.T) {
	for _, text := range []string{
		"", "{}\n", header, header + "[1, \"o\"\n", header + `[1,"o","a"]` + "\n" + `[0,"o","b"]` + "\n",
	} {
		if c, err := readCast([]byte(text)); err == nil {
			t.Errorf("readCast(%q) = %v, want an error", text, c)
		}
	}
	for _, text := range []string{"\x1b[2J", "\x1b[48;5;1m", "\x1b]0;title\a", "\a"} {
		if s, err := play(&cast{Width: 5, Height: 2, events: []event{{0, text}}}); err == nil {
			t.Errorf("play(%q) = %v, want an error", text, s)
		}
	}
}
