package linux

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"superd/internal/mounts"
)

func TestStartsThatHangLeaveTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q startQueue
		answer := make(chan struct{}) // of the file system
		for range startWorkers {
			q.add(&start{run: func(*seat) { <-answer }})
		}
		began := time.Now()
		ran := make(chan time.Duration, 1)
		q.add(&start{run: func(*seat) { ran <- time.Since(began) }})
		if waited := <-ran; waited != seatPatience {
			t.Errorf("waited %v for a place, want %v", waited, seatPatience)
		}
		for range maxHanging {
			q.add(&start{run: func(*seat) { <-answer }})
		}
		time.Sleep(time.Hour)
		q.add(&start{run: func(*seat) { ran <- 0 }})
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
			q.add(&start{run: func(s *seat) {
				s.settle()
				q.mu.Lock()
				order = append(order, i)
				working++
				most = max(most, working)
				q.mu.Unlock()
				time.Sleep(time.Hour) // a slow exec is no reason for more workers
				q.mu.Lock()
				working--
				q.mu.Unlock()
			}})
			synctest.Wait()
		}
		time.Sleep(n * time.Hour)
		synctest.Wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(order) != n || !slices.IsSorted(order[:startWorkers]) || most != startWorkers {
			t.Errorf("%d starts, %d at a time, in the order %v; want %d, %d at a time", len(order), most, order, n, startWorkers)
		}
		// Starts that begin at the same instant may begin in any order.
		for i, start := range order {
			if start/startWorkers != i/startWorkers {
				t.Errorf("start %d came at place %d", start, i)
			}
		}
	})
}

// TestStartsThatWouldHang: if some starts hang, others on the same file system are passed over, so
// that those on other file systems find places.
func TestStartsThatWouldHang(t *testing.T) {
	if d := new(mounts.Table).Device; d("/proc/x") == d("/x") || d("/x") == 0 {
		t.Skip("/proc is not mounted")
	}
	synctest.Test(t, func(t *testing.T) {
		var q startQueue
		answer := make(chan struct{}) // of the file system
		came, passed := 0, 0          // guarded by q.mu
		const n = 100
		var dead []*start
		for range n {
			s := &start{
				run: func(*seat) {
					<-answer
					q.mu.Lock()
					came++
					q.mu.Unlock()
				},
				paths: []string{"", "/proc/dead"}, at: func() string { return "/proc/dead" },
				passed: func(path string) { passed++ },
			}
			dead = append(dead, s)
			q.add(s)
		}
		time.Sleep(time.Minute)
		ran := make(chan string, 1)
		q.add(&start{run: func(*seat) { ran <- "" }, paths: []string{"/bin/sh"}})
		synctest.Wait()
		select {
		case <-ran:
		default:
			t.Fatalf("a start on another file system waits: %d hang, %d work", q.hanging, q.working)
		}
		if q.hanging < hangingInPlace || q.hanging > hangingInPlace+startWorkers-1 || passed != n-q.hanging {
			t.Errorf("%d hang, %d of %d were passed over", q.hanging, passed, n)
		}
		for _, s := range dead[n/2:] {
			q.drop(s)
		}
		if left := len(q.waiting) + len(q.aside); left > n/2 {
			t.Errorf("%d are remembered", left)
		}
		close(answer)
		synctest.Wait()
		if came != n/2 || len(q.aside)+len(q.waiting)+q.hanging+q.working+len(q.hangsOn) != 0 {
			t.Errorf("%d of %d came when it answered; %+v", came, n/2, q.hangsOn)
		}
	})
}

// TestStartQueueTellsOfACrowd: the callback is called once when there is a crowd, and once when no
// start waits any more.
func TestStartQueueTellsOfACrowd(t *testing.T) {
	for starts, want := range map[int][]bool{crowd: nil, 10 * crowd: {true, false}} {
		var told []bool
		q := &startQueue{crowded: func(many bool) { told = append(told, many) }}
		var all sync.WaitGroup
		all.Add(starts)
		q.mu.Lock() // so that no start is taken before all are queued
		for range starts {
			q.waiting = append(q.waiting, &start{run: func(*seat) { all.Done() }})
		}
		q.fill()
		q.mu.Unlock()
		all.Wait()
		q.mu.Lock()
		if !slices.Equal(told, want) {
			t.Errorf("%d starts: told %v, want %v", starts, told, want)
		}
		q.mu.Unlock()
	}
}

// TestStartsThatHangFindALaterPlace: hanging starts that gave up their places get new ones when
// others have returned.
func TestStartsThatHangFindALaterPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q startQueue
		back, never := make(chan struct{}), make(chan struct{})
		for _, c := range []struct {
			answer chan struct{}
			count  int
		}{{back, maxHanging}, {never, startWorkers}} {
			for range c.count {
				q.add(&start{run: func(*seat) { <-c.answer }})
			}
			time.Sleep(time.Hour)
		}
		close(back)
		ran := make(chan struct{})
		q.add(&start{run: func(*seat) { close(ran) }})
		<-ran
		close(never)
	})
}

// TestStartThatIsNotLateAnyMore: a start that was found late keeps its place if it has made
// progress meanwhile.
func TestStartThatIsNotLateAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := startQueue{working: 1}
		s := q.sit(&start{})
		time.Sleep(seatPatience / 2)
		s.settle()
		s.mayHang()
		s.giveWay() // as if it had been late just before
		q.mu.Lock()
		if s.hangs || q.working != 1 {
			t.Error("it counts as hanging before its time")
		}
		q.mu.Unlock()
		time.Sleep(seatPatience)
		synctest.Wait()
		if !s.hangs || q.working != 0 {
			t.Error("it doesn't count as hanging when its time has come")
		}
	})
}
