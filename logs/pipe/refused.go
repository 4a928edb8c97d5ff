package pipe

import (
	"log/slog"
	"sync/atomic"
)

// RefusedCalls are the system calls on pipes that the kernel refuses, or a filter, such as seccomp
// or a sandbox that emulates Linux. Each is tried once. After that superd does without it.
//
// Without splice(2), bytes are read by tee(2), written, and then taken out of the pipe. Without
// tee(2) they have to be taken out first. Meanwhile they are in the [Source], and are lost if
// superd is killed.
type RefusedCalls struct {
	splice, tee atomic.Bool
	Log         *slog.Logger // nil: nothing is logged
}

// Set sets which calls count as refused.
func (r *RefusedCalls) Set(splice, tee bool) {
	r.splice.Store(splice)
	r.tee.Store(tee)
}

func (r *RefusedCalls) logOnce(call *atomic.Bool, name, instead string) {
	if !call.Swap(true) && r.Log != nil {
		r.Log.Warn("a system call is refused, by seccomp or a sandbox", "call", name, "instead", instead)
	}
}

// isSplice reports whether splice(2) itself is refused, rather than the write to this file. An
// immutable file, or one that a security module protects, does not affect other files.
func (r *RefusedCalls) isSplice(err error) bool {
	if !isRefused(err) || !isRefused(trySplice()) {
		return false
	}
	r.noSplice()
	return true
}

func (r *RefusedCalls) noSplice() {
	r.logOnce(&r.splice, "splice", "output is copied; if superd is killed, up to 64 KiB of a log may be written twice")
}

func (r *RefusedCalls) noTee() {
	r.logOnce(&r.tee, "tee", "output is read before it is written; if superd is killed, up to 64 KiB of a log may be lost")
}
