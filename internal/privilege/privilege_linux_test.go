package privilege

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"superd/internal/rlimit"
)

// TestSetLimitAgreesWithTheKernel: values refused beforehand are those that the kernel refuses.
func TestSetLimitAgreesWithTheKernel(t *testing.T) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err) // a raised hard limit can always be lowered again
		}
	}()
	for _, value := range []uint64{before.Max, before.Max + 1, mostFiles(), mostFiles() + 1, rlimit.Infinity} {
		foreseen := SetLimit(rlimit.NoFile, value)
		limit := before
		limit.Max = value
		err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		if (foreseen == nil) != (err == nil) {
			t.Errorf("SetLimit(nofile, %d) = %v, and the kernel says %v", value, foreseen, err)
		}
		if foreseen != nil && !strings.Contains(foreseen.Error(), ": lower it") {
			t.Errorf("SetLimit(nofile, %d) = %v, without a remedy", value, foreseen)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
	}
	if err := SetLimit(rlimit.Core, 0); err != nil {
		t.Errorf("SetLimit(core, 0) = %v", err)
	}
}

func TestChangeUser(t *testing.T) {
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if none := strings.Contains(string(data), "CapEff:\t0000000000000000"); none && ChangeUser() {
		t.Error("ChangeUser() = true without any capability")
	}
	if all := strings.Contains(string(data), "CapEff:\t000001ffffffffff"); all && !ChangeUser() {
		t.Error("ChangeUser() = false with all capabilities")
	}
}
