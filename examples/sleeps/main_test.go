package main

import (
	"strings"
	"testing"
	"time"

	"superd/loop"
)

// TestScenes plays the scenes on the virtual loop, where each time is exact, except the one that
// reads from real descriptors.
func TestScenes(t *testing.T) {
	want := map[string]string{
		"Two sleeps, one after the other:": `
  0.50 s  one has slept 0.5 s
  1.20 s  two has slept 0.7 s
  1.20 s  the end
`,
		"The same two side by side, gathered:": `
  0.50 s  one has slept 0.5 s
  0.70 s  two has slept 0.7 s
  0.70 s  the end
`,
		"A ticker in the background of a main task:": `
  0.10 s  tick 1
  0.20 s  tick 2
  0.30 s  tick 3
  0.40 s  tick 4
  0.50 s  tick 5
  0.55 s  main has slept 0.55 s
  0.55 s  the end
`,
		"A child with a result:": `
  0.00 s  the parent waits
  0.00 s  the child thinks
  0.30 s  the parent gets 42
  0.30 s  and again, though the child has ended: 42
  0.30 s  the end
`,
		"A child that fails:": `
  0.20 s  the child cleans up
  0.20 s  the parent joins: out of paper
  0.20 s  the end
`,
		"A child that is cancelled:": `
  0.20 s  the child cleans up
  0.20 s  the parent joins: task canceled
  0.20 s  the end
`,
	}
	played := 0
	for _, s := range scenes {
		text, ok := want[s.title]
		if !ok {
			continue
		}
		played++
		var out strings.Builder
		if err := s.play(loop.NewVirtual(1).Loop, &out, time.Second); err != nil {
			t.Error(err)
		}
		if got := out.String(); got != s.title+text {
			t.Errorf("printed\n%s, want\n%s%s", got, s.title, text)
		}
	}
	if played != len(want) {
		t.Errorf("%d scenes were played, want %d", played, len(want))
	}
}

// TestReaders plays the scene with the readers on a real loop, ten times as fast.
func TestReaders(t *testing.T) {
	l, err := loop.New()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	s := scene{"readers", readers}
	if err := s.play(l, &out, time.Second/10); err != nil {
		t.Error(err)
	}
	for _, line := range []string{
		"sleeper 1 has slept 0.5 s", "sleeper 5 has slept 0.1 s",
		"read 32768 bytes from /dev/urandom", "read 32768 bytes from a socket", "the end",
	} {
		if strings.Count(out.String(), line) != 1 {
			t.Errorf("not once %q in\n%s", line, &out)
		}
	}
}
