package tests

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"superd/tests/harness"
)

// TestStopReportsExit: the output of a stop says how the program ended.
func TestStopReportsExit(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		stop_timeout = "300ms"
		[program.polite]
		command = "child signals DIR/gate"
		stop_signal = "INT"
		stop_timeout = "1h"
		[program.quick]
		command = "sleep infinity"
		[program.deaf]
		command = "child deaf"
		[program.down]
		command = "true"
		autostart = false
		`)
	open := s.Gate("gate")
	s.Start()
	s.WaitLog("polite", "ready")
	s.WaitLog("deaf", "ready")
	answers := make(chan harness.Result)
	go func() { answers <- s.Ctl("stop", "polite") }()
	s.WaitLog("polite", "got interrupt\n")
	open()
	for name, r := range map[string]harness.Result{
		"exit status 0":   <-answers,
		"SIGTERM":         s.Ctl("stop", "quick"),
		"300ms":           s.Ctl("stop", "deaf"), // its time before the SIGKILL
		"already stopped": s.Ctl("stop", "down"),
	} {
		if r.Exit != 0 || !strings.Contains(r.Out, name) {
			t.Errorf("ctl stop: exit status %d, %q, want 0 and %q in it", r.Exit, r.Out, name)
		}
	}
}

// TestShutdownOfStoppedAndTraced: a stopped program and a traced one do not delay a shutdown.
func TestShutdownOfStoppedAndTraced(t *testing.T) {
	t.Parallel()
	s := harness.NewSite(t, `
		[defaults]
		stop_timeout = "300ms"
		[program.stopped]
		command = ["sh", "-c", "echo ready; kill -STOP $$$$; exec sleep infinity"]
		[program.traced]
		command = "strace -o /dev/null child deaf"
		[program.web]
		command = "sleep infinity"
		`)
	d := s.Start()
	s.WaitLog("stopped", "ready")
	s.WaitLog("traced", "ready")
	d.Signal(syscall.SIGTERM)
	if exit := d.Wait(); exit != 0 {
		t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
	}
	if processes := s.Processes(); len(processes) != 0 {
		t.Errorf("left behind: %v", processes)
	}
}

// TestRandomCommands: many clients give commands and reloads at any time. The last desired state is
// reached, and a shutdown among them ends.
func TestRandomCommands(t *testing.T) {
	bothTrees(t, func(t *testing.T, options ...func(*exec.Cmd)) {
		const programs, clients, commands = 6, 4, 60
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		config := func(version int) string {
			return fmt.Sprintf(`
				[defaults]
				stop_timeout = "100ms"
				backoff = { initial = "1ms", max = "20ms" }
				[program.p0]
				command = "sleep infinity"
				[program.p1]
				command = ["sh", "-c", "exit 1"]
				[program.p2]
				command = "child deaf"
				[program.p3]
				command = "child forks 2"
				pre_start = [["sleep", "0.01"]]
				[program.p4]
				command = "sleep 100%d"
				[program.p5]
				command = "child escapes daemon"
				post_stop = [["sleep", "0.01"]]
				`, version)
		}
		s := harness.NewSite(t, config(0))
		d := s.Start(options...)
		client := func(n int, over func(i int) bool) {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for i := 0; !over(i); i++ {
				path := "/v1/reload"
				if rng.IntN(10) > 0 {
					path = fmt.Sprintf("/v1/programs/p%d/%s?wait=0", rng.IntN(programs), []string{"start", "stop", "restart"}[rng.IntN(3)])
				}
				// A reload may be refused while another is under way, and any command when superd
				// has ended (503).
				if code, body, _ := s.Request("POST", path); code >= 500 && code != 503 {
					t.Errorf("POST %s: %d %s", path, code, body)
				}
			}
		}
		var all sync.WaitGroup
		for n := range clients {
			all.Go(func() { client(n, func(i int) bool { return i == commands }) })
		}
		for version := range 5 {
			s.Configure(config(version))
		}
		all.Wait()
		s.MustCtl("reload")

		want := map[string]bool{}
		rng := rand.New(rand.NewPCG(seed, clients))
		for n := range programs {
			name := fmt.Sprintf("p%d", n)
			want[name] = rng.IntN(2) == 0
			verb := map[bool]string{true: "restart", false: "stop"}[want[name]]
			s.MustCtl(verb, "--no-wait", name)
		}
		s.WaitAll("as asked for last", func(st harness.Status) bool {
			switch {
			case !want[st.Name]:
				return st.State == "stopped" && st.Pid == 0
			case st.Name == "p1":
				return st.State == "backoff" || st.State == "running" || st.State == "starting"
			}
			return st.State == "running"
		})

		for n := range clients {
			all.Go(func() { client(clients+1+n, func(int) bool { return d.Ended() }) })
		}
		s.WaitStatus("p1", "has been asked for something", func(harness.Status) bool { return true })
		d.Signal(syscall.SIGTERM)
		exit := d.Wait()
		all.Wait()
		if exit != 0 {
			t.Errorf("exit status %d, want 0\n%s", exit, d.ErrOut)
		}
		if processes := s.Processes(); len(processes) != 0 {
			t.Errorf("left behind: %v", processes)
		}
	})
}
