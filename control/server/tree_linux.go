package server

import (
	"cmp"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/control"
	"superd/internal/procfs"
	"superd/procs"
)

// tree sends the processes of instances.
func (s *Server) tree(w http.ResponseWriter, r *http.Request) error {
	type result struct {
		processTrees []procs.ProcessTree
		err          error
	}
	answer := make(chan result, 1)
	s.options.Post(func() {
		err := s.options.Supervisor.Tree(r.Form["name"], func(b []procs.ProcessTree) { answer <- result{processTrees: b} })
		if err != nil {
			answer <- result{err: err}
		}
	})
	select {
	case got := <-answer:
		if got.err != nil {
			return got.err
		}
		return s.answer(w, http.StatusOK, s.processTrees(got.processTrees))
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func (s *Server) processTrees(all []procs.ProcessTree) []control.ProcessTree {
	patience := lineTimeout
	list := make([]control.ProcessTree, len(all))
	for i, b := range all {
		list[i] = control.ProcessTree{Name: b.Name, State: b.State.String(), Pid: present(b.Main), Processes: []control.Process{}}
		if b.Unattributed {
			list[i].State, list[i].Unattributed = "", true
		}
		if b.Main > 0 {
			list[i].Cgroup = s.cgroup(b.Main)
		}
		for _, m := range b.Members {
			if p, ok := s.process(m, &patience); ok {
				list[i].Processes = append(list[i].Processes, p)
			}
		}
		slices.SortFunc(list[i].Processes, func(a, b control.Process) int { return cmp.Compare(a.Pid, b.Pid) })
	}
	return list
}

// process returns what /proc says about a process; false if it has ended since.
func (s *Server) process(m procs.TreeMember, patience *time.Duration) (control.Process, bool) {
	s.statReads <- struct{}{} // these reads do not block
	info, err := procfs.ReadStat(m.Pid)
	<-s.statReads
	if err != nil || info.Start != m.Start {
		return control.Process{}, false
	}
	p := control.Process{Pid: m.Pid, Parent: info.Parent, PerhapsOf: m.PerhapsOf,
		State: string(info.State), CPU: info.CPU.Seconds(), RSS: info.RSS, Threads: info.Threads}
	p.Command = "[" + info.Command + "]" // as ps shows a process without arguments
	if info.State == 'D' {
		return p, true // it waits for a disk, and reading its arguments could wait as well
	}
	if line := s.arguments(m.Pid, patience); len(line) > 0 {
		p.Command = strings.ToValidUTF8(strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " "), "�")
	}
	return p, true
}

// cgroup returns the path of a process's cgroup v2, "" if it has none or has ended.
func (s *Server) cgroup(pid int) string {
	s.statReads <- struct{}{}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	<-s.statReads
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.ToValidUTF8(strings.TrimSuffix(path, "\n"), "\uFFFD")
		}
	}
	return ""
}

// arguments returns the arguments of a process, none if they can't be read within patience. If all
// readers hang, it sets patience to zero, so that the remaining processes are not waited for.
func (s *Server) arguments(pid int, patience *time.Duration) []byte {
	timeout := time.NewTimer(*patience)
	defer timeout.Stop()
	select {
	case s.argumentReads <- struct{}{}:
	default:
		select {
		case s.argumentReads <- struct{}{}:
		case <-timeout.C:
			*patience = 0
			return nil
		}
	}
	answer := make(chan []byte, 1)
	go func() {
		// An error means that the process has ended, or belongs to another user.
		line, _ := s.readArguments(pid)
		<-s.argumentReads
		answer <- line
	}()
	timeout.Reset(lineTimeout)
	select {
	case line := <-answer:
		return line
	case <-timeout.C:
		return nil
	}
}

// readArguments returns the command line of a process, each argument with a final NUL.
func readArguments(pid int) ([]byte, error) {
	return os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
}
