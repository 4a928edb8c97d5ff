package probe

// A Health judges by results whether a program is healthy.
type Health struct {
	Failures int // so many in a row make it unhealthy; 1 or more

	inRow   int
	healthy bool
	known   bool
}

// Resume has the judgement go on from that of an earlier one: so many failures in a row; healthy is nil if there was none.
func (h *Health) Resume(failuresInRow int, healthy *bool) {
	h.inRow = failuresInRow
	if h.known = healthy != nil; h.known {
		h.healthy = *healthy
	}
}

// Note takes a result. It reports whether the program has become healthy or unhealthy by it, the first time included.
func (h *Health) Note(r Result) (changed bool) {
	before, knew := h.healthy, h.known
	switch r.Outcome {
	case Passed:
		h.inRow, h.healthy, h.known = 0, true, true
	case Failed:
		if h.inRow++; h.inRow >= h.Failures {
			h.healthy, h.known = false, true
		}
	case Void:
	}
	return h.known && (!knew || h.healthy != before)
}

// Healthy returns the judgement; known is false before there is one.
func (h *Health) Healthy() (healthy, known bool) { return h.healthy, h.known }

// FailuresInRow returns how many checks have failed since one passed.
func (h *Health) FailuresInRow() int { return h.inRow }
