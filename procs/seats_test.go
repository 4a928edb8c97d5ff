package procs

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSeatsAreNotHeldByThoseWhoHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSeats()
		var hang []func()
		for range workers {
			hang = append(hang, s.take())
		}
		began := time.Now()
		s.take()() // waits until the first ones count as hanging
		if waited := time.Since(began); waited != seatPatience {
			t.Errorf("waited %v for a seat, want %v", waited, seatPatience)
		}
		for range maxHanging - workers {
			hang = append(hang, s.take())
		}
		time.Sleep(seatPatience)
		for range workers {
			hang = append(hang, s.take()) // from now on who hangs keeps his seat
		}
		time.Sleep(time.Hour)
		got := make(chan func(), 1)
		go func() { got <- s.take() }()
		synctest.Wait()
		if len(got) != 0 {
			t.Errorf("a seat was to be had while %d workers hang", len(hang))
		}
		for _, leave := range hang {
			leave()
		}
		synctest.Wait()
		(<-got)()
		if s.hanging != 0 || len(s.free) != 0 {
			t.Errorf("%d hang, %d seats are taken; want none", s.hanging, len(s.free))
		}
	})
}
