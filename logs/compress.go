package logs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A Compression is how rotated files are compressed.
type Compression string

// The ways to compress; "" is none.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// suffix is what the name of a compressed file ends in.
func (c Compression) suffix() string {
	switch c {
	case Gzip:
		return ".gz"
	case Zstd:
		return ".zst"
	}
	return ""
}

// unfinishedSuffix is what the name of a file ends in that is being compressed into.
const unfinishedSuffix = ".tmp"

// zstdWindow bounds the memory of who compresses or reads, in bytes.
const zstdWindow = 1 << 20

// compress writes what is in from, which has size bytes, into to.
func (c Compression) compress(to io.Writer, from io.Reader, size int64) error {
	var w io.WriteCloser
	switch c {
	case Gzip:
		if size > math.MaxUint32 {
			return errors.New("gzip can't tell the size of a file of 4 GiB or more") // contentSize reads it
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

// reader returns what the compressed file holds.
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

// contentSize returns how many bytes the compressed file at path holds, which it says itself: gzip at its end (RFC 1952), zstd in
// its header (RFC 8878).
func (c Compression) contentSize(path string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
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
		if !header.HasFCS { // as of content of less than 256 bytes
			return c.count(file)
		}
		return int64(header.FrameContentSize), nil
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// count unpacks a file to count the bytes that it holds.
func (c Compression) count(file *os.File) (int64, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	content, err := c.reader(file)
	if err != nil {
		return 0, err
	}
	defer content.Close()
	return io.Copy(io.Discard, content)
}

// open opens the segment's file for reading. A compressed one is unpacked into a file without a name beside it, or where
// temporary files are, if that leaves minFree bytes of the file system free; else it is an [unpackError].
func (s segment) open(minFree int64) (*os.File, error) {
	file, err := s.openPacked()
	if err != nil || s.compression == "" {
		return file, err
	}
	defer file.Close()
	whole, err := s.unpack(file, minFree)
	if err != nil {
		return nil, unpackError{s.name, err}
	}
	return whole, nil
}

// openPacked opens the segment's file as it is.
func (s segment) openPacked() (*os.File, error) {
	fd, err := openRead(s.name)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), s.name), nil
}

// An unpackError tells that a file is there and can't be shown.
type unpackError struct {
	name  string
	cause error
}

func (e unpackError) Error() string { return fmt.Sprintf("unpack %s: %v", e.name, e.cause) }
func (e unpackError) Unwrap() error { return e.cause }

func (s segment) unpack(file *os.File, minFree int64) (*os.File, error) {
	packed, err := s.compression.reader(file)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	whole, err := openNameless(filepath.Dir(s.name), s.end-s.start, minFree)
	if err != nil {
		return nil, err
	}
	size := s.end - s.start
	n, err := io.Copy(whole, io.LimitReader(packed, size+1))
	if err == nil && n > size {
		err = fmt.Errorf("it holds more than the %d bytes that it should", size)
	}
	if err != nil {
		whole.Close()
		return nil, err
	}
	return whole, nil
}

// openNameless makes a file that goes away when it is closed, where size bytes more would leave minFree.
func openNameless(directory string, size, minFree int64) (*os.File, error) {
	var errs []error
	for _, d := range []string{directory, os.TempDir()} {
		file, err := openUnnamed(d)
		if err == nil {
			if err = leaves(file, size, minFree); err == nil {
				return file, nil
			}
			file.Close()
		}
		errs = append(errs, fmt.Errorf("%s: %w", d, err))
	}
	return nil, errors.Join(errs...)
}

func openUnnamed(directory string) (*os.File, error) {
	if fd, err := openTemporary(directory); err == nil {
		return os.NewFile(uintptr(fd), directory), nil
	}
	file, err := os.CreateTemp(directory, "superd-*") // O_TMPFILE is not everywhere
	if err != nil {
		return nil, err
	}
	return file, os.Remove(file.Name())
}

// leaves tells when size bytes more in a file would not leave minFree free on its file system.
func leaves(file *os.File, size, minFree int64) error {
	free, err := freeBytes(int(file.Fd()))
	switch {
	case err != nil:
		return err
	case minFree == 0 && free < size:
		return fmt.Errorf("it takes %d bytes, and only %d are free", size, free)
	case free-size < minFree:
		return fmt.Errorf("it takes %d bytes, %d are free, and min_free is %d", size, free, minFree)
	}
	return nil
}
