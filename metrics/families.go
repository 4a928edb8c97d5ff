// Package metrics has the metrics of superd for Prometheus, as text and as an HTTP handler. All of
// them are made of one answer of the control socket.
//
// Metrics about an instance have the labels program and replica. No metric has the label instance:
// Prometheus sets it to the address that it scrapes.
package metrics

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	dto "github.com/prometheus/client_model/go"

	"superd/control"
)

// Some series exist from the first scrape on: Prometheus sees no increase in the first value of a
// series.
var (
	usualStarts = []string{"started", "restarted"}
	usualExits  = []string{"success", "failure", "signal"}
)

// Families returns the metrics of c in the order of their names; of a superd that does not answer
// for nil.
func Families(c *control.Counters) []*dto.MetricFamily {
	s := set{labels: map[[2]string]*dto.LabelPair{}}
	if c == nil {
		s.gauge("superd_up", "Whether superd answers on its control socket.").add(nil, 0)
		return s.sorted()
	}
	s.gauge("superd_up", "Whether superd answers on its control socket.").add(nil, 1)
	commit := ""
	if c.Commit != nil {
		commit = *c.Commit
	}
	s.gauge("superd_build_info", "The version of superd and the commit that it was built from. The value is 1.").
		add(labels("commit", commit, "version", c.Version), 1)
	s.gauge("superd_start_time_seconds", "When superd was started or upgraded, in seconds since 1970.").
		add(nil, float64(c.Started.Unix()))
	s.gauge("superd_ready", "Whether superd is ready: all programs that start with it were started once.").
		add(nil, number(c.Ready))
	s.gauge("superd_loop_lag_seconds", "The largest delay of superd's event loop in the last minute or two.").
		add(nil, c.LoopLag)
	events := s.counter("superd_events_total", "Events in superd's event log by type: the kinds of `superd ctl events`.")
	for _, kind := range slices.Sorted(maps.Keys(c.Events)) {
		events.add(labels("type", kind), float64(c.Events[kind]))
	}
	s.addInstances(c.Instances)
	return s.sorted()
}

// addInstances adds the metrics of instances.
func (s *set) addInstances(instances []control.InstanceCounter) {
	s.instances = len(instances)
	const program = "superd_program_"
	state := s.gauge(program+"state", "The state of an instance. The value is 1; there is no series for the states that it is not in.")
	ready := s.gauge(program+"ready", "Whether an instance runs and its readiness check, if any, has passed.")
	healthy := s.gauge(program+"healthy", "Whether the health check of an instance passes. Absent without a result.")
	starts := s.counter(program+"starts_total", "Starts of the main process by reason: the kinds of reasons of superd's API.")
	failures := s.counter(program+"start_failures_total", "Starts that failed before there was a main process.")
	exits := s.counter(program+"exits_total",
		"Ends of the main process by result: success, failure (another exit code), signal, stopped (by superd) or unknown.")
	delay := s.gauge(program+"restart_delay_seconds", "The time until an instance is restarted. Absent if no restart is due.")
	startTime := s.gauge(program+"start_time_seconds",
		"When the main process was started, in seconds since 1970. Absent without a main process.")
	next := s.gauge(program+"schedule_next_time_seconds",
		"When an instance is started by its schedule next, in seconds since 1970. Absent if it does not wait for that.")
	check := s.gauge(program+"health_check_duration_seconds", "How long the last health check of the present run took.")
	cpu := s.counter(program+"cpu_seconds_total", "The processor time of all processes of an instance, user and system.")
	memory := s.gauge(program+"memory_bytes",
		"The memory of all processes of an instance by kind: rss is resident memory, where shared memory counts for each process.")
	processes := s.gauge(program+"processes", "The number of live processes of an instance.")
	logged := s.counter(program+"log_bytes_total", "The output of an instance that is in its log, in bytes.")
	dropped := s.counter(program+"log_dropped_bytes_total", "The output of an instance that was dropped as its log stalled, in bytes.")
	failing := s.gauge(program+"log_failing", "Whether the output of an instance does not get into its log at the moment.")

	for i := range instances {
		in := &instances[i]
		own := []*dto.LabelPair{label("program", in.Program), s.label("replica", strconv.Itoa(in.Replica))}
		state.add(with(own, s.label("state", in.State)), 1)
		ready.add(own, number(in.State == control.StateRunning))
		if in.Healthy != nil {
			healthy.add(own, number(*in.Healthy))
		}
		s.addCounts(starts, own, "reason", in.Starts, usualStarts)
		failures.add(own, float64(in.StartFailures))
		s.addCounts(exits, own, "result", in.Exits, usualExits)
		delay.addIf(own, in.RestartDelay)
		check.addIf(own, in.CheckSeconds)
		if at := in.MainStarted; at != nil {
			startTime.add(own, float64(at.Unix()))
		}
		if at := in.ScheduleNext; at != nil {
			next.add(own, float64(at.Unix()))
		}
		cpu.add(own, in.CPU)
		memory.add(with(own, s.label("kind", "rss")), float64(in.RSS))
		processes.add(own, float64(in.Processes))
		logged.add(own, float64(in.LogBytes))
		dropped.add(own, float64(in.DroppedBytes))
		failing.add(own, number(in.LogFailing))
	}
}

