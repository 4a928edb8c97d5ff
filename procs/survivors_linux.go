package procs

import (
	"fmt"
	"os"
	"strings"
)

// A Survivor is a living process that an earlier superd of the same runtime directory started.
type Survivor struct {
	Pid      int
	Instance string
}

// A SurvivorsError is a start refused because programs of an earlier superd still live.
type SurvivorsError struct {
	RuntimeDir string
	Survivors  []Survivor
}

func (e *SurvivorsError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "start programs: programs of an earlier superd on %s still run; end them first, or they would run twice:", e.RuntimeDir)
	const shown = 10
	for i, s := range e.Survivors {
		if i == shown {
			fmt.Fprintf(&b, "\n  … and %d more", len(e.Survivors)-shown)
			break
		}
		fmt.Fprintf(&b, "\n  %s: process %d", s.Instance, s.Pid)
	}
	return b.String()
}

// FindSurvivors looks through /proc for processes that carry an invocation id and the runtime directory in their
// environment. It returns nil when there are none.
func FindSurvivors(runtimeDir string) error {
	pids, err := allPids()
	if err != nil {
		return err
	}
	var found []Survivor
	for _, pid := range pids {
		var instance, dir string
		invoked := false
		for key, value := range environOf(pid) {
			switch key {
			case "SUPERD_INVOCATION_ID":
				invoked = value != ""
			case "SUPERD_INSTANCE":
				instance = value
			case "SUPERD_OWNER":
				dir = value
			}
		}
		if invoked && dir == runtimeDir && pid != os.Getpid() {
			found = append(found, Survivor{Pid: pid, Instance: instance})
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &SurvivorsError{RuntimeDir: runtimeDir, Survivors: found}
}
