package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"superd/tests/golden"
	"superd/tests/harness"
	"superd/tests/markdown"
)

const (
	tutorial  = "../../docs/tutorial.md"
	recording = "../../docs/images/tutorial.cast"

	columns, rows = 100, 28
	prompt        = "$ "
)

// A scene is a block of commands of the tutorial, with what the page says that they print.
type scene struct {
	section  string
	commands []string
	prints   string // "" if the page does not say
	first    bool   // it is of the first terminal: the recording has a comment instead
}

// scenes returns what is typed in the recording: what the tutorial has for the second terminal, and
// what shows the configuration.
func scenes(t *testing.T) []scene {
	t.Helper()
	page, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	var all []scene
	for _, b := range markdown.Blocks(string(page)) {
		switch {
		case strings.HasPrefix(b.Text, "apt-get"):
		case b.Title == "superd.toml":
			all = append(all, scene{section: b.Section, commands: []string{"cat superd.toml"}, prints: b.Text})
		case b.Title == firstTerminal:
			comment := "# in another terminal: " + strings.TrimSpace(b.Text)
			all = append(all, scene{section: b.Section, commands: []string{comment}, first: true})
		case b.Lang == "sh":
			all = append(all, scene{section: b.Section, commands: strings.Split(strings.TrimSpace(b.Text), "\n")})
		case b.Lang == "" && b.Follows == 0 && len(all) > 0:
			all[len(all)-1].prints = b.Text
		}
	}
	return all
}

// TestRecordingIsOfTheTutorial compares the recording with the tutorial: the commands are the same,
// and they print what the page shows.
func TestRecordingIsOfTheTutorial(t *testing.T) {
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for line := range strings.Lines(string(text)) {
		var e castEvent
		switch err := json.Unmarshal([]byte(line), &e); {
		case len(blocks) == 0 && strings.HasPrefix(line, "{"): // the header
		case err != nil:
			t.Fatalf("%s: %v", line, err)
		case e.kind == "m":
			blocks = append(blocks, "")
		default:
			blocks[len(blocks)-1] += e.text
		}
	}
	const remedy = "make test-docs UPDATE=1 records it anew"
	all := scenes(t)
	if len(blocks) != len(all) {
		t.Fatalf("the recording has %d blocks of commands, the tutorial %d: %s", len(blocks), len(all), remedy)
	}
	for i, s := range all {
		var commands []string
		printed := ""
		for line := range strings.Lines(plain(blocks[i])) {
			if command, ok := strings.CutPrefix(line, prompt); ok {
				commands = append(commands, strings.TrimSpace(command))
			} else {
				printed += line
			}
		}
		if !slices.Equal(commands, s.commands) {
			t.Errorf("%s: the recording has the commands %q, the tutorial %q: %s", s.section, commands, s.commands, remedy)
		}
		if wrong := differs(s.prints, printed); s.prints != "" && wrong != "" {
			t.Errorf("%s: %s: %s", s.section, wrong, remedy)
		}
	}
}

var sgr = regexp.MustCompile("\x1b\\[[0-9;]*m")

// plain returns what stands on a screen after a text was written to it.
func plain(text string) string {
	return strings.ReplaceAll(sgr.ReplaceAllString(text, ""), "\r", "")
}

