package logs

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// otherUser is a user other than superd's.
const otherUser = 54321

// exposed makes a directory that belongs to otherUser.
func exposed(t *testing.T) (dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of another user")
	}
	dir = filepath.Join(t.TempDir(), "theirs")
	mustDo(t, os.Mkdir(dir, 0o755))
	mustDo(t, os.Chown(dir, otherUser, otherUser))
	return dir
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	mustDo(t, err)
	return info.Sys().(*syscall.Stat_t).Uid
}

// TestRotatedFileReplaced: rotated segments may be replaced before they are compressed, shown or
// removed.
func TestRotatedFileReplaced(t *testing.T) {
	tests := []struct {
		name    string
		replace func(t *testing.T, rotated, secret string)
	}{
		{"by a link", func(t *testing.T, rotated, secret string) { mustDo(t, os.Symlink(secret, rotated)) }},
		{"by a hard link", func(t *testing.T, rotated, secret string) { mustDo(t, os.Link(secret, rotated)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(exposed(t), "web.log")
			secret := filepath.Join(filepath.Dir(filepath.Dir(path)), "secret")
			writeFile(t, secret, "secret\n")
			rotated := stamp(time.Now().Add(-time.Hour).UnixMicro()).name(path)
			tt.replace(t, rotated, secret)
			segs := newSegments(path, &Options{Format: Raw})
			mustDo(t, segs.list(nil))
			if err := segs.compressAll(Gzip); err == nil && tt.name == "by a hard link" {
				t.Error("compressed a file of root that has another name")
			}
			if names, _ := filepath.Glob(path + "*.gz*"); len(names) > 0 {
				t.Errorf("made %v of a file of root", names)
			}
			r := newRig(t)
			p := r.program(Options{Path: path, MaxSize: 10, Keep: 1})
			if got := all(t, Query{Lines: -1}, Input{Collector: p.Collector}); strings.Contains(got, "secret") {
				t.Errorf("showed %q", got)
			}
			for range 5 {
				p.log("a line\n")
			}
			equal(t, "the file of root", readFile(t, secret), "secret\n")
		})
	}
}

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
				writeFile(t, stamp(i+1).name(path)+".zst", content)
			}
			segs := newSegments(path, &Options{Format: Raw})
			began := time.Now()
			mustDo(t, segs.list(nil))
			if got := segs.readBack(0, make([]byte, 100)); len(got) > 0 {
				t.Errorf("readBack() = %q", got)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if first := segs.segmentAt(unknown).start; first != tt.begin {
				t.Errorf("what is there begins at %d, want %d", first, tt.begin)
			}
		})
	}
}

// TestFilesOfHolesOnly: positions do not overflow in log files that are almost all hole.
func TestFilesOfHolesOnly(t *testing.T) {
	segs := newSegments("web.log", &Options{Format: Raw})
	for i := range 3 {
		segs.recordOpened(fileInfo{identity: identity{1, uint64(i + 1)}, size: 1<<63 - 1, regular: true})
		if at := segs.outputEnd(); at.end <= 0 {
			t.Fatalf("file %d ends at %d", i, at.end)
		}
		segs.recordRotated(stamp(i + 1))
	}
}

// TestUnfinishedFilePlanted: the temporary file of a compression is always a new one, never an
// existing file.
func TestUnfinishedFilePlanted(t *testing.T) {
	path := filepath.Join(exposed(t), "web.log")
	secret := filepath.Join(filepath.Dir(filepath.Dir(path)), "secret")
	writeFile(t, secret, "secret\n")
	at := stamp(time.Now().Add(-time.Hour).UnixMicro())
	writeFile(t, at.name(path), "one\n")
	segs := newSegments(path, &Options{Format: Raw})
	mustDo(t, segs.list(nil))
	mustDo(t, os.Symlink(secret, at.name(path)+".gz"+unfinishedSuffix))
	mustDo(t, segs.compressAll(Gzip))
	equal(t, "the file of root", readFile(t, secret), "secret\n")
	equal(t, "the compressed file", unpacked(t, at.name(path)+".gz"), "one\n")
}

// TestChangesOwnersOfNewFilesOnly: log.owner and log.mode apply to files that superd creates. An
// existing one, where another user may put files, may have been root's.
func TestChangesOwnersOfNewFilesOnly(t *testing.T) {
	dir := exposed(t)
	r := newRig(t)
	for name, existed := range map[string]bool{"new": false, "old": true} {
		path := filepath.Join(dir, name)
		if existed {
			writeFile(t, path, "of root\n")
		}
		p := r.program(Options{Path: path, Owner: "daemon", MaxSize: 16, Keep: 9})
		p.log("one\n")
		if existed { // before the rotation, which ends what is reported
			r.awaitLog("it existed before, and user 54321 may write", func() {})
		}
		if got, want := ownerOf(t, path), map[bool]uint32{true: 0, false: 1}[existed]; got != want {
			t.Errorf("%s belongs to user %d, want %d", name, got, want)
		}
		p.log("two\nthree\n")
		if got := ownerOf(t, path); got != 1 {
			t.Errorf("%s belongs to user %d when it was rotated, want that of log.owner", name, got)
		}
	}
	if said := r.log.String(); strings.Count(said, "it existed before, and user 54321 may write") != 1 {
		t.Errorf("superd's log does not say once that a file stays root's:\n%s", said)
	}
}

