// Package torture kills superd at random instants and at each failpoint, under load, and checks
// what became of the programs: make torture.
package torture

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"superd/tests/harness"
)

var (
	kills = flag.Int("torture.kills", 50, "how often superd is killed at a random instant")
	seed  = flag.Uint64("torture.seed", uint64(time.Now().UnixNano()), "draws what to kill and when, and the operator's commands")
)

func TestMain(m *testing.M) { harness.Main(m, "failpoints") }

// TestKills kills the supervisor, the keeper or both at random instants.
func TestKills(t *testing.T) {
	w := begin(t)
	w.before = w.resources()
	rng := rand.New(rand.NewPCG(*seed, 2))
	for n := range *kills {
		if n%100 == 99 {
			w.noteDrops() // the event log is bounded
		}
		harness.Window(t, time.Duration(rng.IntN(150))*time.Millisecond)
		w.strike(victim(rng.IntN(int(victims))))
		if t.Failed() {
			break
		}
	}
	w.finish()
	w.compareResources()
	fmt.Printf("\ntorture, seed %d:\n%s", *seed, w.table())
}

// TestFailpoints kills the supervisor at each failpoint.
func TestFailpoints(t *testing.T) {
	for _, name := range failpoints(t) {
		t.Run(name, func(t *testing.T) {
			once := filepath.Join(t.TempDir(), "once")
			passage := ":3"
			if strings.HasPrefix(name, "upgrade.") {
				passage = ":1"
			}
			w := begin(t, "SUPERD_FAILPOINT="+name+passage, "SUPERD_FAILPOINT_ONCE="+once)
			w.provoke(name)
			harness.Until(t, "superd has crashed at "+name, func() bool {
				text, _ := os.ReadFile(once)
				crashed, err := strconv.Atoi(strings.TrimSpace(string(text)))
				return err == nil && !harness.Alive(crashed)
			})
			w.awaitBack()
			w.check()
			w.finish()
		})
	}
}

// essence returns superd's messages without routine ones, and the begin of a traceback.
func essence(text string) string {
	var b strings.Builder
	const most = 30 // lines of a traceback
	trace := most
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "time=") {
			trace = 0
			if strings.Contains(line, "level=INFO msg=\"program ") || strings.Contains(line, "msg=\"program exited\"") {
				continue
			}
		} else if trace++; trace > most && !strings.HasPrefix(line, "panic") && !strings.HasPrefix(line, "fatal") && !strings.HasPrefix(line, "SIG") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// begin starts superd with the programs and the operator.
func begin(t *testing.T, env ...string) *world {
	t.Helper()
	all := programs()
	w := &world{Site: harness.NewSite(t, configuration(all)), all: all}
	w.Env = append(w.Env, env...)
	w.Mkdir("alone")
	w.Mkdir("runs")
	for _, p := range all {
		w.ledgers = append(w.ledgers, p.ledgers(w.LogDir)...)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("superd's messages:\n%s", essence(w.Read(messagesFile)))
		}
	})
	w.launch()
	w.steady = w.awaitBack()
	w.operator = newOperator(w.Socket(), all, *seed)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		w.operator.work(ctx)
	}()
	w.stopOperator = func() {
		cancel()
		<-stopped
	}
	t.Cleanup(w.stopOperator)
	return w
}
