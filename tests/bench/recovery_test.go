package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"superd/control"
)

// writers is the number of programs that print a line each millisecond while their supervisor is
// killed.
const writers = 10

// afterKill is how long programs are watched under a supervisor that can't report its recovery.
const afterKill = 8 * time.Second

// many returns the number of programs, 10,000 at most, that the limit of open files allows: superd
// takes two for each.
func many() int { return min(10_000, (max(files(), 400)-200)/2) }

// recovery kills the supervisor with SIGKILL, starts it again if nothing else does, and checks what
// became of the programs and their lines.
func (b *bench) recovery(t testing.TB, c *contestant, measure string, count int) {
	if !b.fits(c, count, measure) {
		return
	}
	if why, ok := c.cannot["recovery"]; ok {
		b.not(c.name, measure, "%s", why)
		return
	}
	m, _, ok := b.begin(t, c, func(a *arena) []program {
		all := children(a, count)
		for i := range all[:min(writers, count)] {
			all[i].command = append(all[i].command, "lines")
		}
		return all
	})
	if !ok {
		b.not(c.name, measure, "not all run within %v", longest)
		return
	}
	pause(t, b.time(2*time.Second)) // the writers never let it be idle
	_, before := m.processes()
	victim := m.first.pid
	var ran map[string]int
	if m.isSuperd() {
		if ran = m.running(); len(ran) != count {
			t.Fatalf("%d of %d programs run", len(ran), count)
		}
		if keeper := m.first.pid; m.hasKeeper() {
			victim = m.supervisor(keeper)
		}
	}
	m.takeReports()
	begin := now()
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		t.Fatalf("kill the supervisor: %v", err)
	}
	if victim == m.first.pid {
		m.first.wait()
		m.first = m.start(m.command...)
	}
	if m.isSuperd() {
		running := m.running()
		b.addTime(c.name, measure, now()-begin)
		for name, pid := range ran {
			if running[name] != pid {
				t.Errorf("%s had pid %d, has %d", name, pid, running[name])
			}
		}
		pause(t, time.Second) // a second start of a program would show
	} else {
		pause(t, b.time(afterKill))
	}
	_, after := m.processes()
	replaced := 0
	for _, pid := range before {
		if !slices.Contains(after, pid) {
			replaced++
		}
	}
	b.add(c.name, measure+" lost", float64(replaced))
	b.add(c.name, measure+" doubled", float64(max(0, len(after)-count)))
	m.lag(measure)
	if m.isSuperd() {
		m.end()
	} else {
		m.endWriters() // whichever process supervises them now
	}
	missing, cut := m.lines()
	b.add(c.name, measure+" lines", float64(missing))
	b.add(c.name, measure+" cut", float64(cut))
	if m.isSuperd() && replaced+missing+cut+max(0, len(after)-count) > 0 {
		t.Errorf("%s: %d programs lost, %d programs after %d, %d lines missing, %d writers cut off", c.name, replaced, len(after), count, missing, cut)
	}
}

// running waits until superd reports that all programs run, and returns their pids (in the
// namespace).
func (m *match) running() map[string]int {
	client := control.NewClient(filepath.Join(m.run, control.SocketName))
	ctx, cancel := context.WithTimeout(m.Context(), longest)
	defer cancel()
	for {
		all, err := client.Brief(ctx, nil)
		if err != nil && !errors.Is(err, control.ErrNoSuperd) {
			m.Fatal(err)
		}
		pids := map[string]int{}
		for _, s := range all {
			if s.Up() && s.Pid != nil {
				pids[s.Name] = *s.Pid
			}
		}
		if err == nil && len(pids) == m.programs {
			return pids
		}
		if ctx.Err() != nil {
			m.Fatalf("%d of %d programs run", len(pids), m.programs)
		}
		time.Sleep(time.Millisecond)
	}
}

func (m *match) hasKeeper() bool { return !slices.Contains(m.command, "--no-keeper") }

// supervisor returns the keeper's child.
func (m *match) supervisor(keeper int) int {
	supervising, _ := m.processes()
	for _, pid := range supervising {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", keeper)) {
			return pid
		}
	}
	m.Fatal("the keeper has no supervisor")
	return 0
}

// endWriters asks the writers to end, and waits a while until their output is written.
func (m *match) endWriters() {
	_, programs := m.processes()
	for _, pid := range programs {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.HasSuffix(string(command), "\x00lines\x00") {
			syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	pause(m, m.time(2*time.Second))
}

// lines reads the logs of the writers. It returns the number of lines missing within their output,
// and the number of writers cut off before they reported their end.
func (m *match) lines() (missing, cut int) {
	for i := range min(writers, m.programs) {
		text, err := os.ReadFile(m.path(fmt.Sprintf(m.c.logFile, fmt.Sprintf("p%04d", i))))
		if err != nil {
			m.Fatal(err)
		}
		next, ended := 0, false
		for line := range strings.Lines(string(text)) {
			value, isEnd := strings.CutPrefix(strings.TrimSpace(line), "end ")
			n, err := strconv.Atoi(value)
			if err != nil || n < next && n != 0 {
				missing++ // a torn or repeated line
				continue
			}
			if n == 0 && next > 0 && !isEnd { // of the next run
				if !ended {
					cut++
				}
				next = 0
			}
			missing += n - next
			next, ended = n+1, isEnd
		}
		if !ended && m.isSuperd() {
			cut++ // the others were not asked to end in order
		}
	}
	return missing, cut
}
