package procs

import "superd/procs/counters"

// A Meter reads what metrics need of a supervisor. Its methods run on the loop.
type Meter struct{ sup *Supervisor }

// NewMeter returns a meter of the supervisor.
func NewMeter(s *Supervisor) *Meter { return &Meter{s} }

// A Measured is the status of an instance, and its counts.
type Measured struct {
	Status
	Counts counters.Counts
}

// Read returns the state of superd, and that of all instances, by name.
func (m *Meter) Read() (Info, []Measured) {
	all := make([]Measured, 0, len(m.sup.registry.instances))
	for _, in := range m.sup.registry.instances {
		all = append(all, Measured{m.sup.status(in), in.Counts})
	}
	return m.sup.Info(), all
}

// Count adds readings of all instances to their totals, which it returns. It calls recorded, on any
// goroutine, when a successor will continue from them, or with the error.
func (m *Meter) Count(readings []counters.Reading, recorded func(unrecorded error)) counters.Totals {
	totals := m.sup.self.count(readings)
	m.sup.recorder.Flush(recorded)
	return totals
}
