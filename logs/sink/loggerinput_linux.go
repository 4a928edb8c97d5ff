package sink

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/syscalls"
	"superd/logs/pipe"
)

// loggerInputs are the standard inputs of loggers, one for all instances of a program.
type loggerInputs struct {
	log    *slog.Logger
	mu     sync.Mutex
	byPath map[string]*loggerInput
}

// A loggerInput is the FIFO that is the standard input of a logger. The supervisor has it open for
// reading and writing, so its content outlives the logger and superd. The writing end is open only
// during a write: otherwise the logger would never see the end of its input.
type loggerInput struct {
	inputs  *loggerInputs
	path    string
	busy    chan struct{} // holds a token of the writer
	users   int           // guarded by of.mu
	stalled time.Time     // since when the logger does not read; zero: it does
}

func (f *loggerInputs) get(path string) *loggerInput {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := f.byPath[path]
	if to == nil {
		to = &loggerInput{inputs: f, path: path, busy: make(chan struct{}, 1)}
		if f.byPath == nil {
			f.byPath = map[string]*loggerInput{}
		}
		f.byPath[path] = to
	}
	to.users++
	return to
}

// Close implements [Sink].
func (f *loggerInput) Close() {
	f.inputs.mu.Lock()
	defer f.inputs.mu.Unlock()
	if f.users--; f.users == 0 {
		delete(f.inputs.byPath, f.path)
	}
}

// errNoLogger is the error before the logger's first start.
var errNoLogger = errors.New("the logger is not started yet")

// Put implements [Sink]. A write can't be undone: after stop a part of a record longer than a piece
// may be in the FIFO.
func (f *loggerInput) Put(dropRecord *[]byte, records []byte, stop <-chan struct{}) (written int, err error) {
	select {
	case f.busy <- struct{}{}:
	case <-stop:
		return 0, errClosed
	}
	defer func() { <-f.busy }()
	fd, err := syscalls.Open(f.path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO):
		return 0, errNoLogger
	case err != nil:
		return 0, &os.PathError{Op: "open", Path: f.path, Err: err}
	}
	w := &loggerWriter{loggerInput: f, fd: fd}
	defer w.close()
	if *dropRecord != nil {
		if n, err := w.write(*dropRecord, stop); n < len(*dropRecord) {
			return 0, err
		}
		*dropRecord = nil
	}
	return w.write(records, stop)
}

// A loggerWriter is the writing end of a loggerInput, for one put.
type loggerWriter struct {
	*loggerInput
	fd   int
	file *os.File // owns fd after the FIFO was full; else nil
}

func (w *loggerWriter) close() {
	if w.file != nil {
		w.file.Close()
	} else {
		syscalls.Close(w.fd)
	}
}

// write writes in pieces, each of which gets into the FIFO whole or not at all, even when superd is
// killed. A piece is as many lines as fit, or a part of a longer line.
func (w *loggerWriter) write(text []byte, stop <-chan struct{}) (written int, err error) {
	for written < len(text) {
		n, err := syscalls.Write(w.fd, pipe.Piece(text[written:]))
		if err == unix.EAGAIN {
			err = w.await(stop)
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	if !w.stalled.IsZero() {
		w.inputs.log.Info("the logger reads again", "input", w.path, "after", time.Since(w.stalled))
		w.stalled = time.Time{}
	}
	return written, nil
}

// await waits until the FIFO has room. It blocks no thread.
func (w *loggerWriter) await(stop <-chan struct{}) error {
	if w.file == nil {
		pipe.Grow(w.fd, pipe.BusyCapacity)
		w.file = os.NewFile(uintptr(w.fd), w.path) // fd is non-blocking, so Go's poller watches it
	}
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	for since := time.Now(); ; {
		if err := w.file.SetWriteDeadline(time.Now().Add(pipe.PollTimeout)); err != nil {
			return err
		}
		err := raw.Write(func(uintptr) bool { return !pipe.Full(w.fd) })
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if w.stalled.IsZero() && time.Since(since) >= sendTimeout {
			w.stalled = since
			w.inputs.log.Warn("the logger does not read its input", "input", w.path)
		}
		select {
		case <-stop:
			return errClosed
		default:
		}
	}
}
