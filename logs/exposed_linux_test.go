package logs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/internal/syscalls"
	"superd/logs/follow"
	"superd/logs/frame"
	"superd/logs/logstest"
	"superd/logs/segment"
)

// TestRotatedFileReplaced: rotated segments may be replaced before they are compressed, shown or
// removed.
func TestRotatedFileReplaced(t *testing.T) {
	tests := []struct {
		name    string
		replace func(t *testing.T, rotated, secret string)
	}{
		{"by a link", func(t *testing.T, rotated, secret string) { logstest.Must(t, os.Symlink(secret, rotated)) }},
		{"by a hard link", func(t *testing.T, rotated, secret string) { logstest.Must(t, os.Link(secret, rotated)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(logstest.Exposed(t), "web.log")
			secret := filepath.Join(filepath.Dir(filepath.Dir(path)), "secret")
			logstest.WriteFile(t, secret, "secret\n")
			rotated := segment.Stamp(time.Now().Add(-time.Hour).UnixMicro()).Name(path)
			tt.replace(t, rotated, secret)
			segs := segment.New(path, &segment.Options{Format: frame.Raw})
			logstest.Must(t, segs.List(nil))
			if err := segs.CompressAll(segment.Gzip); err == nil && tt.name == "by a hard link" {
				t.Error("compressed a file of root that has another name")
			}
			if names, _ := filepath.Glob(path + "*.gz*"); len(names) > 0 {
				t.Errorf("made %v of a file of root", names)
			}
			r := newRig(t)
			p := r.program(Options{Path: path, MaxSize: 10, Keep: 1})
			if got := all(t, follow.Query{Lines: -1}, follow.Input{Log: p.Collector.Log(Stdout)}); strings.Contains(got, "secret") {
				t.Errorf("showed %q", got)
			}
			for range 5 {
				p.log("a line\n")
			}
			logstest.Equal(t, "the file of root", logstest.ReadFile(t, secret), "secret\n")
		})
	}
}

// TestChangesOwnersOfNewFilesOnly: log.owner and log.mode apply to files that superd creates. An
// existing one, where another user may put files, may have been root's.
func TestChangesOwnersOfNewFilesOnly(t *testing.T) {
	dir := logstest.Exposed(t)
	r := newRig(t)
	for name, existed := range map[string]bool{"new": false, "old": true} {
		path := filepath.Join(dir, name)
		if existed {
			logstest.WriteFile(t, path, "of root\n")
		}
		p := r.program(Options{Path: path, Owner: "daemon", MaxSize: 16, Keep: 9})
		p.log("one\n")
		if existed { // before the rotation, which ends what is reported
			r.awaitLog("it existed before, and user 54321 may write", func() {})
		}
		if got, want := logstest.Stat(t, path).Uid, map[bool]uint32{true: 0, false: 1}[existed]; got != want {
			t.Errorf("%s belongs to user %d, want %d", name, got, want)
		}
		p.log("two\nthree\n")
		if got := logstest.Stat(t, path).Uid; got != 1 {
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
	dir := logstest.Exposed(t)
	tests := []struct {
		name string
		file int // owner of an existing file; -1: none
		want string
	}{
		{"none", -1, ""},
		{"its own", logstest.OtherUser + 1, ""},
		{"root's", 0, "it belongs to user 0, and user 54321 may write"},
		{"another user's", logstest.OtherUser + 2, "it belongs to user 54323, and user 54321 may write"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(tt.name, " ", "-"))
			if tt.file >= 0 {
				logstest.WriteFile(t, path, "")
				logstest.Must(t, os.Chown(path, tt.file, tt.file))
			}
			r := newRig(t)
			var c *Collector
			o := Options{Path: path, Format: frame.Direct, User: "daemon"}
			r.do(func() { c = r.store.NewCollector(r.loop.Root().Child(), "web", o) })
			fd, err := c.OpenDirect(Stdout, logstest.OtherUser+1)
			syscalls.Close(fd)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("OpenDirect() = %v, want %q", err, tt.want)
			}
			if tt.want == "" && logstest.Stat(t, path).Uid != logstest.OtherUser+1 {
				t.Errorf("it belongs to user %d, want the program's", logstest.Stat(t, path).Uid)
			}
		})
	}
}

// TestLinkOfTheAdministrator: if the administrator made a log file a link, its target is the log. A
// rotation renames the target, not the link.
func TestLinkOfTheAdministrator(t *testing.T) {
	dir := t.TempDir()
	path, disk := filepath.Join(dir, "web.log"), filepath.Join(dir, "disk", "data.log")
	logstest.Must(t, os.Mkdir(filepath.Dir(disk), 0o755))
	logstest.Must(t, os.Symlink(disk, path))
	r := newRig(t)
	p := r.program(Options{Path: path, MaxSize: 10, Keep: 9})
	for range 5 {
		p.log("a line\n")
	}
	if target, err := os.Readlink(path); err != nil || target != disk {
		t.Errorf("the link leads to %q, %v", target, err)
	}
	logstest.Equal(t, "the files that it leads to", logstest.Joined(t, disk), strings.Repeat("a line\n", 5))
	if _, names := logstest.Files(t, disk); len(names) != 5 {
		t.Errorf("files: %v, want 5", names)
	}
	logstest.Equal(t, "what is shown", p.all(), strings.Repeat("a line\n", 5))
	logstest.Equal(t, "what is shown later", all(t, follow.Query{Lines: -1}, follow.Input{Log: r.program(Options{Path: path}).Collector.Log(Stdout)}),
		strings.Repeat("web:a line ", 5))
}
