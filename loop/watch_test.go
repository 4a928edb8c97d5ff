package loop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLevelAndEdge(t *testing.T) {
	onEach(t, func(r *rig) {
		level, edge := r.open(), r.open()
		r.fill(level)
		r.fill(edge)
		var got []string
		note := func(s string) func() {
			return func() { got = append(got, fmt.Sprint(r.Turns(), " ", s)) }
		}
		r.must(r.Root().OnReadableEdge(edge, note("edge")))
		var lw *Watch
		calls := 0
		lw = r.must(r.Root().OnReadable(level, func() {
			note("level")()
			switch calls++; calls {
			case 2:
				r.empty(level)
				r.fill(edge)
			case 3:
				lw.Stop()
				r.stopAfter(2)
			}
		}))
		r.Post(func() { r.Post(func() { r.Post(func() { r.fill(level) }) }) })
		r.run()
		// Both are ready in turn 1, in either order. Level is emptied in turn 2, and filled in turn
		// 3.
		slices.Sort(got)
		want := []string{"1 edge", "1 level", "2 level", "3 edge", "4 level"}
		if !slices.Equal(got, want) {
			r.Errorf("calls %q, want %q", got, want)
		}
	})
}

func TestReadableAndWritable(t *testing.T) {
	onEach(t, func(r *rig) {
		fd := r.duplex()
		var reads, writes, others int
		readable := r.must(r.Root().OnReadable(fd, func() { reads++ }))
		writable := r.must(r.Root().OnWritable(fd, func() { writes++ }))
		r.must(r.Root().OnHangup(fd, func() { others++ }))
		check := func(what string, wantReads, wantWrites int) {
			if reads != wantReads || writes != wantWrites || others != 0 {
				r.Errorf("%s: readable, writable, hangup were called %d, %d, %d times; want %d, %d, 0",
					what, reads, writes, others, wantReads, wantWrites)
			}
			reads, writes = 0, 0
		}
		r.Post(func() { // in turn 1, after its descriptors
			check("writable only", 0, 1)
			r.fill(fd)
			r.Post(func() {
				check("readable and writable", 1, 1)
				writable.Stop()
				writable.Stop()
				r.Post(func() {
					check("writable stopped", 1, 0)
					readable.Stop()
					r.Post(func() {
						check("readable stopped", 0, 0)
						r.must(r.Root().OnWritable(fd, func() { writes++ }))
						r.Post(func() {
							check("writable again", 0, 1)
							r.Stop()
						})
					})
				})
			})
		})
		r.run()
	})
}

func TestHangup(t *testing.T) {
	onEach(t, func(r *rig) {
		fd, quiet := r.open(), r.open()
		var got []string
		note := func(s string) func() { return func() { got = append(got, s) } }
		r.fill(fd)
		s := r.Root().Child()
		r.must(s.OnHangup(fd, note("hangup")))
		r.must(r.Root().OnHangup(quiet, note("hangup of another")))
		r.Post(func() {
			if len(got) != 0 {
				r.Errorf("called %q for a descriptor that is only readable", got)
			}
			r.empty(fd)
			r.hangUp(fd)
			r.must(s.OnReadable(fd, note("readable")))
			r.Post(func() {
				s.Close()
				r.stopAfter(2)
			})
		})
		r.run()
		slices.Sort(got)
		if want := []string{"hangup", "readable"}; !slices.Equal(got, want) {
			r.Errorf("a descriptor that hung up called %q, want %q", got, want)
		}
	})
}

func TestHangupCallsWritable(t *testing.T) {
	onEach(t, func(r *rig) {
		fd := r.open() // the read end of a pipe: never writable
		calls := 0
		r.must(r.Root().OnWritable(fd, func() { calls++ }))
		r.Post(func() {
			if calls != 0 {
				r.Error("called before the hangup")
			}
			r.hangUp(fd)
		})
		r.stopAfter(2)
		r.run()
		if calls != 1 {
			r.Errorf("called %d times in the turn after the hangup, want once", calls)
		}
	})
}

func TestSharedDescriptorIsClosedInACallback(t *testing.T) {
	onEach(t, func(r *rig) {
		for _, stop := range [][]int{{0}, {1}, {2}, {0, 1}, {1, 0}, {1, 2}, {2, 1}, {0, 1, 2}, {2, 1, 0}} {
			fd := r.open()
			r.fill(fd)
			var watches [3]*Watch
			var called [3]bool
			var stopped [3]bool
			first := true
			for i := range watches {
				watches[i] = r.must(r.Root().OnReadable(fd, func() {
					if stopped[i] {
						r.Errorf("stopping %v: watch %d was called after it was stopped", stop, i)
					}
					called[i] = true
					if !first {
						return
					}
					first = false
					for _, j := range stop {
						watches[j].Stop()
						stopped[j] = true
					}
					// New watches have their own turn.
					r.must(r.Root().OnReadable(fd, func() {}))
				}))
			}
			r.Root().Defer(func() {
				for i := range watches {
					if !stopped[i] && !called[i] {
						r.Errorf("stopping %v: watch %d was not called", stop, i)
					}
				}
			})
		}
		r.stopAfter(1)
		r.run()
	})
}

