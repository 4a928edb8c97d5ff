package single

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"
	"unsafe"

	"golang.org/x/sys/unix"

	"superd/internal/disposition"
)

// childName is the name, in place of the command's, of the process that becomes the command.
const childName = "superd-single"

// A childPlan is what has to be done before the command is executed.
type childPlan struct {
	style    style
	terminal bool             // the command gets the terminal
	blocked  disposition.Mask // of the command, as its parent was started with
	ignored  []syscall.Signal // likewise
}

// args returns the arguments of the process that becomes the command.
func (c *childPlan) args(command []string) []string {
	parts := []string{strconv.Itoa(int(c.style)), strconv.FormatBool(c.terminal), c.blocked.String()}
	for _, sig := range c.ignored {
		parts = append(parts, strconv.Itoa(int(sig)))
	}
	return append([]string{childName, strings.Join(parts, ",")}, command...)
}

// parsePlan reads what args has returned.
func parsePlan(text string) (c childPlan, ok bool) {
	parts := strings.Split(text, ",")
	if len(parts) < 3 {
		return c, false
	}
	n, err := strconv.Atoi(parts[0])
	terminal, terminalErr := strconv.ParseBool(parts[1])
	blocked, blockedErr := disposition.ParseMask(parts[2])
	c.style, c.terminal, c.blocked = style(n), terminal, blocked
	for _, part := range parts[3:] {
		sig, err := strconv.Atoi(part)
		if err != nil {
			return c, false
		}
		c.ignored = append(c.ignored, syscall.Signal(sig))
	}
	return c, err == nil && terminalErr == nil && blockedErr == nil
}

// BecomeCommand does not return if this process was started to become the command.
func BecomeCommand() {
	if len(os.Args) < 3 || os.Args[0] != childName {
		return
	}
	if plan, ok := parsePlan(os.Args[1]); ok {
		os.Exit(plan.execute(os.Args[2:]))
	}
	os.Stderr.WriteString(childName + " is internal to superd\n")
	os.Exit(2)
}

// execute executes the command. It returns the exit status if it can't.
func (c *childPlan) execute(command []string) (status int) {
	runtime.LockOSThread() // the mask of this thread becomes that of the command
	if c.terminal {
		c.takeTerminal()
	}
	// All others are the default action after the exec
	for _, sig := range c.ignored {
		_, _ = disposition.Set(sig, disposition.Ignore())
	}
	_, _ = disposition.SetBlocked(c.blocked)
	err := execSearched(command)
	if c.style == styleDumbInit {
		fmt.Fprintf(os.Stderr, "[dumb-init] %s: %s\n", command[0], capitalized(err.Error()))
		return statusDumbInitExec
	}
	o := options{style: c.style, name: "superd"}
	if c.style == styleTini {
		o.name = "tini"
	}
	o.printf("FATAL", "execute %s: %v", command[0], err)
	switch {
	case errors.Is(err, unix.ENOENT):
		return statusNotFound
	case errors.Is(err, unix.EACCES):
		return statusNotExecutable
	}
	return statusFailed
}

// takeTerminal makes the terminal that of this process: the controlling one of its new session, or
// the one of which its new process group is in the foreground. SIGTTOU is blocked.
//
// Source: ioctl_tty(2), tcsetpgrp(3).
func (c *childPlan) takeTerminal() {
	if c.style == styleDumbInit {
		_ = unix.IoctlSetInt(0, unix.TIOCSCTTY, 0)
		return
	}
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, os.Getpid())
}

// capitalized returns text as strerror(3) has it.
func capitalized(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// defaultPath is where a command is searched without PATH.
const defaultPath = "/usr/local/bin:/bin:/usr/bin"

// execSearched executes a command, which is searched in PATH. It returns only on failure.
//
// Source: execvp(3).
func execSearched(command []string) error {
	name := command[0]
	if strings.Contains(name, "/") {
		return execFile(name, command)
	}
	if name == "" {
		return unix.ENOENT
	}
	path, set := os.LookupEnv("PATH")
	if !set {
		path = defaultPath
	}
	var result error = unix.ENOENT
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		switch err := execFile(dir+"/"+name, command); {
		case errors.Is(err, unix.EACCES):
			result = err // another directory may have one that can be executed
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		default:
			return err
		}
	}
	return result
}

// execFile executes a file, or has a shell execute it if it is a script that names no interpreter.
func execFile(path string, command []string) error {
	err := syscall.Exec(path, command, os.Environ())
	if errors.Is(err, unix.ENOEXEC) {
		const shell = "/bin/sh"
		return syscall.Exec(shell, append([]string{shell, path}, command[1:]...), os.Environ())
	}
	return err
}

// ignoredSignals returns the signals that this process was started with as ignored, as far as Go
// has left them alone: SIGHUP, SIGINT and those of job control.
func ignoredSignals() (ignored []syscall.Signal, err error) {
	for sig := syscall.Signal(1); sig <= disposition.MaxSignal; sig++ {
		now, err := disposition.Get(sig)
		if err != nil {
			return nil, fmt.Errorf("read the disposition of signal %d: %w", int(sig), err)
		}
		if now.Ignores() {
			ignored = append(ignored, sig)
		}
	}
	return ignored, nil
}

func uintptrOf[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }
