package server

import (
	"bytes"
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
		return s.answer(w, http.StatusOK, branches(got.branches))
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func branches(all []procs.Branch) []control.Branch {
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

// readProcess reads what /proc tells of a process; false when it has ended meanwhile. Source: proc_pid_stat(5).
func readProcess(m procs.BranchMember) (control.Process, bool) {
	dir := "/proc/" + strconv.Itoa(m.Pid)
	use, err := readUsage(m.Pid)
	if err != nil || use.start != m.Start {
		return control.Process{}, false
	}
	p := control.Process{Pid: m.Pid, CPU: use.cpu.Seconds(), RSS: use.rss}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return control.Process{}, false
	}
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if open < 0 || len(fields) < 2 {
		return control.Process{}, false
	}
	p.State = fields[0]
	p.Parent, _ = strconv.Atoi(fields[1])
	p.Command = "[" + string(stat[open+1:end]) + "]" // as ps shows one without arguments
	if p.State == "D" {
		return p, true // its arguments lie in memory that may take as long as the disk it waits for
	}
	if line, err := os.ReadFile(dir + "/cmdline"); err == nil && len(line) > 0 {
		p.Command = strings.ToValidUTF8(strings.ReplaceAll(strings.TrimRight(string(line), "\x00"), "\x00", " "), "�")
	}
	return p, true
}
