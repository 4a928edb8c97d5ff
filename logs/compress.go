package logs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"superd/internal/safepath"
)

// A Compression is how rotated files are compressed.
type Compression string

// The compressions; "" is none.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// suffix returns the end of the name of a compressed file.
func (c Compression) suffix() string {
	switch c {
	case Gzip:
		return ".gz"
	case Zstd:
		return ".zst"
	}
	return ""
}

// unfinishedSuffix is the end of the name of a file while it is written by compress.
const unfinishedSuffix = ".tmp"

// zstdWindow limits the memory of compression and reading, in bytes.
const zstdWindow = 1 << 20

func (c Compression) compress(to io.Writer, from io.Reader, size int64) error {
	var w io.WriteCloser
	switch c {
	case Gzip:
		if size > math.MaxUint32 {
			// contentSize reads it
			return errors.New("gzip can't record the size of a file of 4 GiB or more")
		}
		w = gzip.NewWriter(to)
	case Zstd:
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(zstdWindow))
		if err != nil {
			return err
		}
		z.ResetContentSize(to, size)
		w = z
	}
	n, err := io.Copy(w, from)
	if err == nil && n != size {
		err = fmt.Errorf("it has %d bytes, not %d", n, size)
	}
	return errors.Join(err, w.Close())
}

func (c Compression) reader(file io.Reader) (io.ReadCloser, error) {
	switch c {
	case Gzip:
		return gzip.NewReader(file)
	case Zstd:
		z, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, err
		}
		return z.IOReadCloser(), nil
	}
	return io.NopCloser(file), nil
}

// maxCounted limits the bytes that are unpacked only to count them. A small file made by a program
// might take hours otherwise.
const maxCounted = 1 << 20

// contentSize returns the size of a compressed file's content in bytes, as the file states it: gzip
// at its end (RFC 1952), zstd in its header (RFC 8878).
func (c Compression) contentSize(file *os.File) (int64, error) {
	switch c {
	case Gzip:
		var size [4]byte
		end, err := file.Seek(-int64(len(size)), io.SeekEnd)
		if err == nil {
			_, err = file.ReadAt(size[:], end)
		}
		return int64(binary.LittleEndian.Uint32(size[:])), err
	case Zstd:
		begin := make([]byte, zstd.HeaderMaxSize)
		n, err := io.ReadFull(file, begin)
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return 0, err
		}
		var header zstd.Header
		if err := header.Decode(begin[:n]); err != nil {
			return 0, err
		}
		if !header.HasFCS { // as for content of less than 256 bytes
			return c.count(file)
		}
		if header.FrameContentSize > maxContent {
			return 0, fmt.Errorf("it claims a content of %d bytes", header.FrameContentSize)
		}
		return int64(header.FrameContentSize), nil
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// count unpacks a file to count the bytes of its content, at most maxCounted.
func (c Compression) count(file *os.File) (int64, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	content, err := c.reader(file)
	if err != nil {
		return 0, err
	}
	defer content.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(content, maxCounted+1))
	if err == nil && n > maxCounted {
		err = fmt.Errorf("it does not record its size, and its content has more than %d bytes", maxCounted)
	}
	return n, err
}

// open opens the segment's file for reading. A compressed one is unpacked into an unnamed file
// beside it, or in the directory of temporary files. At least minFree bytes of that file system
// must remain free. If there is no space, or the file is not superd's, the error is an
// [unpackError].
func (s segment) open(minFree int64) (*os.File, error) {
	file, err := s.openPacked()
	if _, refused := errors.AsType[*safepath.RefusedError](err); refused {
		return nil, unpackError{s.name, err}
	}
	if err != nil || s.compression == "" {
		return file, err
	}
	defer file.Close()
	unpacked, err := s.unpack(file, minFree)
	if err != nil {
		return nil, unpackError{s.name, err}
	}
	return unpacked, nil
}

func (s segment) openPacked() (*os.File, error) {
	return s.openRead(s.suffix())
}

// An unpackError means that a file exists and can't be shown.
type unpackError struct {
	name  string
	cause error
}

func (e unpackError) Error() string {
	if _, refused := errors.AsType[*safepath.RefusedError](e.cause); refused {
		return e.cause.Error()
	}
	return fmt.Sprintf("unpack %s: %v", e.name, e.cause)
}

func (e unpackError) Unwrap() error { return e.cause }

func (s segment) unpack(file *os.File, minFree int64) (*os.File, error) {
	packed, err := s.compression.reader(file)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	unpacked, err := s.openScratch(s.end-s.start, minFree)
	if err != nil {
		return nil, err
	}
	size := s.end - s.start
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
