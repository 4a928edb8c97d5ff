package develop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"superd/control"
	"superd/develop/plan"
	"superd/internal/procfs"
	"superd/internal/terminal"
	"superd/pidfd"
	"superd/procs/linux/listener"
)

const (
	endTimeout  = 5 * time.Second // for a process to end by SIGTERM, and again by SIGKILL
	shownOfLine = 60              // columns of a command line
)

// A taken port is one that another process listens on.
type taken struct {
	plan.Port
	holders []listener.Process
}

// freePorts says which ports of the programs are in use, and by whom. With --kill-port it ends
// those processes, if the user agrees.
func (f *upFlags) freePorts(ctx context.Context, ports []plan.Port) error {
	all, err := takenPorts(ports)
	if err != nil {
		fmt.Fprintf(f.stderr, "superd: can't see which ports are in use: %v\n", err)
		return nil
	}
	for _, t := range all {
		for _, h := range t.holders {
			if err := f.freePort(ctx, t.Port, h); err != nil {
				return fmt.Errorf("free port %d: %w", t.Number, err)
			}
		}
		if len(t.holders) == 0 {
			fmt.Fprintf(f.stderr, "superd: port %d, %s, is in use by a process of another user\n", t.Number, t.Of)
		}
	}
	return nil
}

func takenPorts(ports []plan.Port) (all []taken, err error) {
	numbers := make([]int, len(ports))
	for i, p := range ports {
		numbers[i] = p.Number
	}
	found, err := listener.OnPorts(numbers)
	for _, p := range ports {
		if holders, isTaken := found[p.Number]; isTaken {
			all = append(all, taken{p, holders})
		}
	}
	return all, err
}

// freePort deals with one process that has a port.
func (f *upFlags) freePort(ctx context.Context, port plan.Port, h listener.Process) error {
	stat, err := procfs.ReadStat(h.Pid)
	if err != nil {
		return nil //nolint:nilerr // it has ended since
	}
	process, err := procfs.OpenProcess(&stat)
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	defer process.Close()
	who := fmt.Sprintf("pid %d (%s)", h.Pid, commandLine(h))
	what := fmt.Sprintf("port %d, %s, is in use by %s", port.Number, port.Of, who)
	if name, dir := ownerOf(h.Pid); name != "" {
		fmt.Fprintf(f.stderr, "superd: %s, the program %s of another superd: `superd ctl --runtime-dir %s stop %[2]s` ends it; --port begins with another port\n",
			what, terminal.Sanitize(name), terminal.Sanitize(dir))
		return nil
	}
	switch {
	case !f.killPort:
		fmt.Fprintf(f.stderr, "superd: %s; --kill-port asks whether to end it\n", what)
		return nil
	case f.yes:
		fmt.Fprintf(f.stderr, "superd: %s: ending it\n", what)
	default:
		yes, err := f.ask(fmt.Sprintf("superd: %s. End it?", what))
		if err != nil || !yes {
			return err
		}
	}
	return end(ctx, process, who)
}

// ask asks a question that is answered with yes or no; no is the default.
func (f *upFlags) ask(question string) (yes bool, err error) {
	if !terminal.IsTerminal(f.stdin) {
		return false, errors.New("can't ask without a terminal: --yes ends the process without a question")
	}
	fmt.Fprint(f.stderr, question+" [y/N] ")
	if f.answers == nil {
		f.answers = bufio.NewReader(f.stdin)
	}
	answer, err := f.answers.ReadString('\n')
	if err != nil {
		fmt.Fprintln(f.stderr)
		return false, errDeclined
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// end ends a process by SIGTERM, and by SIGKILL if it does not end in time.
func end(ctx context.Context, p *pidfd.Process, who string) error {
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := p.Signal(signal); err != nil {
			if errors.Is(err, unix.ESRCH) {
				return nil
			}
			return fmt.Errorf("send %s to %s: %w", unix.SignalName(signal), who, err)
		}
		if ended, err := hasEnded(ctx, p); ended || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s does not end: end it, or begin with another port: --port", who)
}

// hasEnded waits until a process has ended, or the time-out.
func hasEnded(ctx context.Context, p *pidfd.Process) (bool, error) {
	for deadline := time.Now().Add(endTimeout); time.Now().Before(deadline); {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.FD()), Events: unix.POLLIN}}, int(pollInterval.Milliseconds()))
		if err == nil && n > 0 {
			return true, nil
		}
	}
	return false, nil
}

// commandLine returns the command line of a process for one line of a terminal.
func commandLine(h listener.Process) string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(h.Pid) + "/cmdline")
	line := strings.TrimSpace(string(bytes.ReplaceAll(text, []byte{0}, []byte{' '})))
	if err != nil || line == "" {
		line = h.Command
	}
	return terminal.Cut(terminal.Sanitize(line), shownOfLine)
}

// ownerOf returns the instance that a process belongs to, and the runtime directory of its superd;
// "" if no superd that runs has it.
func ownerOf(pid int) (instance, dir string) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ") // of another user: not known
	vars := map[string]string{}
	for assignment := range bytes.SplitSeq(text, []byte{0}) {
		name, value, _ := strings.Cut(string(assignment), "=")
		vars[name] = value
	}
	dir = vars["SUPERD_OWNER"]
	conn, err := net.DialTimeout("unix", filepath.Join(dir, control.SocketName), answerTimeout)
	if dir == "" || err != nil {
		return "", ""
	}
	_ = conn.Close()
	return vars["SUPERD_INSTANCE"], dir
}

// sorted returns the keys of a map in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