// TestRecording follows the tutorial in a terminal. With -update it writes the recording, of which
// tools/recording draws the picture.
func TestRecording(t *testing.T) {
	if !*enabled {
		t.Skip("make test-docs runs this")
	}
	r := newReader(t)
	page, err := os.ReadFile(tutorial)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range markdown.Blocks(string(page)) {
		if b.Title != "" && b.Title != firstTerminal {
			r.write(b.Title, b.Text)
		}
	}
	p := newPlayer(t, r)
	for _, s := range scenes(t) {
		p.cast.add("m", s.section)
		printed := ""
		for _, command := range s.commands {
			printed += p.play(command)
		}
		if s.first {
			if err := r.background("superd run"); err != nil {
				t.Fatal(err)
			}
		}
		if wrong := differs(s.prints, plain(printed)); s.prints != "" && wrong != "" {
			t.Fatalf("%s: %s\nprinted:\n%s", s.section, wrong, printed)
		}
	}
	p.cast.now += 4 * time.Second
	p.cast.add("o", "\r\n")
	if golden.Update() {
		if err := os.WriteFile(recording, p.cast.lines.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// A player types commands into a shell in a terminal, and records it.
type player struct {
	t    *testing.T
	term *harness.Terminal
	cast *cast
	seen int // how much of the screen is recorded
}

func newPlayer(t *testing.T, r *reader) *player {
	p := &player{t: t, term: harness.NewTerminal(t, columns, rows), cast: newCast(t)}
	shell := r.command("bash", "--norc", "--noediting", "-i")
	shell.Env = append(shell.Env, "TERM=xterm-256color", "PS1="+prompt)
	p.term.Run(shell)
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.term.Type("exit\n")
		shell.Wait()
	})
	p.term.Screen.Wait(t, prompt)
	p.seen = len(p.term.Screen.String())
	return p
}

// Times in a recording. Those of the typing and between commands are made up; what a command prints
// comes when it came, but pauses in it are shortened.
const (
	keystroke    = 35 * time.Millisecond
	longestLine  = 1200 * time.Millisecond // to type
	beforeEnter  = 300 * time.Millisecond
	longestPause = time.Second
	toRead       = 900 * time.Millisecond
	toReadALine  = 130 * time.Millisecond
)

// play types a command and returns what it prints.
func (p *player) play(command string) string {
	p.t.Helper()
	p.cast.add("o", prompt)
	p.cast.now += toRead / 2
	for _, key := range command {
		p.cast.now += min(keystroke, longestLine/time.Duration(len(command)))
		p.cast.add("o", string(key))
	}
	p.cast.now += beforeEnter
	p.cast.add("o", "\r\n")

	p.term.Type(command + "\n")
	echo := command + "\r\n"
	printed, last := "", time.Now()
	harness.Until(p.t, "the end of "+command, func() bool {
		screen := p.term.Screen.String()[p.seen:]
		after, echoed := strings.CutPrefix(screen, echo)
		done := echoed && (after == prompt || strings.HasSuffix(after, "\n"+prompt))
		after = strings.TrimSuffix(after, prompt)
		if more := strings.TrimPrefix(after, printed); echoed && more != "" && strings.HasPrefix(after, printed) {
			p.cast.now += min(time.Since(last), longestPause)
			last = time.Now()
			p.cast.add("o", more)
			printed += more
		}
		return done
	})
	p.seen = len(p.term.Screen.String())
	p.cast.now += toRead + min(time.Duration(strings.Count(printed, "\n"))*toReadALine, 2*time.Second)
	return printed
}

// A cast is a recording, as asciinema makes it: asciicast, version 2.
type cast struct {
	t     *testing.T
	lines bytes.Buffer
	now   time.Duration
}

func newCast(t *testing.T) *cast {
	c := &cast{t: t}
	c.line(map[string]any{"version": 2, "width": columns, "height": rows, "title": "superd: the tutorial"})
	return c
}

// add adds an event: "o" is output, "m" marks a place.
func (c *cast) add(kind, text string) {
	c.line([]any{json.Number(fmt.Sprintf("%.3f", c.now.Seconds())), kind, text})
}

func (c *cast) line(value any) {
	e := json.NewEncoder(&c.lines)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		c.t.Fatal(err)
	}
}

// A castEvent is an event of a recording.
type castEvent struct {
	kind, text string
}

func (e *castEvent) UnmarshalJSON(text []byte) error {
	var at float64
	parts := []any{&at, &e.kind, &e.text}
	return json.Unmarshal(text, &parts)
}
