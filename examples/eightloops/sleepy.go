package main

import "time"

// nap is how long sleepy sleeps.
const nap = time.Second

// sleepy is busy with a pause. It takes little processor time, and is late by half a pause.
func sleepy(s *stage) error {
	next := time.Now().Add(s.beat)
	for len(s.running()) > 0 {
		time.Sleep(min(nap, s.beat))
		select {
		case <-s.interrupted:
			return nil
		default:
		}
		changed := false
		for _, c := range s.running() {
			fresh, err := c.read()
			if err != nil {
				return err
			}
			ended, err := c.end()
			if err != nil {
				return err
			}
			changed = changed || fresh || ended
		}
		if now := time.Now(); changed || now.After(next) {
			s.show()
			next = now.Add(s.beat)
		}
	}
	return nil
}
