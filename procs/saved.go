package procs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"superd/config"
	"superd/logs"
	"superd/pidfd"
	"superd/procs/schedule"
)

// What the next superd must know is in the journal under these keys:
//
//	superd          a [savedSuperd]
//	config/N        a configuration, as [config.Config.Archive] gives it
//	instance/NAME   a [savedInstance]
//	schedule/NAME   a [schedule.State]: after an orderly end
//	scale/NAME      a [scale]: how many replicas the operator wants of a program
//	birth/NAME/N    a [savedBirth]: a start whose result is not in the instance's record yet
//
// Fields may be added: who doesn't know one passes over it. Times are nanoseconds of CLOCK_MONOTONIC, the same for all processes until the
// machine is booted again; states, events and wishes have the names that the code gives them.
const superdKey = "superd"

func configKey(number uint64) string        { return "config/" + strconv.FormatUint(number, 10) }
func instanceKey(name string) string        { return "instance/" + name }
func scheduleKey(name string) string        { return "schedule/" + name }
func birthKey(name string, n uint64) string { return fmt.Sprintf("birth/%s/%d", name, n) }

// A savedSuperd is what concerns superd as a whole.
type savedSuperd struct {
	Config   uint64         `json:"config"`             // number of the one in force
	Before   uint64         `json:"before,omitempty"`   // of the one that a reload under way takes out of force; 0: none
	Begun    bool           `json:"begun,omitempty"`    // something was started
	Shutdown *savedShutdown `json:"shutdown,omitempty"` // under way
	Ended    bool           `json:"ended,omitempty"`    // in good order: of instances there is nothing but what the operator has stopped
}

type savedShutdown struct {
	Why    string `json:"why"`
	Hurry  bool   `json:"hurry,omitempty"`
	Status int    `json:"status,omitempty"` // that superd ends with
}

// A savedWish is a [wish].
type savedWish struct {
	Up bool   `json:"up"`
	By string `json:"by,omitempty"`
}

func saveWish(w wish) savedWish { return savedWish{w.up, w.by} }
func (w savedWish) wish() wish  { return wish{w.Up, w.By} }

// A savedInstance is what must be known of an instance.
type savedInstance struct {
	Config  uint64          `json:"config"`            // number of the configuration in force that has its table
	Table   *config.Program `json:"table,omitempty"`   // its table, where that is in no configuration any more
	Removed bool            `json:"removed,omitempty"` // it goes when it is at rest
	Next    *savedWish      `json:"next,omitempty"`    // what the operator wants of the one that takes its place

	State      string     `json:"state"`
	Held       bool       `json:"held,omitempty"` // not started while processes live of which is not known what they are
	Wanted     savedWish  `json:"wanted"`
	Overruled  *savedWish `json:"overruled,omitempty"` // what was wanted before the shutdown
	Again      bool       `json:"again,omitempty"`
	Verdict    string     `json:"verdict"`
	Blame      string     `json:"blame,omitempty"`
	NotStarted bool       `json:"not_started,omitempty"`
	Short      bool       `json:"short,omitempty"`
	Amiss      bool       `json:"amiss,omitempty"`

	Attempts int             `json:"attempts,omitempty"`
	Failures []time.Duration `json:"failures,omitempty"`
	GaveUp   bool            `json:"gave_up,omitempty"`
	Restarts int             `json:"restarts,omitempty"`
	Delay    time.Duration   `json:"delay,omitempty"`
	Due      *time.Duration  `json:"due,omitempty"` // of the next start that happens by itself

	Owed     bool            `json:"owed,omitempty"`
	Schedule *schedule.State `json:"schedule,omitempty"`
	DueFor   time.Time       `json:"due_for,omitzero"`  // the time of the schedule that was due last
	Skipped  int             `json:"skipped,omitempty"` // due times since the run under way began

	Why    string `json:"why,omitempty"`
	Ending string `json:"ending,omitempty"`
	Cause  string `json:"cause,omitempty"`

	Since      time.Duration `json:"since"`
	Settled    uint64        `json:"settled,omitempty"` // number of the newest birth of which this record has what came of it
	Exit       *savedExit    `json:"exit,omitempty"`    // of the last run
	Output     bool          `json:"output,omitempty"`  // there is a FIFO
	Kept       string        `json:"kept,omitempty"`    // the name under which the keeper has its read end
	Stderr     bool          `json:"stderr,omitempty"`  // there is one for standard error
	KeptStderr string        `json:"kept_stderr,omitempty"`
	Input      bool          `json:"input,omitempty"` // of a logger: there is a FIFO for its standard input
	KeptInput  string        `json:"kept_input,omitempty"`
	Dropped    *logs.Drops   `json:"dropped,omitempty"`
	Drain      string        `json:"drain,omitempty"`  // the run that has ended and whose output is not all in the log
	Tree       string        `json:"tree,omitempty"`   // its place
	Probes     string        `json:"probes,omitempty"` // the place of the tree of its exec checks
	Run        *savedRun     `json:"run,omitempty"`
}

// fifos returns for which streams, and whether for the input, there are FIFOs, and the names under which the keeper has them.
func (v *savedInstance) fifos() (there [3]bool, kept [3]string) {
	return [3]bool{v.Output, v.Stderr, v.Input}, [3]string{v.Kept, v.KeptStderr, v.KeptInput}
}

