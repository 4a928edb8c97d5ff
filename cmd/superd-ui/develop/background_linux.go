package develop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"superd/control"
	"superd/develop/project"
	"superd/internal/terminal"
)

const (
	beginTimeout = 30 * time.Second      // for a superd in the background to answer
	pollInterval = 20 * time.Millisecond // between two attempts
	tailBytes    = 4 << 10               // of the messages of a superd that did not begin
)

// start runs the project in the background, and returns when its superd answers.
func (f *upFlags) start(ctx context.Context, p *project.Project, e Errors) error {
	pid, err := begin(ctx, f.superd, p, "--log-level="+f.logLevel)
	if err != nil {
		if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.ExitCode() == 2 {
			return e.Usage(err)
		}
		return err
	}
	fmt.Fprintf(f.stdout, "%s runs in the background, pid %d; `superd logs -f` shows its lines, `superd down` ends it\n",
		terminal.Sanitize(p.File), pid)
	return nil
}

// begin runs the superd of a project in a session of its own, and returns the pid of its keeper
// when it answers.
func begin(ctx context.Context, superd string, p *project.Project, args ...string) (pid int, err error) {
	messages, err := os.OpenFile(p.OwnLog(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("start superd: %w", err)
	}
	defer messages.Close()
	// It goes on when this process and ctx have ended
	cmd := exec.CommandContext(context.WithoutCancel(ctx), superd, append(append(runArgs(p), "--output=never"), args...)...)
	cmd.Dir = p.Directory
	cmd.Stdout, cmd.Stderr = messages, messages
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start superd: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(beginTimeout)
	for {
		if p.State() == project.Running {
			client := control.NewClient(p.Socket(), control.WithTimeout(beginTimeout))
			if _, err := client.Version(ctx); err == nil {
				return cmd.Process.Pid, nil
			}
		}
		select {
		case err := <-ended:
			if err == nil { // all of its programs have ended
				return cmd.Process.Pid, nil
			}
			return 0, fmt.Errorf("start superd: %w:\n%s", err, tail(messages))
		case <-deadline:
			return 0, fmt.Errorf("start superd: it does not answer after %v: its messages are in %s", beginTimeout, p.OwnLog())
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pollInterval):
		}
	}
}

// tail returns the end of a file.
func tail(file *os.File) string {
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-tailBytes), tailBytes))
	return string(text)
}
