package pidfd

// Features tells what the running kernel can do, beyond what the package needs in any case.
type Features struct {
	Pidfd           bool // pidfds at all: without, neither Spawn nor Open works (Linux 5.4)
	CloneIntoCgroup bool // Attr.CgroupFD (5.7)
	GroupSignal     bool // SignalGroup also after the leader was reaped, or without being its parent (6.9)
	Pidfs           bool // Identity has an inode, and a descriptor hangs up when its process is reaped (6.9)
	ExitInfo        bool // ExitInfo (6.15)
}
