package probe

// A Health determines from results whether a program is healthy.
type Health struct {
	Failures int // consecutive failures that make it unhealthy; 1 or more

	failuresInRow int
	healthy       bool
	known         bool
}

// Resume continues from an earlier state: the number of consecutive failures; healthy is nil if it
// was unknown.
func (h *Health) Resume(failuresInRow int, healthy *bool) {
	h.failuresInRow = failuresInRow
	if h.known = healthy != nil; h.known {
		h.healthy = *healthy
	}
}

// Note records a result. It reports whether the program has become healthy or unhealthy, also for
// the first time.
func (h *Health) Note(r Result) (changed bool) {
	before, wasKnown := h.healthy, h.known
	switch r.Outcome {
	case Passed:
		h.failuresInRow, h.healthy, h.known = 0, true, true
	case Failed:
		if h.failuresInRow++; h.failuresInRow >= h.Failures {
			h.healthy, h.known = false, true
		}
	case Void:
	}
	return h.known && (!wasKnown || h.healthy != before)
}

// Healthy returns the health; known is false before it is determined.
func (h *Health) Healthy() (healthy, known bool) { return h.healthy, h.known }

// FailuresInRow returns how many checks have failed since the last one passed.
func (h *Health) FailuresInRow() int { return h.failuresInRow }
