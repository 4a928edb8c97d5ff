package loop

import (
	"slices"
	"sync"
	"testing"
	"time"
)

func TestNothingStarves(t *testing.T) {
	onEach(t, func(r *rig) {
		// Each of these is always busy.
		var reads, ticks, posts uint64
		fd := r.open()
		r.fill(fd)
		r.must(r.Root().OnReadable(fd, func() { reads++ }))
		var again func()
		again = func() { ticks++; r.Root().After(0, again) }
		again()
		var repost func()
		repost = func() { posts++; r.Post(repost) }
		repost()

		// These are to be served just once.
		var read, timed bool
		other := r.open()
		r.fill(other)
		var w *Watch
		w = r.must(r.Root().OnReadable(other, func() { read = true; w.Stop() }))
		r.Root().After(5*time.Millisecond, func() {
			timed = true
			r.Post(r.Stop) // from another goroutine it would be the same
		})
		r.run()

		if !read || !timed {
			r.Errorf("descriptor served: %v, timer served: %v, want both", read, timed)
		}
		for name, n := range map[string]uint64{"descriptor": reads, "timer": ticks, "work": posts} {
			if turns := r.Turns(); n < turns-1 || n > turns+1 {
				r.Errorf("busy %s was served %d times in %d turns, want once a turn", name, n, turns)
			}
		}
	})
}

// TestBurstIsServedInShares: when very much is due at once, each of the three kinds has its share
// of every turn, in order.
func TestBurstIsServedInShares(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 10 * maxShare
		fd := r.open()
		r.fill(fd)
		served := 0 // turns in which the descriptor was served
		r.must(r.Root().OnReadable(fd, func() { served++ }))
		var timers, posts []int
		for i := range n {
			r.Root().After(0, func() { timers = append(timers, i) })
			r.Post(func() { posts = append(posts, i) })
		}
		r.Post(func() {
			// Exactly on a virtual loop, where no time passes; on a real one it takes more.
			most := n/maxShare + 1
			if _, virtual := r.world.(simulated); !virtual {
				most = n/minShare + 1
			}
			if turns := int(r.Turns()); turns < n/maxShare+1 || turns > most || served != turns || len(timers) != n {
				r.Errorf("the burst took %d turns and %d of %d timers were called, the descriptor %d times; want %d to %d turns",
					turns, len(timers), n, served, n/maxShare+1, most)
			}
			if !slices.IsSorted(timers) || !slices.IsSorted(posts) || len(posts) != n {
				r.Errorf("called in the order %v and %v", timers, posts)
			}
			r.Stop()
		})
		r.run()
	})
}

// TestSlowBurstIsServedInSmallShares: posted work waits for few of many slow timers, also after
// quick ones.
func TestSlowBurstIsServedInSmallShares(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 10 * minShare
		for range 2 * maxShare {
			r.Root().After(0, func() {})
		}
		called := 0
		for range n {
			r.Root().After(0, func() {
				called++
				r.spend(youth / minShare)
			})
		}
		before, waited := 0, 0
		var again func()
		again = func() {
			waited = max(waited, called-before)
			if before = called; called < n {
				r.Post(again)
			} else {
				r.Stop()
			}
		}
		r.Post(again)
		r.run()
		if waited != minShare {
			r.Errorf("posted work waited for %d slow timers, want %d", waited, minShare)
		}
	})
}

// TestWaitReportsWhatThereIsTimeFor: a wait reports few descriptors while their callbacks are slow,
// and more while they are quick.
func TestWaitReportsWhatThereIsTimeFor(t *testing.T) {
	onEach(t, func(r *rig) {
		var cost time.Duration
		served := make(map[uint64]int) // by turn
		for range 2 * maxEvents {
			fd := r.open()
			r.fill(fd)
			r.must(r.Root().OnReadable(fd, func() {
				served[r.Turns()]++
				r.spend(cost)
			}))
		}
		turns := 0
		var each func()
		each = func() { // after the descriptors, in each turn
			turns++
			n := served[r.Turns()]
			if _, virtual := r.world.(simulated); turns == 20 && virtual && n != maxEvents {
				r.Errorf("%d descriptors with quick callbacks were served in a turn, want %d", n, maxEvents)
			}
			switch turns {
			case 20:
				cost = youth / minShare
			case 25:
				if n != minShare {
					r.Errorf("%d descriptors with slow callbacks were served in a turn, want %d", n, minShare)
				}
				r.Stop()
			}
			r.Post(each)
		}
		r.Post(each)
		r.run()
	})
}

