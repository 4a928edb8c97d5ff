package instance

import (
	"hash/fnv"
	"maps"

	"superd/procs/schedule"
	"superd/procs/snapshot"
)

// Schedules has the table of all schedules in force, and the progress of those that a predecessor
// saved and no instance has taken yet.
type Schedules struct {
	env     *Env
	bootID  string
	machine string                    // id of this machine, for the jitter
	table   *schedule.Table           // nil before the first schedule is in force
	saved   map[string]schedule.State // by instance
}

// NewSchedules returns schedules without any. bootID and machine are ids of this boot and machine.
func NewSchedules(env *Env, bootID, machine string) *Schedules {
	return &Schedules{env: env, bootID: bootID, machine: machine, saved: map[string]schedule.State{}}
}

// Restore sets the progress that a predecessor saved, by instance.
func (c *Schedules) Restore(saved map[string]schedule.State) { maps.Copy(c.saved, saved) }

// ensureTable returns the table of all schedules, and creates it on first use.
func (c *Schedules) ensureTable() *schedule.Table {
	if c.table == nil {
		c.table = schedule.NewTable(c.env.Scope, c.bootID, func(err error) {
			c.env.Log.Warn("schedules notice late when the clock is set or the machine sleeps", "error", err)
		})
	}
	return c.table
}

// seed returns the seed of an instance's schedule jitter. It differs between machines.
func (c *Schedules) seed(instance string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(c.machine + "\x00" + instance))
	return h.Sum64()
}

// Take returns the progress of the schedule that a predecessor saved for the instance, once; nil
// without any.
func (c *Schedules) Take(instance string) *schedule.State {
	state, ok := c.saved[instance]
	if !ok {
		return nil
	}
	c.Drop(instance)
	return &state
}

// Drop deletes the progress of the schedule that a predecessor saved for the instance.
func (c *Schedules) Drop(instance string) {
	delete(c.saved, instance)
	c.env.Records.Queue(snapshot.ScheduleKey(instance), nil)
}

// DropSaved deletes the progress that no instance has taken.
func (c *Schedules) DropSaved() {
	for name := range c.saved {
		c.Drop(name)
	}
}
