package segment

import (
	"errors"
	"fmt"
	"io"
	"os"

	"superd/internal/safepath"
)

// Open opens the segment's file for reading. A compressed one is unpacked into an unnamed file
// beside it, or in the directory of temporary files. At least minFree bytes of that file system
// must remain free. If there is no space, or the file is not superd's, the error is an
// [UnpackError].
func (s Segment) Open(minFree int64) (*os.File, error) {
	file, err := s.openPacked()
	if _, refused := errors.AsType[*safepath.RefusedError](err); refused {
		return nil, UnpackError{s.Name, err}
	}
	if err != nil || s.Compression == "" {
		return file, err
	}
	defer file.Close()
	unpacked, err := s.unpack(file, minFree)
	if err != nil {
		return nil, UnpackError{s.Name, err}
	}
	return unpacked, nil
}

func (s Segment) openPacked() (*os.File, error) {
	return s.openRead(s.Suffix())
}

// An UnpackError means that a file exists and can't be shown.
type UnpackError struct {
	name  string
	cause error
}

// Error names the file and the cause.
func (e UnpackError) Error() string {
	if _, refused := errors.AsType[*safepath.RefusedError](e.cause); refused {
		return e.cause.Error()
	}
	return fmt.Sprintf("unpack %s: %v", e.name, e.cause)
}

// Unwrap returns the cause.
func (e UnpackError) Unwrap() error { return e.cause }

func (s Segment) unpack(file *os.File, minFree int64) (*os.File, error) {
	packed, err := s.Compression.reader(file)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	unpacked, err := s.openScratch(s.End-s.Start, minFree)
	if err != nil {
		return nil, err
	}
	size := s.End - s.Start
	n, err := io.Copy(unpacked, io.LimitReader(packed, size+1))
	if err == nil && n > size {
		err = fmt.Errorf("its content has more than the expected %d bytes", size)
	}
	if err != nil {
		unpacked.Close()
		return nil, err
	}
	return unpacked, nil
}

// openScratch makes an unnamed file on a file system where minFree remains free after size more
// bytes.
func (l location) openScratch(size, minFree int64) (*os.File, error) {
	var errs []error
	for _, create := range []func() (*os.File, error){l.openUnnamed, openTemporary} {
		file, err := create()
		if err == nil {
			if err = checkFree(file, size, minFree); err == nil {
				return file, nil
			}
			err = fmt.Errorf("%s: %w", file.Name(), err)
			file.Close()
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// checkFree returns an error if less than minFree would remain free on the file system of a file
// after size more bytes.
func checkFree(file *os.File, size, minFree int64) error {
	free, err := freeBytes(int(file.Fd()))
	switch {
	case err != nil:
		return err
	case minFree == 0 && free < size:
		return fmt.Errorf("it needs %d bytes, %d are free", size, free)
	case free-size < minFree:
		return fmt.Errorf("it needs %d bytes, %d are free, min_free is %d", size, free, minFree)
	}
	return nil
}