// TestReusedDescriptor makes two descriptors ready in one turn. The callback of one closes the
// other and opens a new descriptor with its number: the event of the old one must not reach the new
// one.
func TestReusedDescriptor(t *testing.T) {
	for _, stop := range []bool{true, false} {
		t.Run(fmt.Sprintf("stopped first %v", stop), func(t *testing.T) {
			onEach(t, func(r *rig) {
				fds := []int{r.open(), r.open()}
				var watches [2]*Watch
				reused, replaced := false, 0
				for i, fd := range fds {
					r.fill(fd)
					watches[i] = r.must(r.Root().OnReadable(fd, func() {
						if reused {
							r.Error("the watch of a closed descriptor was called")
							return
						}
						reused = true
						watches[i].Stop()
						if stop {
							watches[1-i].Stop()
						}
						other := fds[1-i]
						r.close(other)
						if fd := r.open(); fd != other {
							r.Fatalf("the new descriptor is %d, want the closed %d", fd, other)
						}
						full := false
						r.must(r.Root().OnReadable(other, func() {
							if !full {
								r.Error("the new descriptor got the event of the old one")
							}
							r.empty(other)
							replaced++
						}))
						r.Post(func() {
							// If not stopped before: must not affect the new one
							watches[1-i].Stop()
							full = true
							r.fill(other)
							r.stopAfter(3)
						})
					}))
				}
				r.run()
				if replaced != 1 {
					r.Errorf("the new descriptor was served %d times, want once", replaced)
				}
			})
		})
	}
}

func TestWatchErrors(t *testing.T) {
	onEach(t, func(r *rig) {
		closed := r.open()
		r.close(closed)
		for _, fd := range []int{closed, -1, 1 << 30} {
			w, err := r.Root().OnReadable(fd, func() {})
			want := fmt.Sprintf("watch descriptor %d: bad file descriptor", fd)
			if w != nil || !errors.Is(err, syscall.EBADF) || err.Error() != want {
				r.Errorf("OnReadable(%d) = %v, %v; want nil, %s", fd, w, err, want)
			}
		}
	})
}

func TestStoppedWatchDoesNotWake(t *testing.T) {
	onEach(t, func(r *rig) {
		fd := r.duplex()
		r.must(r.Root().OnReadable(fd, func() { r.Error("called, though it is not readable") }))
		r.must(r.Root().OnWritable(fd, func() { r.Error("called after it was stopped") })).Stop()
		r.Root().After(5*time.Millisecond, func() {
			if r.Turns() != 1 {
				r.Errorf("turn %d, want the first: nothing that is watched is ready", r.Turns())
			}
			r.Stop()
		})
		r.run()
	})
}

func TestLevelAndEdgeDoNotMix(t *testing.T) {
	onEach(t, func(r *rig) {
		fd := r.open()
		w := r.must(r.Root().OnHangup(fd, func() { r.Error("called without a hangup") }))
		_, err := r.Root().OnReadableEdge(fd, func() { r.Error("called though it was refused") })
		if err == nil || !strings.Contains(err.Error(), "level-triggered and edge-triggered") {
			r.Errorf("OnReadableEdge beside OnHangup: %v", err)
		}
		r.fill(fd)
		r.Root().After(5*time.Millisecond, func() {
			if r.Turns() != 1 {
				r.Errorf("turn %d, want the first: nothing that is watched is ready", r.Turns())
			}
			w.Stop()
			r.must(r.Root().OnReadableEdge(fd, r.Stop))
		})
		r.run()
	})
}

func TestWatchDispatchDoesNotAllocate(t *testing.T) {
	onEach(t, func(r *rig) {
		fd := r.duplex()
		r.fill(fd)
		r.must(r.Root().OnReadable(fd, func() {}))
		r.must(r.Root().OnWritable(fd, func() {}))
		r.Root().Every(1, func() {})
		var post func()
		post = func() { r.Post(post) }
		post()
		turn := func() {
			if err := r.turn(); err != nil {
				r.Fatal(err)
			}
		}
		turn()
		turn()
		if n := testing.AllocsPerRun(100, turn); n != 0 {
			r.Errorf("a turn with a descriptor, a timer and posted work allocates %v times, want 0", n)
		}
	})
}
