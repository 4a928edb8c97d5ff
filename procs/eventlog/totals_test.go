package eventlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func totalOf(l *Log, k Kind) uint64 {
	for kind, n := range l.Totals().All {
		if kind == k {
			return n
		}
	}
	return 0
}

// TestTotalsContinue: totals count all events that were ever written, also those that are too old
// to be kept, and go on in a successor.
func TestTotalsContinue(t *testing.T) {
	dir := t.TempDir()
	const rounds, each = 4, 50
	for i := range rounds {
		l, notes := open(t, dir, 2<<10) // some ten events
		if got, want := totalOf(l, State), uint64(i*each); got != want {
			t.Errorf("superd %d begins with %d events, want %d", i+1, got, want)
		}
		appendN(t, l, each)
		l.Append(Event{Kind: Reload})
		flush(t, l)
		if got, want := totalOf(l, State), uint64((i+1)*each); got != want {
			t.Errorf("superd %d has %d events, want %d", i+1, got, want)
		}
		l.Close(patience)
		if notes.String() != "" {
			t.Errorf("logged: %s", notes)
		}
	}
	l, _ := open(t, dir, 2<<10)
	if got := totalOf(l, Reload); got != rounds {
		t.Errorf("%d events of kind reload, want %d", got, rounds)
	}
}

// TestTotalsOfDamagedFiles: without a header, or with a damaged one, the kept events count.
func TestTotalsOfDamagedFiles(t *testing.T) {
	line := func(i int, k Kind) string {
		return fmt.Sprintf(`{"cursor":%d,"at":"2026-11-21T07:20:45.123456Z","kind":"%s"}`+"\n", i, k)
	}
	for name, tt := range map[string]struct {
		old, current string
		want         uint64
	}{
		"no header":                    {line(1, Exit), line(2, Exit), 2},
		"older header only":            {`{"totals":{"exit":5}}` + "\n" + line(1, Exit), line(2, Exit), 7},
		"newer header counts":          {`{"totals":{"exit":5}}` + "\n" + line(1, Exit), `{"totals":{"exit":9}}` + "\n" + line(2, Exit), 10},
		"torn header":                  {`{"totals":{"exit":5}}` + "\n" + line(1, Exit), `{"totals":{"ex` + "\n" + line(2, Exit), 7},
		"kinds of another version":     {`{"totals":{"exit":5,"later":3}}` + "\n", line(1, "later") + line(2, Exit), 6},
		"last line without a line end": {"", line(1, Exit) + strings.TrimSpace(line(2, Exit)), 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{oldName: tt.old, currentName: tt.current} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			l, _ := open(t, dir, MaxSize)
			if got := totalOf(l, Exit); got != tt.want {
				t.Errorf("%d exits, want %d", got, tt.want)
			}
		})
	}
}
