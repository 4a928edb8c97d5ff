package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"superd/tests/harness"
)

// generation returns program names that no other generation has, and their tables: each program has
// two FIFOs and a notify socket in the runtime directory.
func generation(number, programs int) (names []string, tables string) {
	for i := range programs {
		name := fmt.Sprintf("p%dx%d", number, i)
		names = append(names, name)
		tables += fmt.Sprintf(`
			[program.%s]
			command = "sleep infinity"
			watchdog = "1h"
			log = { stderr = "separate" }
			`, name)
	}
	return names, tables
}

// runtimeNames returns the names in the directories of FIFOs and of notify sockets.
func runtimeNames(s *harness.Site) (fifos, sockets []string) {
	s.T.Helper()
	for dir, names := range map[string]*[]string{"fifo": &fifos, "notify": &sockets} {
		entries, err := os.ReadDir(filepath.Join(s.RuntimeDir, dir))
		if err != nil {
			s.T.Fatal(err)
		}
		for _, entry := range entries {
			*names = append(*names, entry.Name())
		}
	}
	return fifos, sockets
}

// waitOwnNames waits until those programs run, and the runtime directory has their names only.
func waitOwnNames(s *harness.Site, programs []string) {
	s.T.Helper()
	var fifos, sockets []string
	for _, name := range programs {
		s.WaitState(name, "running")
		fifos = append(fifos, name, name+":stderr")
		sockets = append(sockets, filepath.Base(s.NotifySocket(name)))
	}
	slices.Sort(fifos)
	slices.Sort(sockets)
	var haveFIFOs, haveSockets []string
	defer func() {
		if s.T.Failed() {
			s.T.Errorf("names of %d FIFOs and %d notify sockets, want %d and %d",
				len(haveFIFOs), len(haveSockets), len(fifos), len(sockets))
		}
	}()
	harness.Until(s.T, "names are those of the programs", func() bool {
		haveFIFOs, haveSockets = runtimeNames(s)
		return slices.Equal(haveFIFOs, fifos) && slices.Equal(haveSockets, sockets)
	})
}

// TestNamesOfRemovedPrograms: FIFOs and notify sockets are removed with their program.
func TestNamesOfRemovedPrograms(t *testing.T) {
	t.Parallel()
	const reloads, programs = 6, 20
	_, tables := generation(0, programs)
	s := harness.NewSite(t, tables)
	s.Start()
	var names []string
	for i := range reloads {
		names, tables = generation(i+1, programs)
		s.Configure(tables)
		s.MustCtl("reload")
	}
	waitOwnNames(s, names)

	// A program that is added again at once has new names; output and notifications arrive by both.
	names, tables = generation(reloads, 1)
	s.Configure(tables)
	s.MustCtl("reload")
	for i := range 5 {
		s.Configure(tables + fmt.Sprintf(`
			[program.again]
			command = ["sh", "-c", "echo round %d; systemd-notify --ready --status=%d; exec sleep infinity"]
			ready = { notify = true }
			log = { stderr = "separate" }
			`, i, i))
		s.MustCtl("reload")
		s.WaitLog("again", fmt.Sprintf("round %d\n", i))
		if st := s.WaitState("again", "running"); st.StatusText != fmt.Sprint(i) {
			t.Errorf("round %d: status text %q", i, st.StatusText)
		}
		waitOwnNames(s, append([]string{"again"}, names...))
		s.Configure(tables)
		s.MustCtl("reload")
	}
	waitOwnNames(s, names)
	if got := strings.Count(s.Log("again"), "round"); got != 5 {
		t.Errorf("%d rounds in the log of what was added again, want 5", got)
	}
}

// TestLeftoverNamesAreRemoved: the successor of a killed superd removes the names left over,
// whatever its configuration.
func TestLeftoverNamesAreRemoved(t *testing.T) {
	t.Parallel()
	const programs = 5
	_, tables := generation(0, programs)
	s := harness.NewSite(t, tables)
	d := s.Start()
	s.WaitRunning()
	_, tables = generation(1, programs)
	s.Configure(tables)
	s.MustCtl("reload")
	d.Kill()
	for _, name := range []string{"fifo/gone", "fifo/gone:stdin", "notify/gone", "notify/new-gone"} {
		if err := os.WriteFile(filepath.Join(s.RuntimeDir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	names, tables := generation(2, programs)
	s.Configure(tables)
	s.Start()
	waitOwnNames(s, names)
}
