package keeper

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"superd/fdstore"
	"superd/loop"
	"superd/pidfd"
	"superd/signals"
)

// A trial is the time between a supervisor's word that it is about to execute another binary and that binary's READY=1. Should it end before
// that, or take too long, the next supervisor is started from the keeper's own binary, which is the old one until the trial is over: then the keeper
// executes the new one, too.
type trial struct {
	timer *loop.Timer // nil: no trial
}

// begin is told when the supervisor is about to execute another binary, or has not done so after all.
func (t *trial) begin(k *Keeper, really bool) {
	t.end()
	if !really {
		return
	}
	k.exits.told = 0 // what the other binary has not acknowledged, it is told
	t.timer = k.scope.After(k.options.Trial, func() {
		t.timer = nil
		k.log.Error("superd's new binary is not ready: the old one is started again", "waited", k.options.Trial)
		k.supervisor.Signal(unix.SIGKILL)
	})
}

// end reports whether there was one.
func (t *trial) end() bool {
	was := t.timer != nil
	t.timer.Stop()
	t.timer = nil
	return was
}

// Names of descriptors that a keeper hands to itself.
const (
	ownChannelFile  = "keeper-channel"
	ownLinkFile     = "keeper-link"
	ownWatchdogFile = "keeper-watchdog"
	ownStateFile    = "keeper-state"
)

// A handover is what a keeper knows, for itself after an execution.
type handover struct {
	Supervisor int // pid
	Ready      bool
	Stopping   bool
	Announced  bool
	Status     int
	EverReady  bool
	Crashes    int
	Exits      []Exit
	Told       int
	Signals    []int
}

// follow executes the binary that the supervisor runs. It returns if that fails; the keeper goes on with the old one.
func (k *Keeper) follow() {
	path, err := signals.ExecutableOf(k.supervisor.Pid())
	if err == nil {
		err = k.execute(path)
	}
	k.log.Warn("the keeper goes on with its old binary", "error", err)
}

func (k *Keeper) execute(path string) error {
	arrived, release := k.options.Signals.Hold()
	defer release()
	state := handover{
		Supervisor: k.supervisor.Pid(), Ready: k.life.ready, Stopping: k.life.stopping, Announced: k.life.announced, Status: k.life.status,
		EverReady: k.everReady, Crashes: k.crashes, Exits: k.exits.exits, Told: k.exits.told,
	}
	for _, sig := range append(slices.Clip(k.signals), arrived...) {
		if handedOn(sig) {
			state.Signals = append(state.Signals, int(sig))
		}
	}
	text, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	fd, err := unix.MemfdCreate(ownStateFile, unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	defer unix.Close(fd)
	if _, err := unix.Pwrite(fd, text, 0); err != nil {
		return fmt.Errorf("hand over: %w", err)
	}
	files := k.store.Files()
	files[ownStateFile], files[ownChannelFile], files[ownLinkFile] = fd, k.channel, k.theirs
	if k.watchdog.fd >= 0 {
		files[ownWatchdogFile] = k.watchdog.fd
	}
	return fdstore.Exec(path, k.options.Args, k.options.Env, files, k.options.OpenFiles)
}

// inherit takes up what the keeper has handed to itself, if it has.
func (k *Keeper) inherit() (again bool, err error) {
	take := k.store.Take
	fd := take(ownStateFile)
	k.channel, k.theirs, k.watchdog.fd = take(ownChannelFile), take(ownLinkFile), take(ownWatchdogFile)
	if fd < 0 || k.channel < 0 || k.theirs < 0 {
		return false, nil
	}
	file := os.NewFile(uintptr(fd), ownStateFile)
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<24))
	if err != nil {
		return false, fmt.Errorf("take over from the old keeper: %w", err)
	}
	var state handover
	if err := json.Unmarshal(text, &state); err != nil {
		return false, fmt.Errorf("take over from the old keeper: %w", err)
	}
	k.supervisor, err = pidfd.Open(state.Supervisor) // its child still
	if err != nil {
		return false, fmt.Errorf("take over from the old keeper: %w", err)
	}
	k.life = life{state.Ready, state.Stopping, state.Announced, state.Status}
	k.everReady, k.crashes = state.EverReady, state.Crashes
	k.exits = exitList{exits: state.Exits, told: min(state.Told, len(state.Exits))}
	for _, sig := range state.Signals {
		k.signals = append(k.signals, syscall.Signal(sig))
	}
	return true, nil
}
