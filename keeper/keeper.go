// Package keeper is the small process above superd's supervisor, and the supervisor's link to it.
//
// The keeper starts the supervisor and, after a crash, its successor. As child subreaper it becomes
// the parent of programs whose supervisor has ended; it reaps them and reports their exits to the
// next supervisor. It holds the descriptors that the supervisor stores, forwards signals to the
// supervisor, and kills one whose loop hangs. It knows nothing of programs or configurations.
//
// The two communicate over a socketpair that lives as long as the keeper, with the protocol of
// package fdstore: a successor reads what a supervisor has not read. The supervisor's side is a
// [Link]. It also represents systemd, where that is the keeper.
package keeper

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/internal/gcpacer"
	"superd/keeper/fdstore"
	"superd/loop"
	"superd/pidfd"
	"superd/signals"
)

// Options are the arguments of Run.
type Options struct {
	Log  *slog.Logger
	Args []string // command line of the supervisor, beginning with the program's name
	Env  []string // environment of the supervisor and of the keeper
	// SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGCHLD and SIGPIPE
	Signals *signals.Caught
	// Descriptors from an earlier keeper or supervisor, see fdstore.Take
	Files map[string]int
	// Receives the states of the supervisor that are not for the keeper only
	Manager *fdstore.Manager
	// Number of descriptors for which a supervisor gets room in its table, see pidfd.MakeRoom
	Room int
	// Limit on open files that the keeper was started with; nil: unchanged
	OpenFiles *unix.Rlimit
	Watchdog  time.Duration // longest turn of the supervisor's loop; 0: unlimited
	// Time for another binary to become ready before the old one is started again
	Trial time.Duration
	// Longest pause before the restart of a supervisor that crashes repeatedly
	RestartMax  time.Duration
	Terminal    *Terminal // terminal whose hangup superd ignores; nil: none
	HadChildren bool      // the process had children before it ran superd
	// Called once the supervisor is started; may be nil
	Begun func()
}

// restartPause is the pause before the third supervisor; the second is started at once. Later
// pauses double.
const restartPause = 100 * time.Millisecond

// stableTime is how long a supervisor must run for its crash to count as the first one.
const stableTime = 10 * time.Second

// A Keeper is the state of the keeper. It lives on its loop's goroutine.
type Keeper struct {
	options Options
	loop    *loop.Loop
	log     *slog.Logger
	manager *fdstore.Manager
	channel int // keeper's end of the socketpair
	front   int // keeper's end of the socketpair to the front process; -1: none
	// supervisor's end, open here, too, so that unread messages stay for the successor
	supervisorEnd int
	receiver      *fdstore.Receiver
	incoming      *loop.Watch // watch of channel; stopped while messages may gather
	unread        *fdstore.Receiver
	store         fdstore.Store
	exits         exitList
	watchdog      watchdog
	pacer         *gcpacer.Pacer // nil until a supervisor is ready
	trial         trial

	supervisor     *pidfd.Process // nil: none is running
	scope          *loop.Scope    // scope of the running supervisor
	listening      bool           // a supervisor runs or is being started
	started        time.Duration
	restart        *loop.Timer // nil: none is due
	crashes        int         // consecutive crashes
	initial        bool        // this process had no keeper before
	everReady      bool
	report         report
	signals        []syscall.Signal // signals for which the socket had no room
	unacknowledged []syscall.Signal // signals sent that the supervisor has not acknowledged
	stop           stopRequest
	shutdown       *directShutdown // nil while a supervisor runs, or may be started
	status         int             // exit status of the keeper
}

// A report is what a supervisor has reported so far.
type report struct {
	ready, stopping, exitAnnounced bool
	status                         int // valid if exitAnnounced
}

// gatherPause is how long messages may gather in the socket after one was read. While many programs
// start or end, a supervisor sends thousands a second, and a wakeup for each would cost more than
// the rest of the work. The keeper has both ends of the socket open, so a kill meanwhile drops
// no message.
const gatherPause = 5 * time.Millisecond

// listen watches the supervisor's messages.
func (k *Keeper) listen() (err error) {
	k.incoming, err = k.loop.Root().OnReadable(k.channel, k.onMessage)
	return err
}

// onMessage reads the supervisor's messages, and watches for more after gatherPause.
func (k *Keeper) onMessage() {
	k.incoming.Stop()
	k.loop.Root().After(gatherPause, func() {
		if err := k.listen(); err != nil { // can't fail: see open
			k.log.Error("keeper can't receive from the supervisor", "error", err)
		}
	})
	k.receive()
}

// receive handles the messages that the supervisor has sent.
func (k *Keeper) receive() {
	for {
		m, ok, err := k.receiver.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			k.log.Error("keeper can't receive from the supervisor", "error", err)
		}
		if err != nil || !ok {
			break
		}
		k.handle(m)
	}
	k.sendPending()
}

