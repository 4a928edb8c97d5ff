package procs

import (
	"syscall"
	"time"

	"superd/config"
	"superd/pidfd"
)

// testProgram returns the definition of a program that always restarts.
func testProgram() *config.Program {
	return &config.Program{
		Name:    "web",
		Command: []string{"/bin/web"},
		Settings: &config.Settings{
			Replicas:         1,
			Autostart:        true,
			Restart:          config.RestartAlways,
			SuccessExitCodes: []int{0},
			Backoff:          config.Backoff{Initial: 100 * time.Millisecond, Max: time.Minute, Factor: 2, ResetAfter: 10 * time.Second},
			StartTimeout:     30 * time.Second,
			StopSignal:       syscall.SIGTERM,
			StopTimeout:      10 * time.Second,
			KillMode:         config.KillTree,
		},
	}
}

var (
	exitZero  = pidfd.Exit{Known: true}
	exitThree = pidfd.Exit{Known: true, Code: 3}
)
