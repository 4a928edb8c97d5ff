package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// processes returns the live processes of the arena, supervisors and programs, by pid.
func (a *arena) processes() (supervising, programs []int) {
	a.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		a.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == a.init.Process.Pid {
			continue
		}
		dir := "/proc/" + entry.Name()
		if space, err := os.Readlink(dir + "/ns/pid"); err != nil || space != a.space {
			continue
		}
		executable, err := os.Readlink(dir + "/exe")
		switch {
		case err != nil:
		case executable == a.tools.child, executable == a.tools.output:
			programs = append(programs, pid)
		default:
			supervising = append(supervising, pid)
		}
	}
	return supervising, programs
}

// pss returns the proportional set size of processes, in bytes.
func (a *arena) pss(pids []int) (sum float64) {
	a.Helper()
	for _, pid := range pids {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if _, rest, ok := bytes.Cut(text, []byte("\nPss:")); ok {
			n, err := strconv.Atoi(strings.Fields(string(rest))[0])
			if err != nil {
				a.Fatal(err)
			}
			sum += float64(n) * 1024
		}
	}
	if sum == 0 {
		a.Fatal("no memory of the processes that supervise can be read")
	}
	return sum
}

// An effort is the resources that processes have used so far. The processor time is that of all
// threads, also of those that have ended.
type effort struct {
	cpu      time.Duration
	switches int
}

func (a *arena) effort(pids []int) (sum effort) {
	a.Helper()
	for _, pid := range pids {
		sum.cpu += processTime(pid)
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
		for _, task := range tasks {
			status, err := os.ReadFile(task + "/status")
			if err != nil {
				continue // it has ended
			}
			for line := range strings.Lines(string(status)) {
				if key, value, _ := strings.Cut(line, ":"); strings.HasSuffix(key, "voluntary_ctxt_switches") {
					n, err := strconv.Atoi(strings.TrimSpace(value))
					if err != nil {
						a.Fatal(err)
					}
					sum.switches += n
				}
			}
		}
	}
	if sum.cpu == 0 {
		a.Fatal("no processor time of the processes that supervise can be read")
	}
	return sum
}

// waitIdle waits until the supervisors have been idle for a second, and returns their pids. It
// waits five seconds at most, and not at all for a contestant that is never idle.
func (m *match) waitIdle() (supervising []int) {
	m.Helper()
	before := effort{switches: -1}
	for end := time.Now().Add(m.time(5 * time.Second)); ; {
		supervising, _ = m.processes()
		after := m.effort(supervising)
		if after.switches == before.switches || time.Now().After(end) {
			return supervising
		}
		before = after
		pause(m, m.time(time.Second))
		if m.c.restless {
			end = time.Now()
		}
	}
}
