package main

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
	newWordsFile = "crash.new" // what this superd says when it crashes
	oldWordsFile = "crash.txt" // what the last one that crashed has said
	maxWords     = 256 << 10   // bytes of it that are kept

	abortPause = 100 * time.Millisecond // for what is written to standard error
)

// keepLastWords has the stacks of a panic, or of SIGABRT, written to a file of the runtime directory, beside standard error. What an earlier
// superd has left there is kept as crash.txt and told. Before SIGABRT ends superd, pass has the messages passed on that wait. forget removes the
// file at an orderly end.
func keepLastWords(dir string, log *slog.Logger, pass func()) (forget func(), err error) {
	path := filepath.Join(dir, newWordsFile)
	tellLastWords(path, filepath.Join(dir, oldWordsFile), log)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep last words: %w", err)
	}
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return nil, fmt.Errorf("keep last words in %s: %w", path, err)
	}
	aborted := make(chan os.Signal, 1)
	signal.Notify(aborted, unix.SIGABRT)
	go func() {
		<-aborted
		abort(f, pass)
	}()
	return func() { os.Remove(path) }, nil
}

// abort writes down what all goroutines do and ends superd by SIGABRT. Go's own way with that signal has threads pass SIGQUIT on to each
// other, which superd handles itself.
func abort(words io.Writer, pass func()) {
	pass()
	stacks := make([]byte, maxWords)
	text := append([]byte("SIGABRT: superd is to end; its goroutines are:\n\n"), stacks[:runtime.Stack(stacks, true)]...)
	words.Write(text)
	go os.Stderr.Write(text) // nobody may be reading
	time.Sleep(abortPause)
	signals.Die(unix.SIGABRT)
}

// tellLastWords moves what is in said, from its beginning, to kept.
func tellLastWords(said, kept string, log *slog.Logger) {
	f, err := os.Open(said)
	if err != nil {
		return
	}
	defer f.Close()
	words, err := io.ReadAll(io.LimitReader(f, maxWords))
	if len(words) == 0 {
		return
	}
	if err == nil {
		err = os.WriteFile(kept+".new", words, 0o600)
	}
	if err == nil {
		err = os.Rename(kept+".new", kept)
	}
	first, _, _ := bytes.Cut(words, []byte("\n"))
	if err != nil {
		log.Error("superd crashed before, its last words are not kept", "words", string(first), "error", err)
		return
	}
	log.Error("superd crashed before", "words", string(first), "file", kept)
}
