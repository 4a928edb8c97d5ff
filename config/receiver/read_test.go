package receiver

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A fileInfo has the properties of a file.
type fileInfo struct {
	mode fs.FileMode
	size int64
	uid  uint32
}

func (f fileInfo) Name() string       { return "secret" }
func (f fileInfo) Size() int64        { return f.size }
func (f fileInfo) Mode() fs.FileMode  { return f.mode }
func (f fileInfo) ModTime() time.Time { return time.Time{} }
func (f fileInfo) IsDir() bool        { return f.mode.IsDir() }
func (f fileInfo) Sys() any           { return &syscall.Stat_t{Uid: f.uid} }

// TestCheckSecret: which files may have a secret.
func TestCheckSecret(t *testing.T) {
	own := uint32(os.Geteuid())
	tests := []struct {
		name string
		file fileInfo
		want string // part of the refusal; empty: none
	}{
		{"that of superd's user", fileInfo{0o600, 40, own}, ""},
		{"that of root", fileInfo{0o400, MaxSecret, 0}, ""},
		{"that of another user", fileInfo{0o600, 40, own + 1}, "chown"},
		{"one that others may read", fileInfo{0o640, 40, own}, "chmod 600"},
		{"one that would be cut", fileInfo{0o600, MaxSecret + 1, own}, "at most 4096"},
		{"a FIFO", fileInfo{0o600 | fs.ModeNamedPipe, 0, own}, "not a regular file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckSecret("/secret", tt.file)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("CheckSecret: %v, want %q", err, tt.want)
			}
		})
	}
}
