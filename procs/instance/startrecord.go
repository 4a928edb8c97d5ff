package instance

import (
	"sync/atomic"
	"time"

	"superd/pidfd"
	"superd/procs/fsm"
	"superd/procs/snapshot"
)

// A startRecord is the journal's record of a start that is about to happen. A worker writes it.
type startRecord struct {
	in      *Instance
	key     string
	value   snapshot.Start
	written atomic.Bool
	// The descriptors created for it are in the store; owned by the worker until it returns
	stored bool
}

// newStartRecord returns the start record of a process of the run: of the hook with that index, or
// of the main process if hook is nil.
func (r *run) newStartRecord(hook *int) *startRecord {
	in := r.in
	number := in.Env.Records.NextStart()
	record := &startRecord{in: in, key: snapshot.StartKey(in.Name, number), value: snapshot.Start{
		Run: r.invocationID, Config: r.config, Number: number, Schedule: in.Schedule.State(),
	}}
	if hook != nil {
		record.value.Hook, record.value.PostStop = hook, in.Machine.State() == fsm.TearingDown
	}
	return record
}

// logIntent records that a process is about to be started, not older than after (clock ticks since
// boot). It is called off the loop. After an error the process must not be started.
func (record *startRecord) logIntent(after uint64) error {
	record.written.Store(true)
	record.value.After = after
	return record.in.Env.Records.Put(record.key, &record.value)
}

// logSpawned records the process that was started. It is called off the loop. After an error a
// successor finds the process by its environment tags.
func (record *startRecord) logSpawned(id pidfd.Identity, at time.Duration) error {
	record.value.Process, record.value.At = snapshot.NewProcess(id, ""), at
	return record.in.Env.Records.Put(record.key, &record.value)
}

// startedAt returns when the process was forked, if that is recorded. That may be before the loop's
// turn began.
func (record *startRecord) startedAt() time.Duration {
	now := record.in.Env.Loop.Now()
	if record.value.At == 0 {
		return now
	}
	return min(record.value.At, now)
}

// complete calls handle, which handles the result of the start, and removes the start record once
// the new state is saved. If the failed start was the last step of a removed instance, its start
// record is removed first: alone, it would be a start without a definition.
func (record *startRecord) complete(handle func()) {
	record.in.completedStart = record.value.Number
	handle()
	switch {
	case !record.written.Load():
	case record.in.Scope.Closed():
		record.in.Env.Records.QueueFirst(record.key, nil)
	default:
		record.in.Env.Records.Queue(record.key, nil)
	}
}

// storeFDs stores the descriptors created for the start in the descriptor store. It is called off
// the loop, before the program runs, so that early notifications and output survive superd.
func (record *startRecord) storeFDs(notify, ready int, outputs []int) {
	names, fds := []string{record.value.Notify, record.value.Ready}, []int{notify, ready}
	for which, fd := range outputs {
		names, fds = append(names, record.value.FDNames[which]), append(fds, fd)
	}
	for i, name := range names {
		if name != "" && fds[i] >= 0 {
			record.in.Env.FDs.Store(name, fds[i])
		}
	}
	record.stored = true
}