func (k *Keeper) handle(m fdstore.Message) {
	k.store.Apply(m)
	if name, _ := m.Value("FDNAME"); name == runtimeFile {
		k.showRuntimeDir()
	}
	var forward []string
	upgraded := false
	for _, line := range m.Lines {
		switch key, value := cut(line); key {
		case keyExit:
			k.report.exitAnnounced = true
			k.report.status = number(value)
			if k.report.stopping && k.supervisor != nil {
				// The stored descriptors are no longer needed. Closing them now, beside the
				// supervisor's last work, does not delay the exit.
				k.store.Close()
			}
		case keyUpgrade:
			k.trial.begin(k, value == "1")
		case keyAcknowledge:
			k.exits.acknowledge(value)
		case keySignalled:
			if i := slices.Index(k.unacknowledged, syscall.Signal(number(value))); i >= 0 {
				k.unacknowledged = slices.Delete(k.unacknowledged, i, i+1)
			}
		case "FDSTORE", "FDSTOREREMOVE", "FDNAME", "FDPOLL":
		case "READY":
			if !k.report.ready {
				k.report.ready, k.everReady = true, true
				k.reduceMemorySoon()
			}
			upgraded = k.trial.end()
			forward = append(forward, line)
		case "STOPPING":
			k.report.stopping = true
			forward = append(forward, line)
		default:
			forward = append(forward, line)
		}
	}
	k.forward(forward)
	if upgraded && k.supervisor != nil {
		k.upgrade()
	}
}

// sendPending sends the supervisor what is not yet sent. A supervisor that is being started finds
// it in the socket.
func (k *Keeper) sendPending() {
	if !k.listening {
		return
	}
	if k.stop.unsent {
		if !k.send(fmt.Sprintf("%s=%d", keyStop, int(k.stop.signal))) {
			return
		}
		k.stop.unsent = false
	}
	for len(k.signals) > 0 {
		if !k.send(signalLine(k.signals[0])) {
			return
		}
		k.unacknowledged = append(k.unacknowledged, k.signals[0])
		k.signals = k.signals[1:]
	}
	for {
		lines, unacknowledged := k.exits.unsent()
		if unacknowledged == nil || !k.send(lines) {
			return
		}
		unacknowledged()
	}
}

func (k *Keeper) send(lines string) bool {
	sent, err := fdstore.Send(k.channel, lines)
	if err != nil {
		k.log.Error("keeper can't send to the supervisor", "error", err)
	}
	if sent {
		k.watchdog.sent()
	}
	return sent
}

// onSignal forwards a signal as a message: a supervisor that is being started would miss a real one
// or die of it.
func (k *Keeper) onSignal(sig syscall.Signal) {
	if !isForwarded(sig) {
		k.reapOrphans()
		return
	}
	switch {
	case isStop(sig):
		k.requestStop(sig)
		return
	case sig == syscall.SIGHUP && k.options.Terminal.Hangup(k.loop.Now()):
		return // superd continues without its terminal, as with nohup(1)
	}
	k.signals = append(k.signals, sig)
	k.sendPending()
}

// isForwarded reports whether a signal is forwarded to the supervisor.
func isForwarded(sig syscall.Signal) bool { return sig != syscall.SIGCHLD && sig != syscall.SIGPIPE }

// ended decides what follows the end of the supervisor.
//
// The keeper ends, too, if the supervisor announced its end while stopping, or if it is the first
// one and could not start. If a later one fails, running programs may need a supervisor, so another
// is tried.
func (k *Keeper) ended(exit pidfd.Exit) {
	if k.report.exitAnnounced && (k.report.stopping || k.first() && !k.everReady) {
		k.status = k.report.status
		k.loop.Stop()
		return
	}
	if k.report.ready || k.report.stopping {
		k.stop.lastReadyEnd = k.loop.Now()
	}
	if k.loop.Now()-k.started >= stableTime {
		k.crashes = 0
	}
	if k.trial.end() {
		k.log.Error("superd's new binary ended before it was ready: the old one is restarted")
	}
	k.crashes++
	pause := k.pause()
	k.log.Error("superd crashed: it is restarted", "exit", exit.String(), "restart_in", pause)
	k.startAfter(pause)
}

// startAfter starts the next supervisor after a pause, unless a stop is overdue.
func (k *Keeper) startAfter(pause time.Duration) {
	if k.stopOverdue() {
		k.shutDownDirectly()
		return
	}
	k.restart = k.loop.Root().After(pause, k.start)
}

// first reports whether the current supervisor is the first under this keeper and its predecessors.
func (k *Keeper) first() bool { return k.crashes == 0 && k.initial }

// pause returns the time before the next start.
func (k *Keeper) pause() time.Duration {
	pause := time.Duration(0)
	for range min(k.crashes-1, 30) {
		pause = min(max(2*pause, restartPause), k.options.RestartMax)
	}
	if k.stop.signal != 0 {
		pause = min(pause, stopRetry)
	}
	return pause
}
