package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"superd/control"
)

// minUptime is how long programs run before one is killed: peers delay the restart of one that ran
// less than a second.
const minUptime = 1200 * time.Millisecond

// A match is one contestant that runs programs in an arena.
type match struct {
	*arena
	*bench
	c        *contestant
	programs int
	command  []string
	first    *process
}

// begin starts the contestant with programs and waits until all were executed.
func (b *bench) begin(t testing.TB, c *contestant, programs func(a *arena) []program) (m *match, took time.Duration, ok bool) {
	a := newArena(t, b.tools, c)
	all := programs(a)
	m = &match{arena: a, bench: b, c: c, programs: len(all)}
	m.command = c.prepare(a, all)
	m.first = a.start(m.command...)
	at, ok := a.executed(len(all))
	if !ok {
		t.Logf("%s: %d of %d programs were executed within %v\n%s", c.name, a.reported(), len(all), longest, a.messages())
	}
	return m, at - m.first.at, ok
}

// end ends all programs and the contestant, and returns how long that took.
func (m *match) end() (took time.Duration, ok bool) {
	begin := now()
	if m.c.stop != nil {
		m.c.stop(m.arena, m.first)
	} else {
		m.first.signal(m, syscall.SIGTERM)
	}
	at, ok := m.waitEmpty()
	if !ok || !m.first.wait() {
		return 0, false
	}
	return max(at, m.first.endAt) - begin, true
}

// fits reports whether the contestant can have that many programs, and records why not.
func (b *bench) fits(c *contestant, programs int, measures ...string) bool {
	if c.most == 0 || programs <= c.most {
		return true
	}
	for _, m := range measures {
		b.not(c.name, m, "at most %d", c.most)
	}
	return false
}

// scale measures start, memory, status, kills at once and stop with that many programs.
func (b *bench) scale(t testing.TB, c *contestant, count int) {
	name := func(what string) string { return fmt.Sprintf("%s %d", what, count) }
	if !b.fits(c, count, name("start"), name("memory"), name("stop")) {
		return
	}
	m, took, ok := b.begin(t, c, func(a *arena) []program { return children(a, count) })
	if !ok {
		b.not(c.name, name("start"), "not within %v", longest)
		return
	}
	b.addTime(c.name, name("start"), took)
	b.add(c.name, name("memory"), m.pss(m.waitIdle()))
	m.lag(name("start"))
	if count != b.size(100) {
		m.status(count)
	}
	if count == b.size(1000) {
		m.storm(b.size(500))
		m.storm(b.size(1000))
		m.lag("storm")
		if m.isSuperd() {
			m.answers(b.size(1000))
		}
	}
	if took, ok := m.end(); ok {
		b.addTime(c.name, name("stop"), took)
	} else {
		b.not(c.name, name("stop"), "not within %v", longest)
	}
}

// shown measures superd's memory while it shows the lines of that many programs in a pipe.
func (b *bench) shown(t testing.TB, count int) {
	measure := fmt.Sprintf("memory shown %d", count)
	c := superdContestant("superd", "")
	plain := prepareSuperd(bigFiles, "--output", "always")
	c.prepare = func(a *arena, programs []program) []string {
		path := a.path("shown")
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		reader, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { reader.Close() })
		go io.Copy(io.Discard, reader)
		return append([]string{"/bin/sh", "-c", `exec "$@" > ` + path, "sh"}, plain(a, programs)...)
	}
	m, _, ok := b.begin(t, c, func(a *arena) []program { return children(a, count) })
	if !ok {
		b.not(c.name, measure, "not all run within %v", longest)
		return
	}
	b.add(c.name, measure, m.pss(m.waitIdle()))
	m.end()
}

// storm kills that many programs at once and measures until each is replaced.
func (m *match) storm(count int) {
	measure := fmt.Sprintf("killed %d", count)
	if took, ok := m.killed(count); ok {
		m.addTime(m.c.name, measure, took)
	} else {
		m.not(m.c.name, measure, "%d of %d within %v", m.reported(), count, longest)
	}
}

func (m *match) killed(count int) (took time.Duration, ok bool) {
	m.Helper()
	pause(m, minUptime)
	_, programs := m.processes()
	m.takeReports()
	begin := now()
	for _, pid := range programs[:min(count, len(programs))] {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			m.Fatalf("kill program %d: %v", pid, err)
		}
	}
	at, ok := m.executed(count)
	return at - begin, ok
}

// answers measures how long superd takes to answer while that many programs, killed at once, are
// replaced. It repeatedly queries the state of one, with a connection each.
func (m *match) answers(count int) {
	client := control.NewClient(filepath.Join(m.run, control.SocketName))
	ctx, cancel := context.WithCancel(m.Context())
	defer cancel()
	var all []float64
	var clients sync.WaitGroup
	clients.Go(func() {
		for ctx.Err() == nil {
			begin := now()
			if _, err := client.Brief(ctx, []string{"p0000"}); err != nil && ctx.Err() == nil {
				m.Errorf("status: %v", err)
				return
			}
			all = append(all, (now() - begin).Seconds())
		}
	})
	if _, ok := m.killed(count); !ok {
		m.Errorf("%d of %d programs were replaced within %v", m.reported(), count, longest)
	}
	cancel()
	clients.Wait()
	slices.Sort(all)
	m.add(m.c.name, "answers p99", percentile99(all))
	m.add(m.c.name, "answers worst", all[len(all)-1])
}

func (m *match) isSuperd() bool { return strings.HasPrefix(m.c.name, "superd") }

// status measures commands that show the state of all programs.
func (m *match) status(count int) {
	for what, command := range map[string]func(*arena) []string{"brief": m.c.brief, "full status": m.c.full} {
		measure := fmt.Sprintf("%s %d", what, count)
		if command == nil {
			continue
		}
		var all []float64
		for begin := time.Now(); len(all) < m.repeats(21) && (len(all) < 3 || time.Since(begin) < time.Second); {
			timed := exec.Command(m.arena.tools.yardstick, append([]string{"time"}, command(m.arena)...)...)
			timed.Env = m.init.Env
			var out strings.Builder
			timed.Stderr = &out
			if err := timed.Run(); err != nil {
				m.Fatalf("%v: %v\n%s", timed.Args[:3], err, out.String())
			}
			n, err := strconv.Atoi(strings.TrimSpace(out.String()))
			if err != nil {
				m.Fatalf("%v: %s", timed.Args[:3], out.String())
			}
			all = append(all, float64(n)/1e9)
		}
		slices.Sort(all)
		m.add(m.c.name, measure, median(all))
	}
}

// restart kills programs one by one and measures until each is replaced.
func (b *bench) restart(t testing.TB, c *contestant) {
	count := b.size(200)
	m, _, ok := b.begin(t, c, func(a *arena) []program { return children(a, count) })
	if !ok {
		b.not(c.name, "restart", "not all run within %v", longest)
		return
	}
	m.waitIdle()
	pause(m, minUptime)
	m.takeReports()
	crashes := count
	if c.crashes > 0 {
		crashes = min(count, b.repeats(c.crashes))
	}
	_, programs := m.processes()
	var all []float64
	for _, pid := range programs[:crashes] {
		took, ok := m.replaced(pid)
		if !ok {
			b.not(c.name, "restart", "not within %v", longest)
			return
		}
		all = append(all, took.Seconds())
		time.Sleep(5 * time.Millisecond) // the work after a restart is over then
	}
	slices.Sort(all)
	b.add(c.name, "restart", median(all))
	b.add(c.name, "restart p99", percentile99(all))
	m.lag("restart")
	m.end()
}
