// Package keeper is the small process above superd's supervisor, and the supervisor's link to it.
//
// The keeper starts the supervisor and, when that crashes, the next one. It is their child subreaper, so that programs whose supervisor has
// gone become its children; it reaps them and tells the next supervisor how they ended. It holds the descriptors that the supervisor has
// stored with it, hands the signals it gets on to the supervisor, and ends one whose loop is stuck. It knows nothing of programs
// or configurations: what it does not do can't break.
//
// Both talk over a socketpair that lives as long as the keeper, in the protocol of package fdstore: what one supervisor has not read
// is not lost. The supervisor's side is a [Link], which stands for systemd, too, where that is the keeper.
package keeper

import (
	"io"
	"log/slog"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"superd/fdstore"
	"superd/footprint"
	"superd/loop"
	"superd/pidfd"
	"superd/signals"
)

// Options are what a keeper needs to know.
type Options struct {
	Log        *slog.Logger
	Args       []string         // the supervisor's command line, with the program's name first
	Env        []string         // its environment, and the keeper's own
	Signals    *signals.Caught  // SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGCHLD and SIGPIPE
	Files      map[string]int   // what an earlier keeper or supervisor has handed on, see fdstore.Take
	Manager    *fdstore.Manager // who is told the states of the supervisor that are not for the keeper alone
	Room       int              // for how many descriptors a supervisor is to have room at once, see pidfd.MakeRoom
	OpenFiles  *unix.Rlimit     // the limit of open files that the keeper was started with; nil: as it is
	Watchdog   time.Duration    // how long a turn of the supervisor's loop may take; 0: for ever
	Trial      time.Duration    // how long another binary may take to be ready before the old one is started again
	RestartMax time.Duration    // longest pause before a supervisor that crashes again and again is started
	Begun      func()           // does what can wait until there is a supervisor, and goes on beside that as it comes up; nil: nothing
}

// restartPause is the pause before the third supervisor; the second one is started at once. It doubles from there on.
const restartPause = 100 * time.Millisecond

// stableTime is how long a supervisor has to live for its crash to count as the first.
const stableTime = 10 * time.Second

// A Keeper lives on its loop's goroutine.
type Keeper struct {
	options  Options
	loop     *loop.Loop
	log      *slog.Logger
	manager  *fdstore.Manager
	channel  int // the keeper's end of the socketpair
	theirs   int // the supervisor's: open here, too, so that what it has not read stays there for the next
	receiver *fdstore.Receiver
	hears    *loop.Watch // of channel; stopped while more may gather there
	unread   *fdstore.Receiver
	store    fdstore.Store
	exits    exitList
	watchdog watchdog
	pacer    *footprint.Pacer // nil until a supervisor is ready
	trial    trial

	supervisor *pidfd.Process // nil: none lives
	scope      *loop.Scope    // of the supervisor
	listening  bool           // it lives or is just being started
	started    time.Duration
	restart    *loop.Timer // nil: none is due
	crashes    int         // in a row
	everReady  bool
	life       life
	signals    []syscall.Signal // that the socket had no room for
	status     int              // the keeper's own, in the end
}

// A life is what a supervisor has told so far.
type life struct {
	ready, stopping, announced bool
	status                     int // if announced
}

// gatherPause is how long what comes after a message may gather: while many programs start or end, a supervisor sends thousands a second, and to wake up
// for each of them costs more than all the rest. They lie in the socket, of which the keeper has both ends, so it makes no difference to who is killed
// meanwhile.
const gatherPause = 5 * time.Millisecond

// listen has the keeper hear the supervisor.
func (k *Keeper) listen() (err error) {
	k.hears, err = k.loop.Root().OnReadable(k.channel, k.hear)
	return err
}

// hear takes what the supervisor has sent, and looks again in a moment rather than at once.
func (k *Keeper) hear() {
	k.hears.Stop()
	k.loop.Root().After(gatherPause, func() {
		if err := k.listen(); err != nil { // only without the watch that open has set on it
			k.log.Error("keeper can't hear the supervisor", "error", err)
		}
	})
	k.receive()
}

