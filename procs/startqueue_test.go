package procs

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestStartsThatHangLeaveTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q startQueue
		answer := make(chan struct{}) // of the file system
		for range workers {
			q.add(func(*seat) { <-answer })
		}
		began := time.Now()
		ran := make(chan time.Duration, 1)
		q.add(func(*seat) { ran <- time.Since(began) })
		if waited := <-ran; waited != seatPatience {
			t.Errorf("waited %v for a place, want %v", waited, seatPatience)
		}
		for range maxHanging {
			q.add(func(*seat) { <-answer })
		}
		time.Sleep(time.Hour)
		q.add(func(*seat) { ran <- 0 })
		synctest.Wait()
		if q.hanging != maxHanging || q.working != workers || len(q.waiting) != 1 {
			t.Errorf("%d hang, %d work and %d wait; want %d, %d and 1", q.hanging, q.working, len(q.waiting), maxHanging, workers)
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
		var order []int // with the others, guarded by q.mu
		working, most := 0, 0
		for i := range n {
			q.add(func(s *seat) {
				s.settle()
				q.mu.Lock()
				order = append(order, i)
				working++
				most = max(most, working)
				q.mu.Unlock()
				time.Sleep(time.Hour) // an exec that takes long is no reason for more of them
				q.mu.Lock()
				working--
				q.mu.Unlock()
			})
			synctest.Wait()
		}
		time.Sleep(n * time.Hour)
		synctest.Wait()
		q.mu.Lock()
		defer q.mu.Unlock()
		if len(order) != n || !slices.IsSorted(order[:workers]) || most != workers {
			t.Errorf("%d starts, %d at a time, in the order %v; want %d, %d at a time", len(order), most, order, n, workers)
		}
		// Those who begin at the same instant may begin in any order among themselves.
		for i, start := range order {
			if start/workers != i/workers {
				t.Errorf("start %d came at place %d", start, i)
			}
		}
	})
}
