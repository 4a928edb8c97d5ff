package procs

import (
	"superd/config"
	"superd/loop"
	"testing"
	"unsafe"
)

func TestSizes(t *testing.T) {
	t.Log("instance", unsafe.Sizeof(instance{}), "run", unsafe.Sizeof(run{}), "machine", unsafe.Sizeof(machine{}), "node", unsafe.Sizeof(node{}), "cgroupTree", unsafe.Sizeof(cgroupTree{}), "program", unsafe.Sizeof(config.Program{Settings: &config.Settings{}}), "log", unsafe.Sizeof(config.Log{}), "scope", unsafe.Sizeof(loop.Scope{}), "timer", unsafe.Sizeof(loop.Timer{}), "watch", unsafe.Sizeof(loop.Watch{}))
}
