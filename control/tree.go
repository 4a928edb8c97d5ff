package control

import (
	"context"
	"net/url"
)

// A Branch is the processes of one instance.
type Branch struct {
	Name      string    `json:"name"`
	State     string    `json:"state"`
	Pid       *int      `json:"pid"`       // of the main process; null: there is none
	Processes []Process `json:"processes"` // by pid, the main one among them; never null
}

// A Process is one living process of an instance.
type Process struct {
	Pid     int     `json:"pid"`
	Parent  int     `json:"ppid"`
	State   string  `json:"state"` // a letter, as in ps: R, S, D, T, t …
	Command string  `json:"command"`
	CPU     float64 `json:"cpu_s"`
	RSS     int64   `json:"rss_bytes"`
}

// Tree returns the processes of the instances that names stand for, of all without names.
func (c *Client) Tree(ctx context.Context, names []string) ([]Branch, error) {
	var all []Branch
	err := c.get(ctx, "/v1/tree", url.Values{"name": names}, &all)
	return all, err
}