func TestMoreReadyThanAShare(t *testing.T) {
	onEach(t, func(r *rig) {
		const n = 5 * maxEvents / 2
		served := make(map[int]bool)
		last := r.Turns()
		calls := 0
		for range n {
			fd := r.open()
			r.fill(fd)
			r.must(r.Root().OnReadable(fd, func() {
				served[fd] = true
				if r.Turns() != last {
					last, calls = r.Turns(), 0
				}
				if calls++; calls > maxEvents {
					r.Errorf("more than %d descriptors served in one turn", maxEvents)
					r.Stop()
				}
				if len(served) == n {
					r.Stop()
				}
			}))
		}
		r.run()
		// Epoll takes turns, the virtual loop draws at random.
		if turns := r.Turns(); turns > 60 {
			r.Errorf("it took %d turns to serve %d descriptors that are always ready", turns, n)
		}
	})
}

func TestNowStandsStillInATurn(t *testing.T) {
	onEach(t, func(r *rig) {
		before := r.Now()
		r.spend(time.Millisecond)
		if outside := r.Now(); outside < before+time.Millisecond {
			r.Errorf("outside of a turn Now() went from %v to %v in 1ms", before, outside)
		}
		r.Post(func() {
			now := r.Now()
			r.spend(time.Millisecond)
			if again := r.Now(); again != now {
				r.Errorf("in a turn Now() went from %v to %v", now, again)
			}
			if tm := r.Root().After(time.Second, func() {}); tm.Due() != now+time.Second {
				r.Errorf("a timer of 1s armed at %v is due at %v", now, tm.Due())
			}
			r.Stop()
		})
		r.run()
	})
}

func TestRunAfterStop(t *testing.T) {
	onEach(t, func(r *rig) {
		released := 0
		r.Root().Defer(func() { released++ })
		r.Stop()
		for range 2 {
			if err := r.Loop.Run(); err != nil {
				r.Error(err)
			}
		}
		if released != 1 || r.Turns() != 0 {
			r.Errorf("root was released %d times after %d turns, want 1 and 0", released, r.Turns())
		}
	})
}

func TestPostFromManyGoroutines(t *testing.T) {
	const posters, each = 8, 2000
	onEach(t, func(r *rig) {
		got := make([][]int, posters)
		done := 0
		for p := range posters {
			go func() {
				for i := range each {
					r.Post(func() { got[p] = append(got[p], i) })
				}
				r.Post(func() {
					if done++; done == posters {
						r.Stop()
					}
				})
			}()
		}
		// Not r.run: its timer would fire at once in a loop whose time does not depend on
		// goroutines.
		if err := r.Loop.Run(); err != nil {
			r.Error(err)
		}
		for p := range got {
			if len(got[p]) != each || !slices.IsSorted(got[p]) {
				r.Errorf("of poster %d there ran %d in order: %v, want %d in order",
					p, len(got[p]), slices.IsSorted(got[p]), each)
			}
		}
	})
}

func TestPostRunsInALaterTurn(t *testing.T) {
	onEach(t, func(r *rig) {
		var turns []uint64
		r.Post(func() {
			turns = append(turns, r.Turns())
			r.Post(func() { turns = append(turns, r.Turns()); r.Stop() })
		})
		r.run()
		if want := []uint64{1, 2}; !slices.Equal(turns, want) {
			r.Errorf("posted work ran in turns %v, want %v", turns, want)
		}
	})
}