// addCounts adds a metric for each name in counts, and for those that are usual.
func (s *set) addCounts(f *family, own []*dto.LabelPair, name string, counts map[string]uint32, usual []string) {
	for _, value := range usual {
		f.add(with(own, s.label(name, value)), float64(counts[value]))
	}
	for _, value := range slices.Sorted(maps.Keys(counts)) {
		if !slices.Contains(usual, value) {
			f.add(with(own, s.label(name, value)), float64(counts[value]))
		}
	}
}

// A set is a set of metric families. It is built directly: a registry of client_golang would check
// and sort each metric again.
type set struct {
	all       []*family
	instances int // how many metrics most families have
	labels    map[[2]string]*dto.LabelPair
}

// A family is all metrics of one name.
type family struct {
	dto.MetricFamily
	instances int
	spare     []metric
}

// A metric is a metric and what it points to, in one allocation with others.
type metric struct {
	dto.Metric
	counter dto.Counter
	gauge   dto.Gauge
	value   float64
}

func (s *set) gauge(name, help string) *family {
	return s.family(name, help, dto.MetricType_GAUGE)
}

func (s *set) counter(name, help string) *family {
	return s.family(name, help, dto.MetricType_COUNTER)
}

func (s *set) family(name, help string, kind dto.MetricType) *family {
	f := &family{instances: s.instances}
	f.Name, f.Help, f.Type = &name, &help, &kind
	s.all = append(s.all, f)
	return f
}

// add adds a metric.
func (f *family) add(labels []*dto.LabelPair, value float64) {
	if len(f.spare) == 0 {
		f.spare = make([]metric, max(f.instances, 1))
	}
	m := &f.spare[0]
	f.spare = f.spare[1:]
	m.value, m.Label = value, labels
	if f.GetType() == dto.MetricType_COUNTER {
		m.Counter, m.counter.Value = &m.counter, &m.value
	} else {
		m.Gauge, m.gauge.Value = &m.gauge, &m.value
	}
	f.Metric = append(f.Metric, &m.Metric)
}

// addIf is add unless there is no value.
func (f *family) addIf(labels []*dto.LabelPair, value *float64) {
	if value != nil {
		f.add(labels, *value)
	}
}

// sorted returns the families that have metrics, by name.
func (s *set) sorted() []*dto.MetricFamily {
	var all []*dto.MetricFamily
	for _, f := range s.all {
		if len(f.Metric) > 0 {
			all = append(all, &f.MetricFamily)
		}
	}
	slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

// labels returns labels of alternating names and values.
func labels(pairs ...string) []*dto.LabelPair {
	var all []*dto.LabelPair
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, label(pairs[i], pairs[i+1]))
	}
	return all
}

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

// label returns a label that many metrics have.
func (s *set) label(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	if s.labels[key] == nil {
		s.labels[key] = label(name, value)
	}
	return s.labels[key]
}

// with returns own and another label.
func with(own []*dto.LabelPair, another *dto.LabelPair) []*dto.LabelPair {
	return append(slices.Clip(own), another)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
