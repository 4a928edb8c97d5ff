package control

import (
	"context"
	"time"
)

// Counters are what metrics are made of. Counters in it continue across a crash and an upgrade of
// superd. Times are in whole seconds.
type Counters struct {
	Version string    `json:"version"`
	Commit  *string   `json:"commit"` // null: not built from a repository
	Started time.Time `json:"started_at"`
	Ready   bool      `json:"ready"` // as of [Readiness]
	// Largest delay of superd's event loop in this minute and the one before, in seconds
	LoopLag   float64           `json:"loop_lag_s"`
	Events    map[string]uint64 `json:"events"`    // by kind
	Instances []InstanceCounter `json:"instances"` // by name
}

// An InstanceCounter is the part of [Counters] about an instance. Values that do not apply are
// absent, since there may be thousands of instances; so are zeros.
type InstanceCounter struct {
	Name    string `json:"name"`
	Program string `json:"program"`
	Replica int    `json:"replica"` // SUPERD_REPLICA
	State   string `json:"state"`
	Healthy *bool  `json:"healthy,omitzero"` // absent: no health check, or none has finished yet

	Starts        map[string]uint32 `json:"starts,omitzero"`         // by the kind of their reason
	StartFailures uint32            `json:"start_failures,omitzero"` // starts without a process
	// Ends of main processes: success, failure (another exit code), signal, stopped (by superd) and
	// unknown
	Exits map[string]uint32 `json:"exits,omitzero"`

	MainStarted  *time.Time `json:"main_started_at,omitzero"`  // start of the main process
	RestartDelay *float64   `json:"restart_delay_s,omitzero"`  // until the restart
	ScheduleNext *time.Time `json:"schedule_next_at,omitzero"` // next time of its schedule
	CheckSeconds *float64   `json:"health_check_s,omitzero"`   // duration of the last health check

	CPU          float64 `json:"cpu_s,omitzero"`             // of all its processes so far
	RSS          int64   `json:"rss_bytes,omitzero"`         // resident memory of its processes
	Processes    int     `json:"processes,omitzero"`         // that live
	LogBytes     int64   `json:"log_bytes,omitzero"`         // of output that is in its log
	DroppedBytes int64   `json:"log_dropped_bytes,omitzero"` // of output that was dropped
	LogFailing   bool    `json:"log_failing,omitzero"`       // output does not get into its log
}

// A Readiness says whether what was asked for is ready.
type Readiness struct {
	Ready    bool     `json:"ready"`
	NotReady []string `json:"not_ready"` // instances, and names that select none; never null
}

// A Health is the answer of a superd whose event loop turns.
type Health struct {
	OK bool `json:"ok"` // always true: otherwise the answer is an [Error]
}

// Counters returns what metrics are made of.
func (c *Client) Counters(ctx context.Context) (Counters, error) {
	var all Counters
	err := c.get(ctx, "/v1/counters", nil, &all)
	return all, err
}
