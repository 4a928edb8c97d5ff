package fsm

// An Actor is what sets a desired state.
type Actor struct {
	Kind ActorKind
	For  string // instance on whose behalf the actor acts; empty: its own
}

// An ActorKind is the kind of an [Actor]. actorNames has its name in the journal and in JSON.
type ActorKind uint8

// The actors.
const (
	ActorNone          ActorKind = iota // no desired state was set yet
	ActorConfiguration                  // autostart
	ActorReload                         // a changed definition
	ActorUnscheduled                    // removal of the schedule of a one-shot
	ActorRemoval                        // the instance is no longer configured
	ActorOperator                       // a command
	ActorScale                          // a command that changes the number of replicas
	ActorRoll                           // a rolling restart
	ActorShutdown                       // the shutdown of superd
	ActorConnection                     // a connection to one of its sockets
	ActorIdle                           // idle_timeout: no connection
	ActorWatch                          // a file that its program watches has changed
	ActorOther                          // of another version of superd, or its record is lost
	actorCount
)

// By returns the actor of a kind that acts on its own behalf.
func By(kind ActorKind) Actor { return Actor{Kind: kind} }

// Is reports whether a is of that kind and acts on its own behalf.
func (a Actor) Is(kind ActorKind) bool { return a == By(kind) }

// String names the actor in a reason: "the operator, for web".
func (a Actor) String() string {
	text := actorTexts[a.Kind]
	if a.For != "" {
		text += ", for " + a.For
	}
	return text
}

var actorTexts = [actorCount]string{
	ActorConfiguration: "the configuration",
	ActorReload:        "the configuration (changed)",
	ActorUnscheduled:   "the configuration (schedule removed)",
	ActorRemoval:       "the configuration (removed)",
	ActorOperator:      "the operator",
	ActorScale:         "the operator (scaled)",
	ActorRoll:          "the rolling restart",
	ActorShutdown:      "the shutdown",
	ActorConnection:    "a connection",
	ActorIdle:          "idle_timeout",
	ActorWatch:         "watch",
	ActorOther:         "an unknown actor",
}

// A Target is a desired state of an instance and the actor that set it. It is kept apart from the
// state.
type Target struct {
	Up bool
	By Actor
}
