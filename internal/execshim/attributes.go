package execshim

import (
	"strconv"

	"superd/internal/rlimit"
)

// Attributes are what the kernel keeps for a process and its children, in the order in which they
// are set. A nil field is inherited.
type Attributes struct {
	OOMScoreAdj *int
	Nice        *int
	IOPriority  *int // class and level, as ioprio_set(2) takes them
	CPUs        []int
	Scheduling  *Scheduling
	Limits      []rlimit.Limit
}

// Scheduling is a policy of sched_setscheduler(2) with its priority.
type Scheduling struct{ Policy, Priority int }

// IsZero reports whether all attributes are inherited.
func (a *Attributes) IsZero() bool {
	return a.OOMScoreAdj == nil && a.Nice == nil && a.IOPriority == nil && a.CPUs == nil &&
		a.Scheduling == nil && len(a.Limits) == 0
}

// write passes the attributes to set, in a form that read understands.
func (a *Attributes) write(set func(key, value string)) {
	for _, n := range []struct {
		key   string
		value *int
	}{{"oom", a.OOMScoreAdj}, {"nice", a.Nice}, {"io", a.IOPriority}} {
		if n.value != nil {
			set(n.key, strconv.Itoa(*n.value))
		}
	}
	for _, cpu := range a.CPUs {
		set("cpu", strconv.Itoa(cpu))
	}
	if s := a.Scheduling; s != nil {
		set("policy", strconv.Itoa(s.Policy))
		set("priority", strconv.Itoa(s.Priority))
	}
	for _, l := range a.Limits {
		set("limit", strconv.Itoa(int(l.Resource)))
		set("soft", strconv.FormatInt(int64(l.Soft), 10))
		set("hard", strconv.FormatInt(int64(l.Hard), 10))
	}
}

// read stores one setting; policy precedes priority, and limit precedes soft and hard.
func (a *Attributes) read(key string, n int64) bool {
	number := int(n)
	last := len(a.Limits) - 1
	switch {
	case key == "oom":
		a.OOMScoreAdj = &number
	case key == "nice":
		a.Nice = &number
	case key == "io":
		a.IOPriority = &number
	case key == "cpu":
		a.CPUs = append(a.CPUs, number)
	case key == "policy":
		a.Scheduling = &Scheduling{Policy: number}
	case key == "priority" && a.Scheduling != nil:
		a.Scheduling.Priority = number
	case key == "limit" && rlimit.Resource(number).String() != "":
		a.Limits = append(a.Limits, rlimit.Limit{Resource: rlimit.Resource(number)})
	case key == "soft" && last >= 0:
		a.Limits[last].Soft = uint64(n)
	case key == "hard" && last >= 0:
		a.Limits[last].Hard = uint64(n)
	default:
		return false
	}
	return true
}

// StageLimit and the number of a resource is the stage that sets its limit.
const StageLimit Stage = 32

// Limit returns the resource whose limit the stage sets.
func (s Stage) Limit() (r rlimit.Resource, ok bool) {
	r = rlimit.Resource(s - StageLimit)
	return r, s >= StageLimit && r.String() != ""
}

// String returns what the stage does, for messages.
func (s Stage) String() string {
	if r, ok := s.Limit(); ok {
		return "set limits." + r.String()
	}
	return stageNames[s]
}

func (s Stage) known() bool {
	_, limit := s.Limit()
	return limit || int(s) < len(stageNames)
}