// receive takes what the supervisor has sent.
func (k *Keeper) receive() {
	for {
		m, ok, err := k.receiver.Next()
		if err != nil && err != io.EOF {
			k.log.Error("keeper can't hear the supervisor", "error", err)
		}
		if err != nil || !ok {
			break
		}
		k.handle(m)
	}
	k.tell()
}

func (k *Keeper) handle(m fdstore.Message) {
	k.store.Apply(m)
	var forward []string
	upgraded := false
	for _, line := range m.Lines {
		switch key, value := cut(line); key {
		case keyExit:
			k.life.announced = true
			k.life.status = number(value)
			if k.life.stopping && k.supervisor != nil {
				k.store.Close() // nobody is to get it any more: beside what the supervisor has left to do, and not when that waits for it
			}
		case keyUpgrade:
			k.trial.begin(k, value == "1")
		case keyAcknowledge:
			k.exits.acknowledge(value)
		case "FDSTORE", "FDSTOREREMOVE", "FDNAME", "FDPOLL":
		case "READY":
			if !k.life.ready {
				k.life.ready, k.everReady = true, true
				k.becomeSmallSoon()
			}
			upgraded = k.trial.end()
			forward = append(forward, line)
		case "STOPPING":
			k.life.stopping = true
			forward = append(forward, line)
		default:
			forward = append(forward, line)
		}
	}
	k.forward(forward)
	if upgraded && k.supervisor != nil {
		k.follow()
	}
}

// tell sends the supervisor what it has not been told. Who is just being started finds it in the socket.
func (k *Keeper) tell() {
	if !k.listening {
		return
	}
	for len(k.signals) > 0 {
		if !k.send(signalLine(k.signals[0])) {
			return
		}
		k.signals = k.signals[1:]
	}
	for {
		lines, told := k.exits.untold()
		if told == nil || !k.send(lines) {
			return
		}
		told()
	}
}

func (k *Keeper) send(lines string) bool {
	sent, err := fdstore.Send(k.channel, lines)
	if err != nil {
		k.log.Error("keeper can't reach the supervisor", "error", err)
	}
	if sent {
		k.watchdog.sent()
	}
	return sent
}

// onSignal hands a signal on, by a message: a supervisor that is just coming up would miss it or die of it.
func (k *Keeper) onSignal(sig syscall.Signal) {
	if !handedOn(sig) {
		k.sweep()
		return
	}
	k.signals = append(k.signals, sig)
	k.tell()
	if k.supervisor == nil && k.restart != nil && (sig == syscall.SIGTERM || sig == syscall.SIGINT) {
		k.restart.Stop()
		k.start() // to stop the programs
	}
}

// handedOn reports whether a signal is for the supervisor.
func handedOn(sig syscall.Signal) bool { return sig != syscall.SIGCHLD && sig != syscall.SIGPIPE }

// ended decides what follows the end of the supervisor.
//
// An end that it has announced is the keeper's, too: of a supervisor that was stopping, or of the very first one, which could not come
// up. When a later one can't, programs may live that need one, so the next is tried.
func (k *Keeper) ended(exit pidfd.Exit) {
	if k.life.announced && (k.life.stopping || k.first() && !k.everReady) {
		k.status = k.life.status
		k.loop.Stop()
		return
	}
	if k.loop.Now()-k.started >= stableTime {
		k.crashes = 0
	}
	if k.trial.end() {
		k.log.Error("superd's new binary ended before it was ready: the old one is started again")
	}
	k.crashes++
	pause := k.pause()
	k.log.Error("superd crashed, it is started again", "exit", exit.String(), "restart_in", pause)
	k.restart = k.loop.Root().After(pause, k.start)
}

// first reports whether no supervisor has come before the present one, under this keeper or the one whose place it has taken.
func (k *Keeper) first() bool { return k.crashes == 0 && len(k.options.Files) == 0 }

// pause returns the time before the next start.
func (k *Keeper) pause() time.Duration {
	pause := time.Duration(0)
	for range min(k.crashes-1, 30) {
		pause = min(max(2*pause, restartPause), k.options.RestartMax)
	}
	return pause
}
