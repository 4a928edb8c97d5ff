package linux

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"superd/internal/mounts"
)

func TestHangingStartsReleaseTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q startQueue
		answer := make(chan struct{}) // of the file system
		for range startWorkers {
			q.add(&start{run: func(*startSlot) { <-answer }})
		}
		began := time.Now()
		ran := make(chan time.Duration, 1)
		q.add(&start{run: func(*startSlot) { ran <- time.Since(began) }})
		if waited := <-ran; waited != hangTimeout {
			t.Errorf("waited %v for a slot, want %v", waited, hangTimeout)
		}
		for range maxHanging {
			q.add(&start{run: func(*startSlot) { <-answer }})
		}
		time.Sleep(time.Hour)
		q.add(&start{run: func(*startSlot) { ran <- 0 }})
		synctest.Wait()
		if q.hanging != maxHanging || q.working != startWorkers || len(q.waiting) != 1 {
			t.Errorf("%d hang, %d work and %d wait; want %d, %d and 1", q.hanging, q.working, len(q.waiting), maxHanging, startWorkers)
		}
		close(answer)
		<-ran
		synctest.Wait()
		if q.hanging != 0 || q.working != 0 {
			t.Errorf("%d hang, %d work; want none", q.hanging, q.working)
		}
	})
}

func TestStartsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q startQueue
		const n = 100
		var order []int // guarded by q.mu, as the two below
		working, most := 0, 0
		for i := range n {
			q.add(&start{child: func() byte { return stateRunning }, run: func(*startSlot) {
				q.mu.Lock()
				order = append(order, i)
				working++
				most = max(most, working)
				q.mu.Unlock()
				time.Sleep(time.Minute) // a slow exec is no reason for more workers
				q.mu.Lock()
				working--
				q.mu.Unlock()
			}})
			synctest.Wait()
		}
		time.Sleep(n * time.Minute)
		synctest.Wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(order) != n || !slices.IsSorted(order[:startWorkers]) || most != startWorkers {
			t.Errorf("%d starts, %d at a time, in the order %v; want %d, %d at a time", len(order), most, order, n, startWorkers)
		}
		// Starts that begin at the same instant may begin in any order.
		for i, start := range order {
			if start/startWorkers != i/startWorkers {
				t.Errorf("start %d began at position %d", start, i)
			}
		}
	})
}

// TestStartsThatWouldHangAreDeferred: if some starts hang, others on the same file system are
// deferred, so that those on other file systems get slots.
func TestStartsThatWouldHangAreDeferred(t *testing.T) {
	if d := new(mounts.Table).Device; d("/proc/x") == d("/x") || d("/x") == 0 {
		t.Skip("/proc is not mounted")
	}
	synctest.Test(t, func(t *testing.T) {
		var q startQueue
		answer := make(chan struct{}) // of the file system
		ran, deferred := 0, 0         // guarded by q.mu
		const n = 100
		var dead []*start
		for range n {
			s := &start{
				run: func(*startSlot) {
					<-answer
					q.mu.Lock()
					ran++
					q.mu.Unlock()
				},
				paths: []string{"/", "/proc/dead", ""}, path: func() string { return "/proc/dead" },
				onDefer: func(string) { deferred++ },
			}
			dead = append(dead, s)
			q.add(s)
		}
		time.Sleep(time.Minute)
		other := make(chan bool, 1)
		q.add(&start{run: func(*startSlot) { other <- true }, paths: []string{"/bin/sh"}})
		synctest.Wait()
		select {
		case <-other:
		default:
			t.Fatalf("a start on another file system waits: %d hang, %d work", q.hanging, q.working)
		}
		if q.hanging < maxHangingPerCause || q.hanging > maxHangingPerCause+startWorkers-1 || deferred != n-q.hanging {
			t.Errorf("%d hang, %d of %d are deferred", q.hanging, deferred, n)
		}
		for _, s := range dead[n/2:] {
			q.cancel(s)
		}
		if queued := len(q.waiting) + len(q.deferred); queued > n/2 {
			t.Errorf("%d are queued after half of them were cancelled", queued)
		}
		close(answer)
		synctest.Wait()
		if ran != n/2 || len(q.deferred)+len(q.waiting)+q.hanging+q.working+len(q.hangs) != 0 {
			t.Errorf("%d of %d ran when it answered; %+v", ran, n/2, q.hangs)
		}
	})
}

// TestCancelOfTakenStart cancels a start that a worker has taken, before it knows the devices: the
// start is not deferred, and the count of cancelled starts in the queue stays right.
func TestCancelOfTakenStart(t *testing.T) {
	q := startQueue{
		working: startWorkers, // so that no worker takes the starts
		hangs:   map[hangCause]int{{user: "u"}: maxHangingPerCause},
	}
	deferred := 0
	for range 3 {
		q.add(&start{user: "u", onDefer: func(string) { deferred++ }})
	}
	q.mu.Lock()
	taken := q.take()
	q.mu.Unlock()
	q.cancel(taken)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mayRun(taken, nil) {
		t.Error("the cancelled start may run")
	}
	if s := q.next(); s != nil || deferred != 2 || len(q.deferred) != 2 || q.cancelled != 0 {
		t.Errorf("%d deferred in %d calls, %d cancelled; want 2, 2 and 0",
			len(q.deferred), deferred, q.cancelled)
	}
}

// TestCrowdIsReported: crowded is called once when there is a crowd, and once when no start waits
// any more.
func TestCrowdIsReported(t *testing.T) {
	for starts, want := range map[int][]bool{crowdSize: nil, 10 * crowdSize: {true, false}} {
		var reported []bool
		q := &startQueue{crowded: func(many bool) { reported = append(reported, many) }}
		var all sync.WaitGroup
		all.Add(starts)
		q.mu.Lock() // so that no start is taken before all are queued
		for range starts {
			q.waiting = append(q.waiting, &start{run: func(*startSlot) { all.Done() }})
		}
		q.startWorker()
		q.mu.Unlock()
		all.Wait()
		q.mu.Lock()
		if !slices.Equal(reported, want) {
			t.Errorf("%d starts: reported %v, want %v", starts, reported, want)
		}
		q.mu.Unlock()
	}
}

// TestHangingStartsAtTheLimit: starts that hang beyond maxHanging release their slots when others
// have returned.
func TestHangingStartsAtTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q startQueue
		back, never := make(chan struct{}), make(chan struct{})
		for _, c := range []struct {
			answer chan struct{}
			count  int
		}{{back, maxHanging}, {never, startWorkers}} {
			for range c.count {
				q.add(&start{run: func(*startSlot) { <-c.answer }})
			}
			time.Sleep(time.Hour)
		}
		close(back)
		ran := make(chan struct{})
		q.add(&start{run: func(*startSlot) { close(ran) }})
		<-ran
		close(never)
	})
}

// TestProgressDuringTheCheck: a start that made progress while it was checked keeps its slot.
func TestProgressDuringTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startQueue{working: 1}
		s := q.newSlot(&start{})
		time.Sleep(hangTimeout / 2)
		s.mayHang()
		s.checkHang() // as if the timer had fired just before
		q.mu.Lock()
		if s.hangs || q.working != 1 {
			t.Error("it counts as hanging too early")
		}
		q.mu.Unlock()
		time.Sleep(hangTimeout)
		synctest.Wait()
		if !s.hangs || q.working != 0 {
			t.Error("it does not count as hanging after hangTimeout")
		}
	})
}
