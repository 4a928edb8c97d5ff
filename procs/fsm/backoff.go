package fsm

import (
	"math"
	"math/rand/v2"
	"time"

	"superd/config"
)

// restartDelay returns the delay before restart number attempt, counted from 1.
//
// It is min(Max, Initial·Factor^(attempt-1)), plus a share of itself drawn from [0, Jitter). Factor
// and Jitter are plain ratios. The result is monotonic time and exceeds Max by less than
// Jitter·Max. rng is the caller's, so that a simulation can replay it. Config has bounded the
// fields.
func restartDelay(b config.Backoff, attempt int, rng *rand.Rand) time.Duration {
	delay := float64(b.Initial) * math.Pow(b.Factor, float64(attempt-1))
	delay = min(delay, float64(b.Max))
	return time.Duration(delay * (1 + b.Jitter*rng.Float64()))
}
