package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A Compression is how rotated files are compressed.
type Compression string

// The compressions; "" is none.
const (
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// Suffix returns the end of the name of a compressed file.
func (c Compression) Suffix() string {
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

// maxContent is the largest size that a file counts for, so that positions do not overflow. Any
// user who may write to the directory can make a file of 8 EiB.
const maxContent = 1 << 44
