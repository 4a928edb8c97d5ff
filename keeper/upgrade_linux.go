package keeper

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/keeper/fdstore"
	"superd/loop"
	"superd/pidfd"
	"superd/signals"
)

// A trial is the time between a supervisor's message that it will execute another binary and
// READY=1 of that binary. If the process ends before that or takes too long, the next supervisor
// runs the keeper's own binary, which is still the old one. After the trial the keeper executes the
// new binary, too.
type trial struct {
	timer *loop.Timer // nil: no trial
}

// begin starts the trial when the supervisor is about to execute another binary, or ends it if the
// supervisor did not (executes is false).
func (t *trial) begin(k *Keeper, executes bool) {
	t.end()
	if !executes {
		return
	}
	k.exits.sent = 0 // resend exits that are not acknowledged
	t.timer = k.scope.After(k.options.Trial, func() {
		t.timer = nil
		k.log.Error("superd's new binary is not ready: the old one is restarted", "waited", k.options.Trial)
		k.supervisor.Signal(unix.SIGKILL)
	})
}

// end ends the trial, and reports whether there was one.
func (t *trial) end() bool {
	running := t.timer != nil
	t.timer.Stop()
	t.timer = nil
	return running
}

// Names of descriptors that a keeper passes to itself.
const (
	ownChannelFile  = "keeper-channel"
	ownLinkFile     = "keeper-link"
	ownWatchdogFile = "keeper-watchdog"
	ownStateFile    = "keeper-state"
)

// An upgradeState is the state that a keeper passes to itself through an exec.
type upgradeState struct {
	Supervisor  int // pid of the supervisor
	Ready       bool
	Stopping    bool
	Announced   bool
	Status      int
	EverReady   bool
	Crashes     int
	Exits       []Exit
	Sent        int
	Signals     []int
	Undelivered []int         // signals sent to the supervisor
	Stop        int           // signal; 0: no request
	StopAt      time.Duration // on CLOCK_MONOTONIC
}

// upgrade executes the binary that the supervisor runs. It returns on failure; the keeper then
// continues with the old one.
func (k *Keeper) upgrade() {
	path, err := signals.ExecutableOf(k.supervisor.Pid())
	if err == nil {
		err = k.execute(path)
	}
	k.log.Warn("the keeper continues with its old binary", "error", err)
}

func (k *Keeper) execute(path string) error {
	arrived, resume := k.options.Signals.Suspend()
	defer resume()
	state := upgradeState{
		Supervisor: k.supervisor.Pid(), Ready: k.report.ready, Stopping: k.report.stopping, Announced: k.report.exitAnnounced, Status: k.report.status,
		EverReady: k.everReady, Crashes: k.crashes, Exits: k.exits.exits, Sent: k.exits.sent,
		Stop: int(k.stop.signal), StopAt: k.stop.at,
	}
	for _, sig := range k.unacknowledged {
		state.Undelivered = append(state.Undelivered, int(sig))
	}
	for _, sig := range append(slices.Clip(k.signals), arrived...) {
		if isForwarded(sig) {
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
	files[ownStateFile], files[ownChannelFile], files[ownLinkFile] = fd, k.channel, k.supervisorEnd
	if k.front >= 0 {
		files[frontFile] = k.front
	}
	if k.watchdog.fd >= 0 {
		files[ownWatchdogFile] = k.watchdog.fd
	}
	env := withChildrenVariable(k.options.Signals.Environment(k.options.Env), k.options.HadChildren)
	return fdstore.Exec(path, k.options.Args, env, files, k.options.OpenFiles)
}

// restore restores the state that the keeper has passed to itself, and reports whether there is
// one.
func (k *Keeper) restore() (restored bool, err error) {
	take := k.store.Take
	fd := take(ownStateFile)
	k.channel, k.supervisorEnd, k.watchdog.fd = take(ownChannelFile), take(ownLinkFile), take(ownWatchdogFile)
	if fd < 0 || k.channel < 0 || k.supervisorEnd < 0 {
		return false, nil
	}
	file := os.NewFile(uintptr(fd), ownStateFile)
	defer file.Close()
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<24))
	if err != nil {
		return false, fmt.Errorf("take over from the old keeper: %w", err)
	}
	var state upgradeState
	if err := json.Unmarshal(text, &state); err != nil {
		return false, fmt.Errorf("take over from the old keeper: %w", err)
	}
	k.supervisor, err = pidfd.Open(state.Supervisor) // still a child of this process
	if err != nil {
		return false, fmt.Errorf("take over from the old keeper: %w", err)
	}
	k.report = report{state.Ready, state.Stopping, state.Announced, state.Status}
	k.everReady, k.crashes = state.EverReady, state.Crashes
	k.exits = exitList{exits: state.Exits, sent: min(state.Sent, len(state.Exits))}
	k.stop.signal, k.stop.at = syscall.Signal(state.Stop), state.StopAt
	for _, sig := range state.Undelivered {
		k.unacknowledged = append(k.unacknowledged, syscall.Signal(sig))
	}
	for _, sig := range state.Signals {
		k.signals = append(k.signals, syscall.Signal(sig))
	}
	return true, nil
}
