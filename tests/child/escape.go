package child

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
)

// Escapes are the ways in which a process escapes from its supervisor, or tries to.
var Escapes = []string{
	"double-fork", // its parent has ended
	"setsid",      // a session of its own
	"setpgid",     // a process group of its own
	"deaf",        // ignores SIGTERM
	"daemon",      // all of these, and an empty environment
}

func escapes(args []string) error {
	cmd := childCommand("escaped", args[0])
	switch args[0] {
	case "double-fork":
		cmd = childCommand("parent", args[0])
	case "setsid":
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	case "setpgid":
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	case "daemon":
		cmd = childCommand("parent", args[0])
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		cmd.Env = []string{}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	return live(syscall.SIGTERM)
}

func parent(args []string) error { return childCommand("escaped", args[0]).Start() }

func escaped(args []string) error {
	until := syscall.SIGTERM
	if kind := args[0]; kind == "deaf" || kind == "daemon" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
		until = syscall.SIGUSR2
	}
	fmt.Printf("%s escaped %d\n", args[0], os.Getpid())
	return live(until)
}

// childCommand returns a command for this program in another mode. It needs nothing from the
// environment.
func childCommand(args ...string) *exec.Cmd {
	return &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{Name}, args...), Stdout: os.Stdout, Stderr: os.Stderr}
}

// unrelated runs processes unknown to superd, leaders of sessions, ten at a time.
func unrelated(args []string) error {
	var count int
	if _, err := fmt.Sscan(args[0], &count); err != nil {
		return err
	}
	turns := make(chan struct{}, count)
	for range count {
		turns <- struct{}{}
	}
	close(turns)
	var mu sync.Mutex
	var wrong error
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range turns {
				cmd := exec.Command("sleep", "0.01")
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				if err := cmd.Run(); err != nil {
					mu.Lock()
					wrong = errors.Join(wrong, err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	text := fmt.Sprintf("%d processes, failed: %v\n", count, wrong)
	return os.WriteFile(args[1], []byte(text), 0o644)
}
