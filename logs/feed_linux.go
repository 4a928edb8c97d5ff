package logs

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Feeds are the FIFOs that loggers read, one each for all instances of a program.
type feeds struct {
	log *slog.Logger
	mu  sync.Mutex
	by  map[string]*feed
}

// A feed is a FIFO that a logger has as its standard input. Somebody else has it open for reading and writing, so that what is in it outlives the
// logger and superd. This end is open only while something is written: else the logger would not see the end of its input when it is to.
type feed struct {
	of      *feeds
	path    string
	busy    chan struct{} // held by who writes
	users   int           // guarded by of.mu
	stalled time.Time     // since when nothing is read; zero: it is
}

func (f *feeds) get(path string) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	to := f.by[path]
	if to == nil {
		to = &feed{of: f, path: path, busy: make(chan struct{}, 1)}
		if f.by == nil {
			f.by = map[string]*feed{}
		}
		f.by[path] = to
	}
	to.users++
	return to
}

// close implements sink.
func (f *feed) close() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.users--; f.users == 0 {
		delete(f.of.by, f.path)
	}
}

// errNoLogger is why nothing can be written before the logger's first start.
var errNoLogger = errors.New("the logger has not been started yet")

// put implements sink. What is written can't be taken back, so that of a record that is too long to be written in one piece a part may be there
// when nobody waits any more.
func (f *feed) put(gap *[]byte, records []byte, quit <-chan struct{}) (written int, err error) {
	select {
	case f.busy <- struct{}{}:
	case <-quit:
		return 0, errQuit
	}
	defer func() { <-f.busy }()
	fd, err := openFD(f.path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO):
		return 0, errNoLogger
	case err != nil:
		return 0, &os.PathError{Op: "open", Path: f.path, Err: err}
	}
	w := &feedWriter{feed: f, fd: fd}
	defer w.close()
	if *gap != nil {
		if n, err := w.write(*gap, quit); n < len(*gap) {
			return 0, err
		}
		*gap = nil
	}
	return w.write(records, quit)
}

// A feedWriter is the end of a feed while something is written.
type feedWriter struct {
	*feed
	fd   int
	file *os.File // has fd since it was full; else nil
}

func (w *feedWriter) close() {
	if w.file != nil {
		w.file.Close()
	} else {
		closeFD(w.fd)
	}
}

// write writes in pieces that are there in whole or not at all, whenever superd is killed: as many lines as fit into one, or a part of a longer line.
func (w *feedWriter) write(text []byte, quit <-chan struct{}) (written int, err error) {
	for written < len(text) {
		n, err := w.once(pieceOf(text[written:]))
		if err == unix.EAGAIN {
			err = w.await(quit)
		}
		if err != nil {
			return written, err
		}
		written += n
	}
	if !w.stalled.IsZero() {
		w.of.log.Info("the logger reads again", "input", w.path, "after", time.Since(w.stalled))
		w.stalled = time.Time{}
	}
	return written, nil
}

func (w *feedWriter) once(piece []byte) (int, error) {
	for {
		if n, err := unix.Write(w.fd, piece); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// pieceOf returns what can be written in one piece.
func pieceOf(text []byte) []byte {
	if len(text) <= pipeAtomic {
		return text
	}
	if end := bytes.LastIndexByte(text[:pipeAtomic], '\n') + 1; end > 0 {
		return text[:end]
	}
	return text[:pipeAtomic]
}

// await waits until the FIFO has room. No thread waits.
func (w *feedWriter) await(quit <-chan struct{}) error {
	if w.file == nil {
		growPipe(w.fd, busyPipe)
		w.file = os.NewFile(uintptr(w.fd), w.path) // it is non-blocking, so that Go's poller watches it
	}
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	for since := time.Now(); ; {
		if err := w.file.SetWriteDeadline(time.Now().Add(patienceOfPoll)); err != nil {
			return err
		}
		err := raw.Write(func(uintptr) bool { return !pipeFull(w.fd) })
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if w.stalled.IsZero() && time.Since(since) >= patienceOfSend {
			w.stalled = since
			w.of.log.Warn("the logger does not read its input", "input", w.path)
		}
		select {
		case <-quit:
			return errQuit
		default:
		}
	}
}
