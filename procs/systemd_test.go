package procs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestSystemdSendsEveryStateAndTheLastStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sent []string
		n := newSystemd(func(state string) {
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, state)
		})
		n.Ready("0 instances")
		synctest.Wait()
		for i := range 1000 {
			n.Status(fmt.Sprintf("%d instances", i))
			if i%100 == 0 {
				synctest.Wait()
			}
		}
		n.Reloading()
		n.Ready("999 instances")
		time.Sleep(statusPause)
		n.Stopping()
		n.Close(time.Minute)
		mu.Lock()
		defer mu.Unlock()

		var states, statuses []string
		for _, s := range sent {
			if text, ok := strings.CutPrefix(s, "STATUS="); ok {
				statuses = append(statuses, text)
			} else {
				state, _, _ := strings.Cut(s, "\n")
				states = append(states, state)
			}
		}
		if want := []string{"READY=1", "RELOADING=1", "READY=1", "STOPPING=1"}; !slices.Equal(states, want) {
			t.Errorf("sent states %q, want %q", states, want)
		}
		if len(statuses) > 5 || statuses[len(statuses)-1] != "999 instances" {
			t.Errorf("sent statuses %q, want few, the last one 999 instances", statuses)
		}
	})
}
