package mounts

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDevice(t *testing.T) {
	table := &Table{readAt: time.Now(), points: devices(`27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
31 27 0:40 / /mnt/nfs rw,relatime shared:7 - nfs4 host:/a rw
32 27 8:1 / /mnt/nfs2 rw - ext4 /dev/sda1 rw
33 27 8:2 /sub /with\040space rw - ext4 /dev/sda2 rw
34 31 0:41 / /mnt/nfs rw - tmpfs tmpfs rw
not a line
35 27 x:1 / /odd rw - ext4 none rw
36 27 0:42 / /overlay rw - overlay overlay rw,lowerdir=` + strings.Repeat("/layer:", 20_000) + `
37 27 0:43 / /back\134slash rw,nosuid - tmpfs  rw
`)}
	tests := []struct {
		path         string
		major, minor uint32
	}{
		{"/", 254, 0},
		{"/var/log/superd/web.log", 254, 0},
		{"/mnt", 254, 0},
		{"/mnt/nfs", 0, 41},
		{"/mnt/nfs/web/out.log", 0, 41},
		{"/mnt/nfs2/out.log", 8, 1},
		{"/mnt/nfs/../nfs2/out.log", 8, 1},
		{"/with space/out.log", 8, 2},
		{"/odd/out.log", 254, 0},
		{"/overlay/out.log", 0, 42},
		{`/back\slash/out.log`, 0, 43},
	}
	for _, tt := range tests {
		if got, want := table.Device(tt.path), deviceOf(tt.major, tt.minor); got != want {
			t.Errorf("Device(%q) = %#x, want %#x", tt.path, got, want)
		}
	}
	for path, want := range map[string]bool{"/": true, "/mnt/nfs": true, "/mnt/nfs/web": false, "/with space": true} {
		if got := table.IsPoint(path); got != want {
			t.Errorf("IsPoint(%q) = %v, want %v", path, got, want)
		}
	}
}

func TestDeviceOfThisMachine(t *testing.T) {
	var table Table
	for _, path := range []string{"/proc", "/dev/shm", "/"} {
		info, err := os.Stat(path)
		if err != nil {
			t.Skip(err)
		}
		if got, want := table.Device(path+"/nothing/there"), uint64(info.Sys().(*syscall.Stat_t).Dev); got != want {
			t.Errorf("Device of what is in %s = %#x, want %#x", path, got, want)
		}
	}
}
