package procs

import (
	"os"
	"testing"
)

// free is above every pid: the kernel's limit is 1<<22.
const free = 1<<22 + 7

// TestByNumber: a session's or group's number tells whose it is only as long as nobody else can have got it.
func TestByNumber(t *testing.T) {
	self, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	first, second := &censusTree{instance: "first"}, &censusTree{instance: "second"}
	tests := []struct {
		name   string
		known  map[processKey]*censusTree
		start  uint64 // of the process that has the number
		number int
		want   *censusTree
	}{
		{"its leader is gone", map[processKey]*censusTree{{free, 10}: first}, 20, free, first},
		{"it is older than the known", map[processKey]*censusTree{{free, 30}: first}, 20, free, nil},
		{"between two of one number, the first", map[processKey]*censusTree{{free, 10}: first, {free, 30}: second}, 20, free, first},
		{"after both, the second", map[processKey]*censusTree{{free, 10}: first, {free, 30}: second}, 40, free, second},
		{"its leader lives", map[processKey]*censusTree{{self.pid, self.start}: first}, self.start, self.pid, first},
		{"a stranger has the pid now", map[processKey]*censusTree{{self.pid, self.start - 1}: first}, self.start, self.pid, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := register{known: tt.known}.clone()
			if got := r.byNumber(&procStat{pid: free + 1, start: tt.start}, tt.number); got != tt.want {
				t.Errorf("byNumber = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestForgetUnused: two walks in a row have to find that nobody has the number of a main process or hook that has ended.
func TestForgetUnused(t *testing.T) {
	const pid = 70
	tests := []struct {
		name          string
		before, after headcount
		want          bool // forgotten
	}{
		{"nobody has it", headcount{from: 3, to: 3}, headcount{from: 3, to: 3}, true},
		{"an orphan was reaped between", headcount{from: 3, to: 4}, headcount{from: 4, to: 4}, false},
		{"one of its session lives", headcount{}, headcount{stats: map[int]*procStat{71: {pid: 71, session: pid}}}, false},
		{"one of its group lives", headcount{}, headcount{stats: map[int]*procStat{71: {pid: 71, group: pid}}}, false},
		{"one of its group lived", headcount{stats: map[int]*procStat{71: {pid: 71, group: pid}}}, headcount{}, false},
		{"it lives", headcount{}, headcount{stats: map[int]*procStat{pid: {pid: pid, start: 5}}}, false},
		{"somebody else has its pid", headcount{}, headcount{stats: map[int]*procStat{pid: {pid: pid, start: 9, session: pid}}}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCensus(&Kernel{}, "", nil)
			c.newTree("web", false).know(processKey{pid, 5})
			c.forgetUnused(&tt.before, c.register.clone())
			c.forgetUnused(&tt.after, c.register.clone())
			if forgotten := len(c.known) == 0; forgotten != tt.want {
				t.Errorf("forgotten = %v, want %v", forgotten, tt.want)
			}
		})
	}
}

// TestKnownAreBounded: where kill_mode leaves things alone, there may be many starts between two walks.
func TestKnownAreBounded(t *testing.T) {
	c := newCensus(&Kernel{}, "", nil)
	other, tree := c.newTree("other", false), c.newTree("web", false)
	other.know(processKey{1, 1})
	last := processKey{pid: 3 * maxKnown}
	for pid := 2; pid <= last.pid; pid++ {
		tree.know(processKey{pid: pid})
	}
	if len(tree.ids) != maxKnown || len(c.known) != maxKnown+1 || c.known[last] != tree || c.known[processKey{1, 1}] != other {
		t.Errorf("%d ids of the tree, %d of all; want %d and one more, the last among them", len(tree.ids), len(c.known), maxKnown)
	}
	tree.Remove()
	if len(c.known) != 1 || len(tree.ids) != 0 {
		t.Errorf("%d are known after Remove, want the other tree's one", len(c.known))
	}
}