// TestDirectInExposedDirectory: a program gets a descriptor of a file only if its user owns the
// file, or superd has created it.
func TestDirectInExposedDirectory(t *testing.T) {
	dir := exposed(t)
	tests := []struct {
		name string
		file int // owner of an existing file; -1: none
		want string
	}{
		{"none", -1, ""},
		{"its own", otherUser + 1, ""},
		{"root's", 0, "it belongs to user 0, and user 54321 may write"},
		{"another user's", otherUser + 2, "it belongs to user 54323, and user 54321 may write"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-"))
			if tt.file >= 0 {
				writeFile(t, path, "")
				mustDo(t, os.Chown(path, tt.file, tt.file))
			}
			r := newRig(t)
			var c *Collector
			o := Options{Path: path, Format: Direct, User: "daemon"}
			r.do(func() { c = r.store.NewCollector(r.loop.Root().Child(), "web", o) })
			fd, err := c.OpenDirect(Stdout, otherUser+1)
			closeFD(fd)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("OpenDirect() = %v, want %q", err, tt.want)
			}
			if tt.want == "" && ownerOf(t, path) != otherUser+1 {
				t.Errorf("it belongs to user %d, want the program's", ownerOf(t, path))
			}
		})
	}
}

// TestLinkOfTheAdministrator: if the administrator made a log file a link, its target is the log. A
// rotation renames the target, not the link.
func TestLinkOfTheAdministrator(t *testing.T) {
	dir := t.TempDir()
	path, disk := filepath.Join(dir, "web.log"), filepath.Join(dir, "disk", "data.log")
	mustDo(t, os.Mkdir(filepath.Dir(disk), 0o755))
	mustDo(t, os.Symlink(disk, path))
	r := newRig(t)
	p := r.program(Options{Path: path, MaxSize: 10, Keep: 9})
	for range 5 {
		p.log("a line\n")
	}
	if target, err := os.Readlink(path); err != nil || target != disk {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	equal(t, "the files that it leads to", joined(t, disk), strings.Repeat("a line\n", 5))
	if _, names := files(t, disk); len(names) != 5 {
		t.Errorf("files: %v, want 5", names)
	}
	equal(t, "what is shown", p.all(), strings.Repeat("a line\n", 5))
	equal(t, "what is shown later", all(t, Query{Lines: -1}, Input{Collector: r.program(Options{Path: path}).Collector}),
		strings.Repeat("web:a line ", 5))
}

// TestChargedBytes: a file counts by its space on the disk: without holes, and once for all its
// names.
func TestChargedBytes(t *testing.T) {
	const size, written = 1 << 30, 1 << 16
	lay := func(t *testing.T, path string) {
		writeFile(t, path, strings.Repeat("x", written-1)+"\n")
		mustDo(t, os.Truncate(path, size))
	}
	between := func(t *testing.T, what string, got, most int64) {
		if got <= 0 || got > most {
			t.Errorf("%s counts for %d bytes, want 1 to %d", what, got, most)
		}
	}
	path := filepath.Join(t.TempDir(), "web.log")
	lay(t, path)
	lay(t, stamp(1).name(path))
	for s := range stamp(8) {
		mustDo(t, os.Link(stamp(1).name(path), (s+2).name(path)))
	}
	segs := newSegments(path, &Options{Format: Raw})
	mustDo(t, segs.list(nil))
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
	segs.recordRotated(stamp(100))
	if rotated, _ := segs.files(); rotated[len(rotated)-1].size != current+100 {
		t.Errorf("rotated it counts for %d bytes, want %d", rotated[len(rotated)-1].size, current+100)
	}
	mustDo(t, segs.compress(rotated[0], Zstd))
	if _, err := os.Stat(stamp(1).name(path) + ".zst"); err == nil {
		t.Error("a file that is nearly all hole was compressed")
	}
}

// TestCompressionOfManyNames: a file is compressed however many names it has, as where backups are
// hard links.
func TestCompressionOfManyNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "web.log")
	rotated := stamp(1).name(path)
	writeFile(t, rotated, strings.Repeat("a line\n", 1<<18))
	for i := range 24 {
		mustDo(t, os.Link(rotated, filepath.Join(dir, fmt.Sprint("backup", i))))
	}
	segs := newSegments(path, &Options{Format: Raw})
	mustDo(t, segs.compressAll(Zstd))
	if _, err := os.Stat(rotated + ".zst"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(rotated); err == nil {
		t.Error("the file is there, compressed and as it was")
	}
}
