package config

import "superd/config/codec"

// Attributes are what the kernel keeps for each process of a program. nil: those of superd.
type Attributes struct {
	Nice        *int              // -20 to 19
	IONice      *codec.IONice     `json:",omitempty"`
	CPUAffinity []int             `json:",omitempty"` // CPUs that it may use, ascending
	Scheduling  *codec.Scheduling `json:",omitempty"`
	OOMScoreAdj *int              // -1000 to 1000
}

// Rights says whether a process may give attributes to a program. Each error says what is missing
// and what to do, and begins with the value refused.
type Rights interface {
	Nice(n int) error
	RealTime(priority int) error // of the CPU
	IORealTime() error
	OOMScoreAdj(n int) error
}

// Check returns the key of the first attribute that rights do not allow, and why; "" if there is
// none.
func (a *Attributes) Check(rights Rights) (key string, err error) {
	if a.Nice != nil {
		if err := rights.Nice(*a.Nice); err != nil {
			return "nice", err
		}
	}
	if a.IONice != nil && a.IONice.Class == codec.IORealTime {
		if err := rights.IORealTime(); err != nil {
			return "ionice", err
		}
	}
	if a.Scheduling != nil && a.Scheduling.Policy.RealTime() {
		if err := rights.RealTime(a.Scheduling.Priority); err != nil {
			return "scheduling", err
		}
	}
	if a.OOMScoreAdj != nil {
		if err := rights.OOMScoreAdj(*a.OOMScoreAdj); err != nil {
			return "oom_score_adj", err
		}
	}
	return "", nil
}
