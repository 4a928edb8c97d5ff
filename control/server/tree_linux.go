package server

import (
	"cmp"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

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
	s.looks <- struct{}{}
	defer func() { <-s.looks }()
	list := make([]control.Branch, len(all))
	for i, b := range all {
		list[i] = control.Branch{Name: b.Name, State: b.State.String(), Pid: present(b.Main), Processes: []control.Process{}}
		for _, m := range b.Members {
			if p, ok := readProcess(m); ok {
				list[i].Processes = append(list[i].Processes, p)
			}
		}
		slices.SortFunc(list[i].Processes, func(a, b control.Process) int { return cmp.Compare(a.Pid, b.Pid) })
	}
	return list
}

// readProcess reads what /proc tells of a process; false when it has ended meanwhile.
func readProcess(m procs.BranchMember) (control.Process, bool) {
	info, err := procs.ReadProcess(m.Pid)
	if err != nil || info.Start != m.Start {
		return control.Process{}, false
	}
	p := control.Process{Pid: m.Pid, Parent: info.Parent, State: string(info.State), CPU: info.CPU.Seconds(), RSS: info.RSS}
	p.Command = "[" + info.Command + "]" // as ps shows one without arguments
	if info.State == 'D' {
		return p, true // its arguments lie in memory that may take as long as the disk it waits for
	}
	if line, err := os.ReadFile("/proc/" + strconv.Itoa(m.Pid) + "/cmdline"); err == nil && len(line) > 0 {
		p.Command = strings.ToValidUTF8(strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " "), "�")
	}
	return p, true
}
