// Package xz compresses with the command xz. It replaces the module of this name, with which nfpm
// and rpmpack write packages.
//
// That module has a dictionary of 8 MiB and finds fewer repetitions. superd and superd-ui share
// much of their code, so a dictionary that spans both makes a package smaller.
package xz

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

// dictionary is larger than the distance between the same code in two binaries. Who unpacks needs
// as much memory; rpm refuses more than 100 MiB.
const dictionary = "32MiB"

// A Writer compresses what is written to it.
type Writer struct {
	command *exec.Cmd
	input   io.WriteCloser
	closed  bool
}

// NewWriter returns a Writer that writes to w. Close it: only then all is written.
func NewWriter(w io.Writer) (*Writer, error) {
	// One thread: several make blocks whose sizes depend on the machine.
	command := exec.Command("xz", "--compress", "--stdout", "--threads=1", "--lzma2=preset=6,dict="+dictionary)
	command.Env = append(os.Environ(), "XZ_DEFAULTS=", "XZ_OPT=")
	command.Stdout, command.Stderr = w, os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start xz: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start xz: %w", err)
	}
	return &Writer{command: command, input: input}, nil
}

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) { return w.input.Write(p) }

// Close ends the stream. A second call does nothing: nfpm makes one.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	if err := w.input.Close(); err != nil {
		return fmt.Errorf("run xz: %w", err)
	}
	if err := w.command.Wait(); err != nil {
		return fmt.Errorf("run xz: %w", err)
	}
	return nil
}
