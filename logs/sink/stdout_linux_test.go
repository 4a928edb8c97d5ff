package sink

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/logs/pipe"
)

// TestRawOnOwnStandardOutput: raw output may lack the end of its line: a newline is added before
// another collector writes, and only then.
func TestRawOnOwnStandardOutput(t *testing.T) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	out := os.NewFile(uintptr(ends[1]), "stdout")
	defer out.Close()
	shared := newSharedOutput(ends[1])
	raw, records := &ownOutput{shared}, &ownOutput{shared}
	beside := &interleavedWriter{shared, out}
	long := strings.Repeat("x", pipe.AtomicBytes+10)
	var none []byte
	for _, step := range []struct {
		to   *ownOutput // nil: another writer
		text string
	}{
		{raw, "one\ntw"}, {raw, "o\nthr"}, {records, "{}\n"}, {records, "{}\n"}, {raw, long}, {raw, "\n"}, {raw, "four"}, {nil, "shown\n"}, {raw, "five\n"},
	} {
		if step.to == nil {
			if _, err := beside.Write([]byte(step.text)); err != nil {
				t.Fatal(err)
			}
		} else if n, err := step.to.Put(&none, []byte(step.text), nil); n != len(step.text) || err != nil {
			t.Fatalf("put(%.10q) = %d, %v, want %d", step.text, n, err, len(step.text))
		}
	}
	got := make([]byte, 3*pipe.AtomicBytes)
	n, err := unix.Read(ends[0], got)
	if want := "one\ntwo\nthr\n{}\n{}\n" + long + "\nfour\nshown\nfive\n"; err != nil || string(got[:n]) != want {
		t.Errorf("standard output has %q, %v, want %q", got[:n], err, want)
	}
}
