package deps

// An Availability says whether an instance, or a program with all its instances, satisfies its
// dependents.
type Availability uint8

// The availabilities, the lowest first.
const (
	// Not up, or about to stop, and nothing restores it by itself. A dependent must be down, too.
	Down Availability = iota
	// It restarts after an end that is under way or comes. A dependent must be down until then.
	Returning
	// It is in backoff, or waits for an instance that is. A dependent is not started; one that runs
	// continues.
	Paused
	Coming // it is starting, or runs as a one-shot
	Up     // a dependent may start
	availabilityCount
)

// requirements counts the programs that a node names.
type requirements struct {
	required  [availabilityCount]int32 // required programs
	ordered   [availabilityCount]int32 // programs it is ordered after and that are on their way up
	startable int32                    // required programs that it may start
	orderings int32                    // programs it is ordered after
}

// noRequirements is shared by all nodes that name no program: most of them. It is never changed.
var noRequirements requirements

// Lost reports whether a requirement is down or restarts, so that the instance can't stay up.
func (r *requirements) Lost() bool { return r.required[Down]+r.required[Returning] > 0 }

// Waiting reports whether a start has to wait for other programs.
func (r *requirements) Waiting() bool {
	return r.Blocked() || r.required[Coming]+r.ordered[Returning]+r.ordered[Coming] > 0
}

// Blocked reports whether a program that it waits for is not on its way up.
func (r *requirements) Blocked() bool { return r.required[Returning] > 0 || r.Stopped() }

// Stopped reports whether a program that it waits for will not come up by what is under way.
func (r *requirements) Stopped() bool {
	return r.required[Down]+r.required[Paused]+r.ordered[Down]+r.ordered[Paused] > 0
}

// Unsatisfied returns the number of programs that it waits for.
func (r *requirements) Unsatisfied() (count int) {
	for a := range Up {
		count += int(r.required[a] + r.ordered[a])
	}
	return count
}

// Ordered reports whether it is ordered after any program.
func (r *requirements) Ordered() bool { return r.orderings > 0 }

// CanStart reports whether a requirement is startable.
func (r *requirements) CanStart() bool { return r.startable > 0 }
