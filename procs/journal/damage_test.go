package journal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A change is one record of a journal made for a test.
type change struct {
	key, value string // value "": deleted
}

// journalOf returns a journal's content and the changes in it, line by line; the first is the
// header's, and empty.
func journalOf(t testing.TB, rng *rand.Rand, n int) (lines [][]byte, changes []change) {
	t.Helper()
	first, err := appendHeader(nil, header{"journal", format, boot, Writer{Pid: 7}})
	if err != nil {
		t.Fatal(err)
	}
	lines, changes = [][]byte{first}, []change{{}}
	for i := range n {
		c := change{key: fmt.Sprintf("instance/%d", rng.IntN(5))}
		var value any
		if rng.IntN(4) > 0 {
			// Text that looks like a record, within one.
			c.value = fmt.Sprintf(`{"n":%d,"text":" {\"k\":\"x\"} %s"}`, i, strings.Repeat("x", rng.IntN(30)))
			value = rawJSON(c.value)
		}
		line, err := appendRecord(nil, c.key, value)
		if err != nil {
			t.Fatal(err)
		}
		lines, changes = append(lines, line), append(changes, c)
	}
	return lines, changes
}

// rawJSON returns a value of the journal that is encoded as text.
func rawJSON(text string) func() []byte { return func() []byte { return []byte(text) } }

// folded returns the values after the changes, without those of damaged lines.
func contents(changes []change, damaged func(line int) bool) map[string]string {
	want := map[string]string{}
	for i, c := range changes {
		switch {
		case i == 0 || damaged(i):
		case c.value == "":
			delete(want, c.key)
		default:
			want[c.key] = c.value
		}
	}
	return want
}

// longestTested bounds records, so that a test need not fill the memory.
const longestTested = 4 << 20

// readContent returns the state of a journal with that content, and checks that a rewritten journal
// has the same state.
func readContent(t testing.TB, content []byte) *State {
	t.Helper()
	read := func(content []byte) (*State, []byte) {
		f, err := readIndex(bytes.NewReader(content), longestTested)
		if err != nil {
			t.Fatal(err)
		}
		state := newState(f, boot)
		var anew bytes.Buffer
		if err := f.copyTo(&anew, bytes.NewReader(content), state.visit); err != nil {
			t.Fatal(err)
		}
		return state, anew.Bytes()
	}
	state, anew := read(content)
	again, same := read(anew)
	equal(t, "written anew", texts(again), texts(state))
	if again.Damaged != 0 || !bytes.Equal(anew, same) {
		t.Fatalf("written anew it is\n%s\nand then\n%s", anew, same)
	}
	return state
}

func TestCutOffAtEveryByte(t *testing.T) {
	lines, changes := journalOf(t, rand.New(rand.NewPCG(1, 1)), 15)
	content := slices.Concat(lines...)
	whole, at := 0, 0 // lines that end at or before the cut, and where they end
	for cut := range len(content) + 1 {
		if whole < len(lines) && at+len(lines[whole]) == cut {
			at, whole = cut, whole+1
		}
		state := readContent(t, content[:cut])
		want := contents(changes, func(i int) bool { return i >= whole })
		equal(t, fmt.Sprintf("cut off at %d", cut), texts(state), want)
		damaged := 0
		if cut > at {
			damaged = 1
		}
		if state.Damaged != damaged {
			t.Fatalf("cut off at %d: %d damaged, want %d", cut, state.Damaged, damaged)
		}
	}
}

func TestEachByteChanged(t *testing.T) {
	lines, changes := journalOf(t, rand.New(rand.NewPCG(2, 2)), 5)
	content := slices.Concat(lines...)
	line, start := 0, 0
	for i := range content {
		if i == start+len(lines[line]) {
			start, line = i, line+1
		}
		for _, b := range []byte{content[i] ^ 1, content[i] ^ 0x20, '\n', 0} {
			if b == content[i] {
				continue
			}
			changed := bytes.Clone(content)
			changed[i] = b
			state := readContent(t, changed)
			want := contents(changes, func(i int) bool { return i == line })
			equal(t, fmt.Sprintf("byte %d of line %d changed to %q", i-start, line, b), texts(state), want)
			if state.Damaged == 0 {
				t.Fatalf("byte %d of line %d changed to %q: nobody notices", i-start, line, b)
			}
		}
	}
}

