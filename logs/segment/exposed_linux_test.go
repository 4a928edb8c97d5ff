package segment

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/logs/frame"
	"superd/logs/logstest"
)

// TestRotatedFilesWithFalseSizes: a user with write access to the directory can make files whose
// headers claim more than they have, or other sizes. The rest of the log is shown, and no reader
// waits.
func TestRotatedFilesWithFalseSizes(t *testing.T) {
	sized := func(size uint64) string { // RFC 8878, 3.1.1.1
		return string(binary.LittleEndian.AppendUint64([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, size)) + "\x01\x00\x00"
	}
	bomb := func(header string) string { // blocks of 128 KiB of x, 3.1.1.2
		return "\x28\xb5\x2f\xfd" + header + strings.Repeat("\x02\x00\x10x", 1<<20) + "\x01\x00\x00"
	}
	tests := []struct {
		name  string
		files []string // contents, oldest first
		begin int64
	}{
		{"a size below 0", []string{sized(1 << 63)}, 0},
		{"sizes that overflow together", []string{sized(1 << 62), sized(1 << 62), sized(1 << 62)}, 0},
		{"128 GiB of no known size", []string{bomb("\x00\x38")}, 0},
		{"128 GiB", []string{bomb("\xc0\x38\x00\x00\x00\x00\x20\x00\x00\x00")}, -1 << 37},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "web.log")
			for i, content := range tt.files {
				logstest.WriteFile(t, Stamp(i+1).Name(path)+".zst", content)
			}
			segs := New(path, &Options{Format: frame.Raw})
			began := time.Now()
			logstest.Must(t, segs.List(nil))
			if got := segs.readBack(0, make([]byte, 100)); len(got) > 0 {
				t.Errorf("readBack() = %q", got)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if first := segs.At(Unknown).Start; first != tt.begin {
				t.Errorf("what is there begins at %d, want %d", first, tt.begin)
			}
		})
	}
}

// TestFilesOfHolesOnly: positions do not overflow in log files that are almost all hole.
func TestFilesOfHolesOnly(t *testing.T) {
	segs := New("web.log", &Options{Format: frame.Raw})
	for i := range 3 {
		segs.recordOpened(Info{Identity: Identity{1, uint64(i + 1)}, size: 1<<63 - 1, regular: true})
		if at := segs.OutputEnd(); at.end <= 0 {
			t.Fatalf("file %d ends at %d", i, at.end)
		}
		segs.recordRotated(Stamp(i + 1))
	}
}

// TestUnfinishedFilePlanted: the temporary file of a compression is always a new one, never an
// existing file.
func TestUnfinishedFilePlanted(t *testing.T) {
	path := filepath.Join(logstest.Exposed(t), "web.log")
	secret := filepath.Join(filepath.Dir(filepath.Dir(path)), "secret")
	logstest.WriteFile(t, secret, "secret\n")
	at := Stamp(time.Now().Add(-time.Hour).UnixMicro())
	logstest.WriteFile(t, at.Name(path), "one\n")
	segs := New(path, &Options{Format: frame.Raw})
	logstest.Must(t, segs.List(nil))
	logstest.Must(t, os.Symlink(secret, at.Name(path)+".gz"+unfinishedSuffix))
	logstest.Must(t, segs.CompressAll(Gzip))
	logstest.Equal(t, "the file of root", logstest.ReadFile(t, secret), "secret\n")
	logstest.Equal(t, "the compressed file", logstest.Unpacked(t, at.Name(path)+".gz"), "one\n")
}

// TestChargedBytes: a file counts by its space on the disk: without holes, and once for all its
// names.
func TestChargedBytes(t *testing.T) {
	const size, written = 1 << 30, 1 << 16
	lay := func(t *testing.T, path string) {
		logstest.WriteFile(t, path, strings.Repeat("x", written-1)+"\n")
		logstest.Must(t, os.Truncate(path, size))
	}
	between := func(t *testing.T, what string, got, most int64) {
		if got <= 0 || got > most {
			t.Errorf("%s counts for %d bytes, want 1 to %d", what, got, most)
		}
	}
	path := filepath.Join(t.TempDir(), "web.log")
	lay(t, path)
	lay(t, Stamp(1).Name(path))
	for s := range Stamp(8) {
		logstest.Must(t, os.Link(Stamp(1).Name(path), (s+2).Name(path)))
	}
	segs := New(path, &Options{Format: frame.Raw})
	logstest.Must(t, segs.List(nil))
	rotated, current := segs.files()
	between(t, "the newest file", current, written+64<<10)
	all := int64(0)
	for _, r := range rotated {
		all += r.size
	}
	between(t, "nine names of one file", all, written+64<<10)
	segs.recordAppended(100)
	if _, grown := segs.files(); grown != current+100 {
		t.Errorf("with 100 bytes more the newest file counts for %d bytes, want %d", grown, current+100)
	}
	segs.recordRotated(Stamp(100))
	if rotated, _ := segs.files(); rotated[len(rotated)-1].size != current+100 {
		t.Errorf("rotated it counts for %d bytes, want %d", rotated[len(rotated)-1].size, current+100)
	}
	logstest.Must(t, segs.compress(rotated[0], Zstd))
	if _, err := os.Stat(Stamp(1).Name(path) + ".zst"); err == nil {
		t.Error("a file that is nearly all hole was compressed")
	}
}

// TestCompressionOfManyNames: a file is compressed however many names it has, as where backups are
// hard links.
func TestCompressionOfManyNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.log")
	rotated := Stamp(1).Name(path)
	logstest.WriteFile(t, rotated, strings.Repeat("a line\n", 1<<18))
	for i := range 24 {
		logstest.Must(t, os.Link(rotated, filepath.Join(dir, fmt.Sprint("backup", i))))
	}
	segs := New(path, &Options{Format: frame.Raw})
	logstest.Must(t, segs.CompressAll(Zstd))
	if _, err := os.Stat(rotated + ".zst"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(rotated); err == nil {
		t.Error("the file is there, compressed and as it was")
	}
}
