package sandbox

import (
	"strings"
	"testing"
)

func TestGaps(t *testing.T) {
	strict := Settings{Preset: PresetStrict}
	strict.ApplyPreset(func(string) bool { return false })
	closed := strict
	closed.AddressFamilies, closed.DenyWriteExecute = []string{"AF_UNIX"}, true
	closed.Inaccessible, closed.PrivateNetwork = []string{"-/home", "-/root"}, true
	open := closed
	open.ReadWrite = []string{"-/sys/"}
	setuid := closed
	setuid.Capabilities = []string{"CAP_SETUID", "CAP_KILL"}
	tests := []struct {
		name     string
		settings *Settings
		root     bool
		want     string // texts, abbreviated
	}{
		{"no sandbox", nil, true, "runs as root, if superd does; may have every capability; can gain rights; can make system calls; can write wherever; " +
			"can change settings of the kernel, in /proc/sys; can read what; shares /tmp; sees all devices; can make sockets; can connect; can execute memory"},
		{"strict", &strict, false, "can read what; can make sockets; can connect; can execute memory"},
		{"strict as root", &strict, true, "runs as root; can read what; can make sockets; can connect; can execute memory"},
		{"open settings", &open, true, "runs as root; can change settings of the kernel, in /sys"},
		{"open settings, not as root", &open, false, ""},
		{"all is closed", &closed, false, ""},
		{"strong capabilities", &setuid, false, "may have CAP_SETUID"},
		{"landlock", &Settings{Landlock: Landlock{Read: []string{}, Write: []string{}, ConnectTCP: []int{}}}, false,
			"may have every capability; can make system calls; shares /tmp; sees all devices; can make sockets; can execute memory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Gaps(tt.settings, tt.root)
			var want []string
			if tt.want != "" {
				want = strings.Split(tt.want, "; ")
			}
			same := len(got) == len(want)
			for i := 0; same && i < len(got); i++ {
				same = strings.HasPrefix(got[i].Text, want[i]) && got[i].Remedy != ""
			}
			if !same {
				t.Errorf("gaps are %q, want %q", got, want)
			}
		})
	}
}
