//go:build crashpoints

// Package crashpoint names the instants at which tests kill superd. This is the half that kills.
package crashpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A plan is what the environment asks for. It is the process's own, as its environment is.
type plan struct {
	name       string
	prefix     bool
	role, once string

	mu      sync.Mutex
	left    int // passages until the end; 0: none
	current string
}

var planned = sync.OnceValue(func() *plan {
	spec := os.Getenv("SUPERD_CRASHPOINT")
	if spec == "" {
		return &plan{}
	}
	name, number, _ := strings.Cut(spec, ":")
	left, err := strconv.Atoi(number)
	if err != nil || left < 1 || name == "" {
		panic(fmt.Sprintf("SUPERD_CRASHPOINT must be NAME:N, got %q", spec))
	}
	p := &plan{left: left, role: os.Getenv("SUPERD_CRASHPOINT_ROLE"), once: os.Getenv("SUPERD_CRASHPOINT_ONCE")}
	p.name, p.prefix = strings.CutSuffix(name, "*")
	return p
})

// Here is the crashpoint of that name.
func Here(name string) { planned().pass(name) }

// SetRole tells which of superd's processes this is: keeper or supervisor.
func SetRole(role string) {
	p := planned()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = role
}

func (p *plan) pass(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	meant := name == p.name || p.prefix && strings.HasPrefix(name, p.name)
	if p.left == 0 || !meant || p.role != "" && p.role != p.current {
		return
	}
	if p.left--; p.left > 0 || !p.first() {
		return
	}
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // another thread may have got the signal, and this one a moment
}

// first reports whether nobody has crashed for the file of SUPERD_CRASHPOINT_ONCE, and has that so from now on.
func (p *plan) first() bool {
	if p.once == "" {
		return true
	}
	file, err := os.OpenFile(p.once, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false
	}
	defer file.Close()
	fmt.Fprintln(file, os.Getpid()) // whose end the test waits for
	return true
}
