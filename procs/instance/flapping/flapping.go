// Package flapping knows whether an instance flaps: restarts again and again.
//
// It flaps from the fifth automatic restart within five minutes on, until it has been ready for as
// long without one, or is down. So a program that restarts now and then does not, and one that
// flaps is not told of each time. Times are those of the loop's clock.
package flapping

import (
	"fmt"
	"slices"
	"time"

	"superd/internal/words"
	"superd/procs/snapshot"
)

const (
	restarts = 5
	// Window is how long an instance that flaps must be ready to flap no longer
	Window = 5 * time.Minute
)

// A Record has the last automatic restarts of an instance.
type Record struct {
	Since time.Duration   // when it began to flap; 0: it does not
	last  []time.Duration // at most restarts, the oldest first
}

// Add adds a restart. It returns why the instance flaps now if it did not before; empty otherwise.
func (r *Record) Add(now time.Duration) (why string) {
	r.last = append(r.last[max(0, len(r.last)+1-restarts):], now)
	if r.Since != 0 || len(r.last) < restarts || now-r.last[0] > Window {
		return ""
	}
	r.Since = now
	return fmt.Sprintf("%d automatic restarts within %s", restarts, words.Duration(words.Round(now-r.last[0])))
}

// Begun returns when the instance began to flap; 0: it does not. r may be nil.
func (r *Record) Begun() time.Duration {
	if r == nil {
		return 0
	}
	return r.Since
}

// Snapshot returns the snapshot of the record. r may be nil.
func (r *Record) Snapshot() *snapshot.Flapping {
	if r == nil {
		return nil
	}
	return &snapshot.Flapping{Restarts: slices.Clone(r.last), Since: r.Since}
}

// Restore returns the record of a snapshot, which may be nil.
func Restore(v *snapshot.Flapping) *Record {
	if v == nil {
		return nil
	}
	return &Record{Since: v.Since, last: slices.Clone(v.Restarts)}
}
