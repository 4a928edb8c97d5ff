// Package crashlog keeps the stacks of a supervisor that crashes: a file of the runtime directory.
package crashlog

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"superd/signals"
)

const (
	newCrashFile = "crash.new" // stacks of this process when it crashes
	oldCrashFile = "crash.txt" // stacks of the last process that crashed
	maxCrashLog  = 256 << 10   // bytes kept of either

	abortPause = 100 * time.Millisecond // for the write to standard error
)

// Open opens a file in the runtime directory dir for the stacks of a panic or of SIGABRT,
// which also go to standard error. Stacks that a predecessor left there are moved to crash.txt and
// logged. flush is called before SIGABRT ends superd; it writes the queued messages. forget removes
// the file at an orderly end.
func Open(dir string, log *slog.Logger, flush func()) (forget func(), err error) {
	path := filepath.Join(dir, newCrashFile)
	logCrashLog(path, filepath.Join(dir, oldCrashFile), log)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open crash log: %w", err)
	}
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return nil, fmt.Errorf("write crash log to %s: %w", path, err)
	}
	aborted := make(chan os.Signal, 1)
	signal.Notify(aborted, unix.SIGABRT)
	go func() {
		<-aborted
		abort(f, flush)
	}()
	return func() { os.Remove(path) }, nil
}

// abort writes the stacks of all goroutines to out and ends superd by SIGABRT. Go's own handler of
// that signal does not work here: its threads send each other SIGQUIT, which superd handles itself.
func abort(out io.Writer, flush func()) {
	flush()
	stacks := make([]byte, maxCrashLog)
	text := append([]byte("SIGABRT: superd ends; its goroutines:\n\n"), stacks[:runtime.Stack(stacks, true)]...)
	out.Write(text)
	go os.Stderr.Write(text) // may block if the pipe has no reader
	time.Sleep(abortPause)
	signals.Die(unix.SIGABRT)
}

// logCrashLog moves the first maxCrashLog bytes of the file source to the file target, and logs
// their first line. It does nothing if source is missing or empty.
func logCrashLog(source, target string, log *slog.Logger) {
	f, err := os.Open(source)
	if err != nil {
		return
	}
	defer f.Close()
	stacks, err := io.ReadAll(io.LimitReader(f, maxCrashLog))
	if len(stacks) == 0 {
		return
	}
	if err == nil {
		err = os.WriteFile(target+".new", stacks, 0o600)
	}
	if err == nil {
		err = os.Rename(target+".new", target)
	}
	first, _, _ := bytes.Cut(stacks, []byte("\n"))
	if err != nil {
		log.Error("superd crashed before, crash log not stored", "first_line", string(first), "error", err)
		return
	}
	log.Error("superd crashed before", "first_line", string(first), "file", target)
}
