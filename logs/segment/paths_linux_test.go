package segment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"superd/logs/frame"
	"superd/logs/logstest"
)

// TestTwoSegmentsOfAPath: while the archive works for a removed program, another one has the same
// log. Both get each change of its segments.
func TestTwoSegmentsOfAPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.log")
	for i := range 2 {
		logstest.WriteFile(t, Stamp(time.Now().Add(time.Duration(i-60)*time.Minute).UnixMicro()).Name(path), strings.Repeat("old\n", 1000))
	}
	logstest.WriteFile(t, path, "new\n")
	var paths paths
	before := New(path, &Options{Format: frame.Raw})
	paths.add(before)
	if err := before.List(nil); err != nil {
		t.Fatal(err)
	}
	rotated, _ := before.files()

	own := New(path, &Options{Format: frame.Raw})
	paths.add(own)
	if own.disk != before.disk {
		t.Error("who lists the files may see both of a pair while one is compressed")
	}
	unfinished := before.segment(rotated[0]).Name + Zstd.Suffix() + unfinishedSuffix
	logstest.WriteFile(t, unfinished, "")
	before.setCompressing(unfinished)
	if err := own.List(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unfinished); err != nil {
		t.Errorf("what the archive was writing: %v", err)
	}
	before.setCompressing("")
	// As for a follower of a stream without a collector
	if err := New(path, &Options{Format: frame.Raw}).List(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unfinished); err != nil {
		t.Errorf("a file that only the archive may check: %v", err)
	}

	if err := before.compress(rotated[0], Zstd); err != nil {
		t.Fatal(err)
	}
	logstest.Equal(t, "what is shown", string(own.readBack(own.End(), make([]byte, 16<<10))), strings.Repeat("old\n", 2000)+"new\n")
	if err := own.removeRotated(rotated[1]); err != nil {
		t.Fatal(err)
	}
	if _, ok := before.find(rotated[1].stamp); ok {
		t.Error("a file that was removed would come back compressed")
	}
	_, names := logstest.Files(t, path)
	if len(names) != 2 || !strings.HasSuffix(names[0], Zstd.Suffix()) {
		t.Errorf("files %q", names)
	}
	paths.removeUser(before)
	if _, remaining := paths.samePath(path); len(remaining) != 1 || remaining[0] != own {
		t.Errorf("%d segments are registered after one of two was removed, want the other", len(remaining))
	}
}
