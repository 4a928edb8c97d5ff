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
	"superd/procs"
)

// tree lists the processes of instances.
func (s *Server) tree(w http.ResponseWriter, r *http.Request) error {
	type result struct {
		branches []procs.Branch
		err      error
	}
	answer := make(chan result, 1)
	s.options.Post(func() {
		err := s.options.Supervisor.Tree(r.Form["name"], func(b []procs.Branch) { answer <- result{branches: b} })
		if err != nil {
			answer <- result{err: err}
		}
	})
	select {
	case got := <-answer:
		if got.err != nil {
			return got.err
		}
		return s.answer(w, http.StatusOK, s.branches(got.branches))
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func (s *Server) branches(all []procs.Branch) []control.Branch {
	patience := linePatience
	list := make([]control.Branch, len(all))
	for i, b := range all {
		list[i] = control.Branch{Name: b.Name, State: b.State.String(), Pid: present(b.Main), Processes: []control.Process{}}
		for _, m := range b.Members {
			if p, ok := s.process(m, &patience); ok {
				list[i].Processes = append(list[i].Processes, p)
			}
		}
		slices.SortFunc(list[i].Processes, func(a, b control.Process) int { return cmp.Compare(a.Pid, b.Pid) })
	}
	return list
}

// process returns what /proc tells of a process; false when it has ended meanwhile.
func (s *Server) process(m procs.BranchMember, patience *time.Duration) (control.Process, bool) {
	s.looks <- struct{}{} // what is read here keeps nobody waiting
	info, err := procs.ReadProcess(m.Pid)
	<-s.looks
	if err != nil || info.Start != m.Start {
		return control.Process{}, false
	}
	p := control.Process{Pid: m.Pid, Parent: info.Parent, State: string(info.State), CPU: info.CPU.Seconds(), RSS: info.RSS}
	p.Command = "[" + info.Command + "]" // as ps shows one without arguments
	if info.State == 'D' {
		return p, true // it waits for a disk: so may who asks for its arguments
	}
	if line := s.arguments(m.Pid, patience); len(line) > 0 {
		p.Command = strings.ToValidUTF8(strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " "), "�")
	}
	return p, true
}

// arguments returns those of a process, none if they can't be had within patience. When nobody can read any more, because all hang who do, it
// takes the patience away: those that follow are not worth the wait.
func (s *Server) arguments(pid int, patience *time.Duration) []byte {
	stalled := time.NewTimer(*patience)
	defer stalled.Stop()
	select {
	case s.reading <- struct{}{}:
	default:
		select {
		case s.reading <- struct{}{}:
		case <-stalled.C:
			*patience = 0
			return nil
		}
	}
	answer := make(chan []byte, 1)
	go func() {
		line, _ := s.readArguments(pid) // it has ended, or is somebody else's
		<-s.reading
		answer <- line
	}()
	stalled.Reset(linePatience)
	select {
	case line := <-answer:
		return line
	case <-stalled.C:
		return nil
	}
}

// readArguments reads what a process was executed with, each argument with a NUL at its end.
func readArguments(pid int) ([]byte, error) {
	return os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
}
