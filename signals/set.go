package signals

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSignal is the largest signal number of the kernel, SIGRTMAX. Source: signal(7).
const maxSignal = 64

// A set is a set of signals in the kernel's form: bit n-1 is signal n.
type set uint64

// only returns the set of one signal, 1 to maxSignal.
func only(sig syscall.Signal) set { return 1 << (sig - 1) }

// all yields the members in ascending order.
func (s set) all() iter.Seq[syscall.Signal] {
	return func(yield func(syscall.Signal) bool) {
		for ; s != 0; s &= s - 1 {
			if !yield(syscall.Signal(bits.TrailingZeros64(uint64(s)) + 1)) {
				return
			}
		}
	}
}

// String returns the names in ascending order, such as "SIGHUP, SIGINT, signal 34".
func (s set) String() string {
	var names []string
	for sig := range s.all() {
		name := unix.SignalName(sig)
		if name == "" { // a real-time signal
			name = fmt.Sprintf("signal %d", int(sig))
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
