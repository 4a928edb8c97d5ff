package procs

import "slices"

// A Branch is the processes of one instance.
type Branch struct {
	Name    string
	State   State
	Main    int // pid of the main process; 0 without one
	Members []BranchMember
}

// A BranchMember is a process that lived when it was looked at. With its start time it can be told from one that has its
// pid later.
type BranchMember struct {
	Pid   int
	Start uint64 // clock ticks since boot
}

// Tree looks who lives in the trees of the instances that names select, all of them for no names. done runs once on the
// loop, perhaps before Tree has returned.
func (s *Supervisor) Tree(names []string, done func([]Branch)) error {
	selected, err := s.selectInstances(names)
	if err != nil {
		return err
	}
	branches := make([]Branch, len(selected))
	left := len(selected)
	if left == 0 {
		done(branches)
		return nil
	}
	for i, in := range slices.Clone(selected) {
		branches[i] = Branch{Name: in.name, State: in.machine.state}
		if in.run != nil && in.run.process != nil {
			branches[i].Main = in.run.process.Pid()
		}
		in.tree.Look(func(found []Member) {
			for _, m := range found {
				branches[i].Members = append(branches[i].Members, BranchMember{m.Process.Pid(), m.Start})
				m.Process.Close()
			}
			if left--; left == 0 {
				done(branches)
			}
		})
	}
	return nil
}
