package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"

	"superd/control"
	"superd/procs"
	"superd/procs/fsm"
)

// manyStatuses returns that many instances, whose main process is this one.
func manyStatuses(count int) []procs.Status {
	all := make([]procs.Status, count)
	for i := range all {
		all[i] = procs.Status{Name: fmt.Sprint("p", i), State: fsm.Running, Main: procs.MainStatus{Pid: os.Getpid()}}
	}
	return all
}

// TestStatusInParts: all instances are listed in order, whichever goroutine has examined which.
func TestStatusInParts(t *testing.T) {
	h := newHarness(t)
	for _, count := range []int{0, 1, statusPart, statusPart + 1, 2 * statusPart, 5*statusPart - 1, 1000} {
		h.on(func() { h.fake.all = manyStatuses(count) })
		_, body := h.request("GET", "/v1/status", "")
		var got []control.Status
		if err := json.Unmarshal([]byte(body), &got); err != nil || got == nil || len(got) != count || body[len(body)-1] != '\n' {
			t.Fatalf("status of %d instances: %d, %v, %.40q", count, len(got), err, body)
		}
		for i := range got {
			if want := fmt.Sprint("p", i); got[i].Name != want {
				t.Fatalf("status of %d instances: %s at %d, want %s", count, got[i].Name, i, want)
			}
		}
	}
}

// TestStatusOfDisconnectedClient: the work for a client that has gone ends.
func TestStatusOfDisconnectedClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		s := New(Options{Log: slog.New(slog.DiscardHandler), TreeUsages: noUsages})
		for range s.statuses(manyStatuses(1000), nil) {
			break
		}
	})
}
