package safepath

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"testing"
)

func testTrust(self uint32) trust {
	return trust{self: self, outside: func(uint32) bool { return false }}
}

// An aclEntry is an entry of an access control list.
type aclEntry struct {
	tag, rights uint16
	id          uint32
}

// aclOf returns a list in the kernel's form, for a directory that its owner and the group 0 may
// write to, with one more entry.
func aclOf(more aclEntry) []byte {
	const none = 0xffffffff
	list := binary.LittleEndian.AppendUint32(nil, 2) // the version
	for _, e := range []aclEntry{{0x01, 7, none}, more, {0x04, 7, none}, {0x10, 7, none}, {0x20, 5, none}} {
		list = binary.LittleEndian.AppendUint16(list, e.tag)
		list = binary.LittleEndian.AppendUint16(list, e.rights)
		list = binary.LittleEndian.AppendUint32(list, e.id)
	}
	return list
}

func TestExposure(t *testing.T) {
	const user, group = 0x02, 0x08
	unreadable := errors.New("no /proc")
	tests := []struct {
		name string
		self uint32
		dir  Info
		acl  []byte
		err  error
		want string
	}{
		{"root's directory is not exposed", 0, Info{Mode: 0o755}, nil, nil, ""},
		{"group 0 has root's trust", 0, Info{Mode: 0o775}, nil, nil, ""},
		{"another group has not", 0, Info{GID: 104, Mode: 0o775}, nil, nil, "group 104"},
		{"a group that only reads does not matter", 0, Info{GID: 104, Mode: 0o755}, nil, nil, ""},
		{"a directory of another user is exposed", 0, Info{UID: 1000, Mode: 0o700}, nil, nil, "user 1000"},
		{"everybody may write", 0, Info{Mode: fs.ModeSticky | 0o777}, nil, nil, "every user"},
		{"one's own is not exposed", 1000, Info{UID: 1000, GID: 1000, Mode: 0o755}, nil, nil, ""},
		{"that of another user is", 1000, Info{UID: 1001, Mode: 0o755}, nil, nil, "user 1001"},
		{"a user of its list may write", 0, Info{Mode: 0o775}, aclOf(aclEntry{user, 7, 1000}), nil, "user 1000"},
		{"a group of its list may", 0, Info{Mode: 0o775}, aclOf(aclEntry{group, 6, 50}), nil, "group 50"},
		{"a user of its list may only read", 0, Info{Mode: 0o775}, aclOf(aclEntry{user, 5, 1000}), nil, ""},
		{"none of its list may, by the mask", 0, Info{Mode: 0o755}, aclOf(aclEntry{user, 7, 1000}), nil, ""},
		{"superd's user is in its list", 1000, Info{Mode: 0o775}, aclOf(aclEntry{user, 7, 1000}), nil, ""},
		{"its list can't be read", 0, Info{Mode: 0o775}, nil, unreadable,
			"someone in its access control list, which can't be read,"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			acl := func() ([]byte, error) { return tt.acl, tt.err }
			if got := testTrust(tt.self).exposure(&tt.dir, acl); got != tt.want {
				t.Errorf("exposure(%+v) for user %d = %q, want %q", tt.dir, tt.self, got, tt.want)
			}
		})
	}
}

func TestTrustsEntry(t *testing.T) {
	tests := []struct {
		name   string
		self   uint32
		entry  Info
		sticky bool
		want   bool
	}{
		{"root's link may have been moved", 0, Info{Mode: fs.ModeSymlink, Links: 1}, false, false},
		{"but not where entries stay", 0, Info{Mode: fs.ModeSymlink, Links: 1}, true, true},
		{"nor where it has a second name", 0, Info{Mode: fs.ModeSymlink, Links: 2}, true, false},
		{"a directory has many", 0, Info{Mode: fs.ModeDir, Links: 5}, true, true},
		{"another user's link", 0, Info{UID: 1000, Mode: fs.ModeSymlink, Links: 1}, true, false},
		{"one's own link", 1000, Info{UID: 1000, Mode: fs.ModeSymlink, Links: 1}, false, true},
		{"another user's", 1000, Info{UID: 1001, Mode: fs.ModeSymlink, Links: 1}, false, false},
		{"one's own file under another name", 1000, Info{UID: 1000, Links: 2}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := testTrust(tt.self).trustsEntry(&tt.entry, tt.sticky); got != tt.want {
				t.Errorf("trustsEntry(%+v, %v) for user %d = %v, want %v", tt.entry, tt.sticky, tt.self, got, tt.want)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	tests := []struct {
		name   string
		entry  Info
		owners []uint32
		want   string
	}{
		{"a file that superd made", Info{Links: 1}, nil, ""},
		{"a file of an expected owner", Info{UID: 1000, Links: 1}, []uint32{1000}, ""},
		{"a file of another user", Info{UID: 1001, Links: 1}, []uint32{1000}, "it belongs to user 1001"},
		{"a hard link", Info{Links: 2}, nil, "it has 2 names (hard links)"},
		{"a symbolic link", Info{Mode: fs.ModeSymlink, Links: 1}, nil, "it is a symbolic link"},
		{"a FIFO", Info{UID: 1000, Mode: fs.ModeNamedPipe, Links: 1}, []uint32{1000}, "it is a FIFO"},
		{"a directory", Info{Mode: fs.ModeDir, Links: 2}, nil, "it is a directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := testTrust(0).refusal(&tt.entry, tt.owners...); got != tt.want {
				t.Errorf("refusal(%+v, %v) = %q, want %q", tt.entry, tt.owners, got, tt.want)
			}
		})
	}
}
