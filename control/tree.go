package control

import (
	"context"
	"net/url"
)

// A ProcessTree holds the processes of one instance, or the unattributed ones.
type ProcessTree struct {
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Pid       *int      `json:"pid"`       // pid of the main process; null: none
	Processes []Process `json:"processes"` // all with the main process, sorted by pid; never null

	// Cgroup is the path of the main process's cgroup below the root of cgroup v2; absent: unknown
	Cgroup string `json:"cgroup,omitzero"`

	// Unattributed marks the entry for unattributed processes, which is the last and has no name.
	Unattributed bool `json:"unattributed,omitzero"`
}

// A Process is one living process of an instance.
type Process struct {
	Pid     int     `json:"pid"`
	Parent  int     `json:"ppid"`
	State   string  `json:"state"` // letter as in ps: R, S, D, T, t …
	Command string  `json:"command"`
	CPU     float64 `json:"cpu_s"`
	RSS     int64   `json:"rss_bytes"`
	Threads int     `json:"threads"`

	// PerhapsOf are the instances to which an unattributed process may belong.
	PerhapsOf []string `json:"perhaps_of,omitzero"`
}

// Tree returns the processes of the instances that match names, of all if there are no names.
func (c *Client) Tree(ctx context.Context, names []string) ([]ProcessTree, error) {
	var all []ProcessTree
	err := c.get(ctx, "/v1/tree", url.Values{"name": names}, &all)
	return all, err
}
