package pidfd

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkSpawn shows that the cost of a spawn does not depend on the number of descriptors, if
// there are slots.
func BenchmarkSpawn(b *testing.B) {
	for _, descriptors := range []int{10, 1000, 10_000} {
		for _, slotted := range []bool{true, false} {
			b.Run(fmt.Sprintf("descriptors=%d/slots=%t", descriptors, slotted), func(b *testing.B) {
				attr := &Attr{Path: "/bin/true", Args: []string{"true"}, CgroupFD: -1}
				if slotted {
					s, err := ReserveSlots(-1, 1)
					if err != nil {
						b.Fatal(err)
					}
					defer s.Close()
					attr.Slots = s
				}
				null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
				if err != nil {
					b.Fatal(err)
				}
				defer unix.Close(null)
				for range descriptors {
					fd, err := unix.FcntlInt(uintptr(null), unix.F_DUPFD_CLOEXEC, 0)
					if err != nil {
						b.Skip(err)
					}
					defer unix.Close(fd)
				}
				attr.Files = []int{null, null, null}
				for b.Loop() {
					child, err := Spawn(attr)
					if err != nil {
						b.Fatal(err)
					}
					if err := waitid(unix.P_PID, child.Pid(), unix.WEXITED); err != nil {
						b.Fatal(err)
					}
					child.Close()
				}
			})
		}
	}
}