func TestManyBytesChanged(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		lines, changes := journalOf(t, rng, 1+rng.IntN(60))
		content := slices.Concat(lines...)
		damaged := map[int]bool{}
		for range rng.IntN(10) {
			i, start := rng.IntN(len(content)), 0
			for line := range lines {
				if i < start+len(lines[line]) {
					if b := byte(rng.Uint32()); b != content[i] {
						content[i], damaged[line] = b, true
					}
					break
				}
				start += len(lines[line])
			}
		}
		// A byte that was changed twice may be what it was.
		original := slices.Concat(lines...)
		start := 0
		for i, line := range lines {
			if bytes.Equal(content[start:start+len(line)], original[start:start+len(line)]) {
				delete(damaged, i)
			}
			start += len(line)
		}
		state := readContent(t, content)
		want := contents(changes, func(i int) bool { return damaged[i] })
		equal(t, fmt.Sprintf("seed %d, %d lines damaged", seed, len(damaged)), texts(state), want)
	}
}

func FuzzRead(f *testing.F) {
	lines, _ := journalOf(f, rand.New(rand.NewPCG(4, 4)), 6)
	f.Add(slices.Concat(lines...))
	f.Add([]byte{})
	f.Add([]byte("\n\n00000000 {}\n"))
	f.Add([]byte(" {\"k\":00000000 {\"k\":\"a\"}\n"))
	odd, _ := appendRecord(nil, "odd \"\\\u2028", nil)
	f.Add(odd)
	f.Fuzz(func(t *testing.T, content []byte) {
		state := readContent(t, content) // a newer format needs a checksum that no fuzzer finds
		for key, value := range state.Values {
			if !bytes.Contains(content, slices.Concat([]byte(`"v":`), value, []byte("}\n"))) {
				t.Fatalf("%q = %s is invented", key, value)
			}
		}
		// A record after it counts, and does not complete a torn one.
		line, err := appendRecord(nil, "new", 1)
		if err != nil {
			t.Fatal(err)
		}
		want := texts(state)
		want["new"] = "1"
		equal(t, "gone on with", texts(readContent(t, append(content[:len(content):len(content)], line...))), want)
	})
}

func TestALostHeaderLeavesTheRest(t *testing.T) {
	lines, changes := journalOf(t, rand.New(rand.NewPCG(5, 5)), 10)
	state := readContent(t, slices.Concat(lines[1:]...))
	equal(t, "without a header", texts(state), contents(changes, func(int) bool { return false }))
	if state.OtherBoot || state.Writer != (Writer{}) || !state.Existed {
		t.Errorf("without a header: %+v", state)
	}
}

func TestLineLongerThanAnyRecordIsSkipped(t *testing.T) {
	line, err := appendRecord(nil, "a", 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{64 << 10, 2 * longestTested, 3*longestTested + 5} {
		for _, end := range []string{"", "\n"} {
			garbage := append(bytes.Repeat([]byte("x"), n), end...)
			state := readContent(t, slices.Concat(line[:0], garbage, line))
			equal(t, fmt.Sprintf("%d bytes of garbage, then %q", n, end), texts(state), map[string]string{"a": "1"})
		}
	}
}

// TestALostTailIsNoticed cuts a journal anywhere: the missing length is reported, except for writes
// that were not acknowledged.
func TestALostTailIsNoticed(t *testing.T) {
	dir := t.TempDir()
	j, _ := mustOpen(t, dir)
	for i := range 20 {
		mustPut(t, j, fmt.Sprint("key", i%5), i)
	}
	j.Close(time.Minute)
	path := filepath.Join(dir, fileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(content []byte) *State {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		state, err := Read(dir, boot)
		if err != nil {
			t.Fatal(err)
		}
		return state
	}
	for n := range whole {
		state := read(whole[:n])
		if headed := bytes.Count(whole[:n], []byte("\n")) >= 2; headed && state.MissingBytes != int64(len(whole)-n) || !headed && state.MissingBytes != -1 {
			t.Fatalf("cut to %d of %d bytes: %d bytes are reported as missing", n, len(whole), state.MissingBytes)
		}
	}
	for _, more := range []string{"", `1234`, `12345678 {"k":"key1","v`} {
		if state := read(append(bytes.Clone(whole), more...)); state.MissingBytes != 0 || state.Damaged != 0 {
			t.Errorf("with %q behind the end: %d bytes missing, %d lines damaged", more, state.MissingBytes, state.Damaged)
		}
	}
	// The next journal there records its length afresh.
	j, state := mustOpen(t, dir)
	defer j.Close(time.Minute)
	if mustPut(t, j, "key0", 100); state.MissingBytes != 0 {
		t.Errorf("written anew: %d bytes are reported as missing", state.MissingBytes)
	}
	if content, err := os.ReadFile(path); err != nil || read(content).MissingBytes != 0 {
		t.Errorf("written anew and written to: bytes are missing, or %v", err)
	}
}
