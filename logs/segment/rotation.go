package segment

import (
	"bytes"
	"strings"
	"time"
)

// MaxOverrun is by how many bytes a file may exceed its limit to end in a whole line.
const MaxOverrun = 1 << 20

// overrun returns by how much a file may exceed the limit: a file is less than twice as long.
func overrun(limit int64) int64 { return min(limit, MaxOverrun) }

// split returns how many bytes of next, which may not all fit, go into a file that has size bytes.
// 0 means that the file must be rotated first. next is not empty. ended reports that the file has
// whole lines only.
//
// Files are cut at line ends. A file has at most limit bytes, with one exception: a line that began
// before the limit may exceed it by [overrun] at most. So only a line that is longer than that may
// be cut.
func split(size, limit int64, ended bool, next []byte) int {
	if room := limit - size; room > 0 {
		fits := next[:min(room, int64(len(next)))]
		if end := bytes.LastIndexByte(fits, '\n'); end >= 0 {
			return end + 1
		}
		if len(fits) == len(next) {
			return len(next)
		}
	}
	if ended && size > 0 {
		return 0
	}
	rest := min(limit+overrun(limit)-size, int64(len(next)))
	if rest <= 0 {
		return 0
	}
	if end := bytes.IndexByte(next[:rest], '\n'); end >= 0 {
		return end + 1
	}
	return int(rest)
}

// stampLayout is a time layout whose results sort by time.
const stampLayout = "20060102T150405.000000Z"

// A Stamp is the time at which a file was rotated, in microseconds of Unix time.
type Stamp int64

// nextStamp returns the stamp for a file rotated at now, where newest is that of the newest rotated
// file. Stamps increase even if the clock does not.
func nextStamp(now time.Time, newest Stamp) Stamp {
	return max(Stamp(now.UnixMicro()), newest+1)
}

// Name returns the name of the file rotated from path at s: path.20261121T072045.123456Z, in UTC.
func (s Stamp) Name(path string) string {
	return path + "." + time.UnixMicro(int64(s)).UTC().Format(stampLayout)
}

// parseStamp returns the stamp of a file named name if it was rotated from one named base, and its
// compression.
func parseStamp(base, name string) (s Stamp, c Compression, ok bool) {
	suffix, ok := strings.CutPrefix(name, base+".")
	if !ok {
		return 0, "", false
	}
	for _, known := range []Compression{Gzip, Zstd} {
		if plain, ok := strings.CutSuffix(suffix, known.Suffix()); ok {
			suffix, c = plain, known
		}
	}
	t, err := time.Parse(stampLayout, suffix)
	s = Stamp(t.UnixMicro())
	return s, c, err == nil && s.Name(base) == base+"."+suffix // Parse also accepts other spellings
}

var newline = []byte{'\n'}
