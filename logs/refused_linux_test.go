package logs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/logs/frame"
	"superd/logs/fslimit"
	"superd/logs/logstest"
	"superd/logs/pipe"
)

// refuse makes the store behave as if calls were refused.
func (r *rig) refuse(splice, tee bool) {
	r.store.refused.Set(splice, tee)
}

// uneven returns numbered lines of different lengths.
func uneven(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d %s\n", i, strings.Repeat("x", i%97))
	}
	return b.String()
}

func TestRefusedCalls(t *testing.T) {
	for _, calls := range []struct {
		name        string
		splice, tee bool
	}{{"splice", true, false}, {"tee", false, true}, {"both", true, true}} {
		for name, o := range map[string]Options{
			"raw": {}, "rotated": {MaxSize: 5000, Keep: 1000}, "text": {Format: frame.Text}, "drop": {Drop: true},
			"full": {Path: "full"}, "aged": {MaxAge: 1, Keep: 1000}, "split": {Split: true, Format: frame.JSON},
		} {
			t.Run(calls.name+" "+name, func(t *testing.T) {
				r := newRig(t)
				r.refuse(calls.splice, calls.tee)
				full := o.Path != ""
				path := filepath.Join(t.TempDir(), "web.log")
				o := o
				o.Path = path
				if full { // until it is removed
					logstest.Must(t, os.Symlink("/dev/full", path))
				}
				p := r.program(o)
				text := uneven(3000)
				if full {
					r.awaitLog("the program blocks", func() { p.print("first\n") })
					text = "first\n" + text
					logstest.Must(t, os.Remove(path))
					p.log(strings.TrimPrefix(text, "first\n"))
				} else {
					for rest := text; rest != ""; {
						n := min(len(rest), 7777)
						p.print(rest[:n])
						rest = rest[n:]
					}
					r.await(p.drained(), "output to be written")
				}
				p.print("no end")
				r.await(p.drained(), "the end")
				p.rest()
				r.do(p.scope.Close)
				r.waitForStore()
				got := logstest.Joined(t, path)
				text += "no end"
				if o.Format.Records() { // a line may be several records
					got = strings.ReplaceAll(string(frame.Lines(o.Format, []byte(got), false)), "\n", "")
					text = strings.ReplaceAll(text, "\n", "")
				}
				logstest.Equal(t, "log", got, text)
			})
		}
	}
}

// TestReadAheadIsWrittenAtTheEnd: the part of an incomplete line that was read ahead is written
// when the collector is closed, as it is no longer in a pipe.
func TestReadAheadIsWrittenAtTheEnd(t *testing.T) {
	for name, o := range map[string]Options{"text": {Format: frame.Text}, "drop": {Drop: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.refuse(true, true)
			o.Path = filepath.Join(t.TempDir(), "web.log")
			p := r.program(o)
			p.log("one\n")
			p.print("two")
			r.poll("it to be read", func() bool { return pipe.Bytes(p.FD(Stdout)) == 0 })
			r.do(p.scope.Close)
			r.waitForStore()
			if got := logstest.ReadFile(t, o.Path); !strings.Contains(got, "one\n") || !strings.Contains(got, "two") {
				t.Errorf("the log holds %q", got)
			}
		})
	}
}

// TestLostReadAheadIsLogged: output that was read ahead and can't be written before the end, as the
// file system stalls, is reported as lost.
func TestLostReadAheadIsLogged(t *testing.T) {
	r := newRig(t)
	r.refuse(true, true)
	r.store.stallTimeout = time.Millisecond
	p := r.program(Options{Path: filepath.Join(t.TempDir(), "web.log"), Format: frame.Text})
	p.log("one\n")
	p.print("two")
	r.poll("it to be read", func() bool { return pipe.Bytes(p.FD(Stdout)) == 0 })
	var held []*fslimit.Slot
	for range writersPerFileSystem { // as many writers hang
		held = append(held, must(t, p.shared.streams[0].file.Log().AcquireSlot(r.store.writers, nil)))
	}
	r.do(p.scope.Close)
	r.poll("the loss to be logged", func() bool {
		return strings.Contains(r.log.String(), "output lost: tee is refused and the log stalls")
	})
	if said := r.log.String(); !strings.Contains(said, "bytes=3") {
		t.Errorf("the log doesn't say how much was lost:\n%s", said)
	}
	for _, h := range held {
		h.Release()
	}
	r.waitForStore()
}