// A savedExit is how the last run ended, and when.
type savedExit struct {
	Known  bool          `json:"known,omitempty"`
	Code   int           `json:"code,omitempty"`
	Signal int           `json:"signal,omitempty"`
	At     time.Duration `json:"at"`
}

// A savedRun is a run that is not over.
type savedRun struct {
	ID            string          `json:"id"`              // invocation id
	Table         *config.Program `json:"table,omitempty"` // as it was when the run began, where that is not the instance's
	Stale         bool            `json:"stale,omitempty"` // it is by another table than the program has by now, and not to go on
	Touched       bool            `json:"touched,omitempty"`
	Main          *savedProcess   `json:"main,omitempty"`
	StartedAt     time.Duration   `json:"started_at,omitempty"`
	ReadyAt       time.Duration   `json:"ready_at,omitempty"`
	StartDeadline time.Duration   `json:"start_deadline,omitempty"`
	StopLimit     time.Duration   `json:"stop_limit,omitempty"`  // how far the program can put StopDeadline off
	Notify        string          `json:"notify,omitempty"`      // the names under which the keeper has its notify socket
	Ready         string          `json:"ready,omitempty"`       // and the pipe on which it tells that it is ready
	PrintsFrom    string          `json:"prints_from,omitempty"` // where its output begins in its log, of one that is to be ready by a line
	StderrFrom    string          `json:"stderr_from,omitempty"` // as well, in that of standard error
	StatusText    string          `json:"status_text,omitempty"`
	Watchdog      time.Duration   `json:"watchdog,omitempty"`  // the period that it has asked for
	Reloading     *time.Duration  `json:"reloading,omitempty"` // until then at most
	Leaving       *time.Duration  `json:"leaving,omitempty"`   // it is on its way out by itself, until then
	Health        *savedHealth    `json:"health,omitempty"`
	Group         int             `json:"group,omitempty"`
	OOMKills      int             `json:"oom_kills,omitempty"`
	EnvSum        uint64          `json:"env_sum,omitempty"` // of the env file that it was started with
	StopDeadline  time.Duration   `json:"stop_deadline,omitempty"`
	ClearBy       time.Duration   `json:"clear_by,omitempty"` // when what is left gets SIGKILL
	Hook          *savedHook      `json:"hook,omitempty"`     // under way
	PreStarted    bool            `json:"pre_started,omitempty"`
	PostStopped   bool            `json:"post_stopped,omitempty"`

	birth *savedBirth // of the main process, if its record doesn't have the process
	other bool        // it is by a table that the journal has not got
	ended bool        // the main process has ended, of which the record doesn't know
}

// A savedHook is the hook at hand.
type savedHook struct {
	At      int           `json:"at"`                // its number, counted from 0
	Process *savedProcess `json:"process,omitempty"` // nil: it is not started yet
	Stopped bool          `json:"stopped,omitempty"` // it is to end
	Failed  string        `json:"failed,omitempty"`  // why it is being killed, if not because it was called off
	Due     time.Duration `json:"due"`               // when its patience is over, and it is killed
	Timeout time.Duration `json:"timeout,omitempty"` // its patience, which a reload doesn't change; 0: that of the program

	birth *savedBirth // its own, if the record doesn't have the process
}

// A savedProcess is a process that was started.
type savedProcess struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start,omitempty"`
	Inode uint64 `json:"inode,omitempty"`
	Kept  string `json:"kept,omitempty"` // the name under which the keeper has its pidfd
}

func (p *savedProcess) identity() pidfd.Identity {
	return pidfd.Identity{Pid: p.Pid, Start: p.Start, Inode: p.Inode}
}

// A savedBirth is a start: written just before the fork, and again just after it, then with the process.
type savedBirth struct {
	Run      string        `json:"run"`                 // invocation id
	Config   uint64        `json:"config,omitempty"`    // number of the configuration by which the run goes, which may not be in the journal yet
	Hook     *int          `json:"hook,omitempty"`      // number of the hook, counted from 0; nil: the main process
	PostStop bool          `json:"post_stop,omitempty"` // it is a post_stop hook
	After    uint64        `json:"after,omitempty"`     // no process of it is older, in clock ticks since boot
	Process  *savedProcess `json:"process,omitempty"`
	Notify   string        `json:"notify,omitempty"` // as of a savedRun
	Ready    string        `json:"ready,omitempty"`
	Kept     [2]string     `json:"kept,omitzero"` // the names under which the keeper has the read ends of FIFOs that were made for it
	At       time.Duration `json:"at,omitempty"`  // when the process was born

	Schedule *schedule.State `json:"schedule,omitempty"` // so that nothing is run twice for one time

	number uint64
}

// numberOfConfig returns the number of a configuration's key.
func numberOfConfig(key string) (number uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, "config/")
	number, err := strconv.ParseUint(rest, 10, 64)
	return number, ok && err == nil
}

// nameOf returns the entry of names that is s. The names are those of a table that a newer superd may have extended.
func nameOf[T ~uint8](names []string, s string) (T, error) {
	i := slices.Index(names, s)
	if i < 0 {
		return 0, fmt.Errorf("unknown name %q", s)
	}
	return T(i), nil
}

// instanceOfBirth returns the instance of a birth's key, and its number.
func instanceOfBirth(key string) (name string, number uint64, ok bool) {
	rest, ok := strings.CutPrefix(key, "birth/")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", 0, false
	}
	number, err := strconv.ParseUint(rest[i+1:], 10, 64)
	return rest[:i], number, err == nil
}
