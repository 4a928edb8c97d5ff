package journal

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// writerDir is set for the test binary that is to be killed while it writes.
const writerDir = "JOURNAL_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerDir); dir != "" {
		write(dir)
		return
	}
	os.Exit(m.Run())
}

// A counted is a value that goes up.
type counted struct {
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

// write continues from the values of the journal in dir until it is killed, or long enough. It
// prints "start KEY N" before each record, and "done KEY N" when the record must be there; "queued"
// stands for all keys that are queued.
func write(dir string) {
	j, state, err := Open(dir, boot, slog.New(slog.DiscardHandler))
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	last := 0
	for key := range state.Values {
		last = max(last, countedOf(state, key).N)
	}
	say := func(what, key string, n int) { fmt.Fprintf(os.Stdout, "%s %s %d\n", what, key, n) }
	pad := strings.Repeat("x", 2000)
	var group sync.WaitGroup
	for _, key := range []string{"put/a", "put/b"} {
		group.Go(func() {
			// Enough for several compactions, whatever the others write
			for n := last + 1; n < last+6000; n++ {
				say("start", key, n)
				if err := j.Put(key, counted{n, pad}); err != nil {
					fmt.Println("error", err)
				}
				say("done", key, n)
			}
		})
	}
	group.Go(func() {
		for n := last + 1; n < last+20_000; n++ {
			key := fmt.Sprint("queue/", n%10)
			say("start", key, n)
			j.Queue(key, counted{n, pad})
			if n%10 == 0 {
				j.Flush(func(error) { say("done", "queued", n) })
			}
		}
	})
	group.Wait()
}

func countedOf(s *State, key string) (c counted) {
	if value := s.Values[key]; value != nil && json.Unmarshal(value, &c) != nil {
		panic(fmt.Sprintf("%s = %s", key, value))
	}
	return c
}

// A killed is a journal whose writers are killed, and what they printed.
type killed struct {
	*testing.T
	dir            string
	started        map[string][]int // numbers, by this run
	most           map[string]int   // greatest number of all runs
	done           map[string]int   // number that must be there
	damaged, lines int
}

func newKilled(t *testing.T) *killed {
	return &killed{T: t, dir: t.TempDir(), most: map[string]int{}, done: map[string]int{}}
}

// run lets a writer write until it is killed, by itself or after that many lines, and checks the
// journal.
func (k *killed) run(binary string, afterLines int, environment ...string) {
	k.Helper()
	cmd := exec.CommandContext(k.Context(), binary)
	cmd.Env = append(append(os.Environ(), writerDir+"="+k.dir), environment...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		k.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		k.Fatal(err)
	}
	k.started = map[string][]int{}
	lines := bufio.NewScanner(out)
	for n := 1; lines.Scan(); n++ {
		if n == afterLines {
			cmd.Process.Kill()
		}
		var what, key string
		var number int
		if _, err := fmt.Sscan(lines.Text(), &what, &key, &number); err != nil || what == "error" {
			k.Fatalf("the writer says %q", lines.Text())
		}
		switch {
		case what == "start":
			k.started[key] = append(k.started[key], number)
			k.most[key] = max(k.most[key], number)
		case key == "queued":
			for key := range k.started {
				if strings.HasPrefix(key, "queue/") {
					k.done[key] = max(k.done[key], k.lastStarted(key, number))
				}
			}
		default:
			k.done[key] = max(k.done[key], number)
		}
		k.lines++
	}
	if err := cmd.Wait(); err == nil || err.Error() != "signal: killed" {
		k.Fatalf("the writer ended with %v, is to be killed", err)
	}
	k.check()
}

// lastStarted returns the last number of key up to limit that this run has begun, or 0.
func (k *killed) lastStarted(key string, limit int) int {
	for _, n := range slices.Backward(k.started[key]) {
		if n <= limit {
			return n
		}
	}
	return 0
}

func (k *killed) check() {
	k.Helper()
	state, err := Read(k.dir, boot)
	if err != nil {
		k.Fatal(err)
	}
	k.damaged += state.Damaged
	if state.Damaged > 1 {
		k.Errorf("%d lines are damaged, one can be torn", state.Damaged)
	}
	for key, most := range k.most {
		got, least := countedOf(state, key).N, k.done[key]
		if got < least || got > most {
			k.Errorf("%s = %d, want %d to %d", key, got, least, most)
		}
	}
	if k.Failed() {
		k.FailNow()
	}
}

func TestKilledAtAnyInstant(t *testing.T) {
	k := newKilled(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for range 25 {
		k.run(self, 1+rng.IntN(3000))
	}
	t.Logf("%d lines, %d torn records", k.lines, k.damaged)
}

func TestKilledAtEachFailpoint(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "journal.test")
	out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags", "failpoints", "-o", binary, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	k := newKilled(t)
	for _, name := range []string{"journal.before-write", "journal.after-write", "journal.before-rename", "journal.after-rename"} {
		// The first rename is that of Open, the others are compactions
		for _, n := range []int{1, 2, 3, 5} {
			k.run(binary, 0, fmt.Sprintf("SUPERD_FAILPOINT=%s:%d", name, n))
		}
	}
}