// TestGather: while the loop gathers, PostSoon does not wake it. Its work runs before that of Post,
// which does, or when the pause is over.
func TestGather(t *testing.T) {
	l, err := New()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- l.Run() }()
	asleep := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.sleeping
	}
	gather := func(pause time.Duration) {
		set := make(chan bool)
		l.Post(func() { l.Gather(pause); close(set) })
		for <-set; !asleep(); {
			time.Sleep(time.Millisecond)
		}
	}
	ran := make(chan string, 2)
	gather(time.Hour)
	l.PostSoon(func() { ran <- "soon" })
	if !asleep() {
		t.Error("the loop was woken by what it gathers")
	}
	l.Post(func() { ran <- "now" })
	if first, second := <-ran, <-ran; first != "soon" || second != "now" {
		t.Errorf("%s ran before %s", first, second)
	}
	gather(time.Millisecond)
	l.PostSoon(func() { ran <- "after a pause" })
	<-ran
	gather(0)
	l.PostSoon(func() { ran <- "at once" })
	<-ran
	l.Post(l.Stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestPostIsDropped(t *testing.T) {
	onEach(t, func(r *rig) {
		s := r.Root().Child()
		s.Post(func() { r.Error("work ran whose scope was closed after Post") })
		r.Post(func() { r.stopAfter(2) })
		s.Close()
		s.Post(func() { r.Error("work ran whose scope was closed before Post") })
		r.Root().Defer(func() {
			r.Post(func() { r.Error("work ran that was posted while Root was closed") })
		})
		r.run()
		var wg sync.WaitGroup
		wg.Go(func() { r.Post(func() { r.Error("work ran that was posted after Run") }) })
		wg.Wait()
		if r.posted.first != nil {
			r.Error("work is kept that was posted after Run")
		}
	})
}

func TestPostQueueFreesABurst(t *testing.T) {
	onEach(t, func(r *rig) {
		const burst = 4 * maxChunks * len(chunk{}.work)
		ran := 0
		for i := range burst {
			r.Post(func() {
				if i != ran {
					r.Errorf("work %d ran after %d others", i, ran)
				}
				ran++
			})
		}
		r.Post(func() { r.Post(r.Stop) })
		r.run()
		if ran != burst || r.used.n > maxChunks || r.free.n > maxChunks {
			r.Errorf("%d of %d ran, and %d and %d chunks are kept, want %d at most", ran, burst, r.used.n, r.free.n, maxChunks)
		}
	})
}

func TestLag(t *testing.T) {
	const slow = 20 * time.Millisecond
	tests := []struct {
		name  string
		setUp func(r *rig)
	}{
		{"timer after a slow timer", func(r *rig) {
			r.Root().After(0, func() { r.spend(slow) })
			r.Root().After(0, func() {})
		}},
		{"timer due during slow work", func(r *rig) {
			r.Post(func() {
				r.Root().After(0, func() {})
				r.spend(slow)
			})
		}},
		{"work posted before a slow descriptor", func(r *rig) {
			fd := r.open()
			r.fill(fd)
			r.must(r.Root().OnReadable(fd, func() { r.empty(fd); r.spend(slow) }))
			r.Post(func() {})
		}},
		{"work posted during a slow descriptor", func(r *rig) {
			fd := r.open()
			r.fill(fd)
			r.must(r.Root().OnReadable(fd, func() {
				r.empty(fd)
				r.Post(func() {})
				r.spend(slow)
			}))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onEach(t, func(r *rig) {
				tt.setUp(r)
				r.Root().After(2*slow, r.Stop)
				r.run()
				if lag := r.Lag(); lag.Max < slow || lag.Max > time.Minute {
					r.Errorf("Lag().Max = %v, want %v or little more", lag.Max, slow)
				}
				r.ResetLag()
				if lag := r.Lag(); lag != (Lag{}) {
					r.Errorf("after ResetLag, Lag() = %v", lag)
				}
			})
		})
	}
}

// TestRecentLag: the recent lag covers this minute and the one before, also when the loop rests.
func TestRecentLag(t *testing.T) {
	l := new(Loop)
	at := func(now time.Duration, want time.Duration) {
		t.Helper()
		l.now = now
		if got := l.Lag().Recent; got != want {
			t.Errorf("at %v the recent lag is %v, want %v", now, got, want)
		}
	}
	l.now = 10 * time.Second
	l.noteLag(time.Second)
	l.noteLag(time.Millisecond)
	at(59*time.Second, time.Second)
	at(119*time.Second, time.Second)
	at(121*time.Second, 0)
	l.noteLag(time.Millisecond)
	at(179*time.Second, time.Millisecond)
	l.now = 185 * time.Second
	l.noteLag(2 * time.Millisecond)
	at(239*time.Second, 2*time.Millisecond)
	at(10*time.Minute, 0)
	if l.Lag().Max != time.Second {
		t.Errorf("Max = %v, want 1s", l.Lag().Max)
	}
}

func TestNoLagWithoutAReason(t *testing.T) {
	v := NewVirtual(1)
	v.Root().Every(time.Second, func() {})
	v.Post(func() {})
	v.RunFor(time.Hour)
	if lag := v.Lag(); lag != (Lag{}) {
		t.Errorf("Lag() = %v, want none", lag)
	}
}
