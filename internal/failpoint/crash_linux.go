//go:build failpoints

// Package failpoint names the points in the code at which tests kill superd. This file has the
// build that kills.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A plan is what the environment of the process requests.
type plan struct {
	name       string
	prefix     bool
	role, once string

	mu        sync.Mutex
	remaining int // passages until the kill; 0: none
	current   string
}

var planned = sync.OnceValue(func() *plan {
	spec := os.Getenv("SUPERD_FAILPOINT")
	if spec == "" {
		return &plan{}
	}
	name, number, _ := strings.Cut(spec, ":")
	remaining, err := strconv.Atoi(number)
	if err != nil || remaining < 1 || name == "" {
		panic(fmt.Sprintf("SUPERD_FAILPOINT must be NAME:N, got %q", spec))
	}
	p := &plan{remaining: remaining, role: os.Getenv("SUPERD_FAILPOINT_ROLE"), once: os.Getenv("SUPERD_FAILPOINT_ONCE")}
	p.name, p.prefix = strings.CutSuffix(name, "*")
	return p
})

// Here marks the failpoint with that name.
func Here(name string) { planned().pass(name) }

// SetRole sets the role of this process: keeper or supervisor.
func SetRole(role string) {
	p := planned()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = role
}

func (p *plan) pass(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	matches := name == p.name || p.prefix && strings.HasPrefix(name, p.name)
	if p.remaining == 0 || !matches || p.role != "" && p.role != p.current {
		return
	}
	if p.remaining--; p.remaining > 0 || !p.first() {
		return
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // another thread may handle the signal first
}

// first reports whether no process has created the file of SUPERD_FAILPOINT_ONCE yet, and creates
// it.
func (p *plan) first() bool {
	if p.once == "" {
		return true
	}
	file, err := os.OpenFile(p.once, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	defer file.Close()
	fmt.Fprintln(file, os.Getpid()) // the test waits for the end of this pid
	return true
}
