package server

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"superd/control"
)

func TestTreeShowsOnlyNamedPrograms(t *testing.T) {
	h := newHarness(t)
	status, body := h.request("GET", "/v1/tree?name=web", "")
	if got := <-h.fake.calls; got != "tree [web]" {
		t.Errorf("the supervisor was asked for %q, want tree [web]", got)
	}
	var all []control.ProcessTree
	if err := json.Unmarshal([]byte(body), &all); status != 200 || err != nil {
		t.Fatalf("tree: %d %s, %v", status, body, err)
	}
	// The second member has this process's pid and another start time: it is another process.
	if len(all) != 1 || len(all[0].Processes) != 1 {
		t.Fatalf("tree: %s, want one process", body)
	}
	p := all[0].Processes[0]
	if p.Pid != os.Getpid() || p.Parent != os.Getppid() || p.RSS <= 0 || p.Threads < 1 || p.Command == "" || *all[0].Pid != p.Pid {
		t.Errorf("tree: %s, want this process %d", body, os.Getpid())
	}
	if status, body := h.request("GET", "/v1/tree?name=nobody", ""); status != 404 {
		t.Errorf("tree of an unknown name: %d %s, want 404", status, body)
	}
}

// TestTreeOfProcessesThatHang: processes whose arguments can't be read are shown without, and delay
// no others.
func TestTreeOfProcessesThatHang(t *testing.T) {
	release := make(chan struct{})
	h := newHarness(t, func(s *Server) {
		s.readArguments = func(int) ([]byte, error) { <-release; return nil, nil }
	})
	defer close(release)
	for range maxArgumentReads + 2 {
		status, body := h.request("GET", "/v1/tree?name=web", "")
		<-h.fake.calls
		var all []control.ProcessTree
		if err := json.Unmarshal([]byte(body), &all); status != 200 || err != nil || len(all) != 1 || len(all[0].Processes) != 1 {
			t.Fatalf("tree: %d %s, %v", status, body, err)
		}
		if p := all[0].Processes[0]; !strings.HasPrefix(p.Command, "[") || p.RSS <= 0 {
			t.Errorf("tree: %s, want this process by its name", body)
		}
	}
	if all, err := h.client.Status(t.Context(), []string{"web"}); err != nil || len(all) != 1 {
		t.Errorf("status: %+v, %v, want that of web", all, err)
	}
}
