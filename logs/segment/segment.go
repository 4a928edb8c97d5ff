package segment

import "strings"

// A Segment is one file of a log, the current or a rotated one.
type Segment struct {
	location
	Name        string
	Stamp       Stamp // of a rotated file; else 0
	Compression Compression
	Start, End  int64 // positions, see [Log]
	Identity          // of the current file only
}

// A rotatedFile is what a Log stores of a rotated file.
type rotatedFile struct {
	stamp       Stamp
	compression Compression
	start, end  int64
	size        int64 // bytes on the disk, see [chargedBytes]
}

// A newestFile is what a Log stores of the current file.
type newestFile struct {
	start, end int64
	Identity
	uncharged int64 // bytes that do not count: holes, or those of other names, see [chargedBytes]
}

// onDisk returns how many bytes of it are on the disk. Output of superd counts at once, even where
// the file system reports it later (ZFS).
func (n newestFile) onDisk() int64 { return max(n.end-n.start-n.uncharged, 0) }

// Rotated reports whether the file has its final name.
func (s Segment) Rotated() bool { return s.Stamp != 0 }

// cappedSize returns the size that an open file, or one to be opened, counts for.
func (i Info) cappedSize() int64 {
	if !i.regular {
		return 0 // it can't be read back
	}
	return min(i.size, maxContent)
}

// Suffix returns what the file's name has after that of the log file.
func (r rotatedFile) Suffix() string { return r.stamp.Name("") + r.compression.Suffix() }

// Suffix returns what the file's name has after that of the log file.
func (s Segment) Suffix() string { return strings.TrimPrefix(s.Name, s.path) }
