package server

import (
	"encoding/json"
	"os"
	"testing"

	"superd/control"
)

func TestTreeShowsOnlyThoseWhoAreMeant(t *testing.T) {
	h := newHarness(t)
	status, body := h.request("GET", "/v1/tree?name=web", "")
	if got := <-h.fake.calls; got != "tree [web]" {
		t.Errorf("the supervisor was asked for %q, want tree [web]", got)
	}
	var all []control.Branch
	if err := json.Unmarshal([]byte(body), &all); status != 200 || err != nil {
		t.Fatalf("tree: %d %s, %v", status, body, err)
	}
	// The second member has this process's pid and another start time: it is somebody else.
	if len(all) != 1 || len(all[0].Processes) != 1 {
		t.Fatalf("tree: %s, want one process", body)
	}
	p := all[0].Processes[0]
	if p.Pid != os.Getpid() || p.Parent != os.Getppid() || p.RSS <= 0 || p.Command == "" || *all[0].Pid != p.Pid {
		t.Errorf("tree: %s, want this process %d", body, os.Getpid())
	}
	if status, body := h.request("GET", "/v1/tree?name=nobody", ""); status != 404 {
		t.Errorf("tree of an unknown name: %d %s, want 404", status, body)
	}
}
