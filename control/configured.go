package control

import (
	"context"
	"net/url"
)

// A Configured is the definition in force of a program.
type Configured struct {
	Program string `json:"program"`
	Text    string `json:"text"` // its table in TOML, without what may be secrets
	File    string `json:"file"` // that defines it; absolute
	Line    int    `json:"line"` // where its table began when the file was read
	// Main file of the configuration; absolute
	Configuration string `json:"configuration"`
}

// Config returns the definitions in force of the programs that match names, of all without names.
func (c *Client) Config(ctx context.Context, names []string) ([]Configured, error) {
	var all []Configured
	err := c.get(ctx, "/v1/config", url.Values{"name": names}, &all)
	return all, err
}

// ResetFailed clears the start limit and the counters of failures of the instances that match
// names.
func (c *Client) ResetFailed(ctx context.Context, names []string) ([]CommandResult, error) {
	var all []CommandResult
	err := c.post(ctx, "/v1/programs/reset-failed", url.Values{"name": names}, false, &all)
	return all, err
}

// Enable decides whether the programs that match names start with superd, whatever their key
// autostart says. It starts and stops none.
func (c *Client) Enable(ctx context.Context, names []string, starts bool) ([]CommandResult, error) {
	verb := "disable"
	if starts {
		verb = "enable"
	}
	var all []CommandResult
	err := c.post(ctx, "/v1/programs/"+verb, url.Values{"name": names}, true, &all)
	return all, err
}
