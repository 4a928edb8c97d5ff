package control

import "context"

// A Socket is the state of one address of a socket of the configuration.
type Socket struct {
	Socket   string   `json:"socket"` // its name
	Address  string   `json:"address"`
	Programs []string `json:"programs"` // that get it; never null
	Open     bool     `json:"open"`
	// It is not in the configuration any more, and open while a run of Programs uses it
	Leaving bool `json:"leaving"`
	// Why it can't be opened, or not take its settings; null: it can
	Problem *string  `json:"problem"`
	RetryIn *float64 `json:"retry_in_s"` // until the next attempt; null: none is due
	// Connections that wait, bytes where there are none; null: unknown
	Waiting *int `json:"waiting"`
	Backlog *int `json:"backlog"` // how many may wait; null: it has no connections
	// Processes that have it open, besides superd; never null
	Holders []SocketHolder `json:"holders"`
	// Where superd accepts: how many connections of the program are served, and at most; else null
	Connections    *int `json:"connections"`
	MaxConnections *int `json:"max_connections"`
	// How many connections of sources with too many were closed, and the last source; null: none
	Refused     *int    `json:"refused"`
	RefusedFrom *string `json:"refused_from"`
}

// A SocketHolder is a process that has a socket.
type SocketHolder struct {
	Pid     int    `json:"pid"`
	Command string `json:"command"` // its name, as in ps
}

// Sockets returns the state of all sockets.
func (c *Client) Sockets(ctx context.Context) ([]Socket, error) {
	var all []Socket
	err := c.get(ctx, "/v1/sockets", nil, &all)
	return all, err
}
