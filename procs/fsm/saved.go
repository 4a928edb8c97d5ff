package fsm

import (
	"fmt"
	"slices"
	"time"
)

// A SavedTarget is the snapshot of a [Target].
type SavedTarget struct {
	Up  bool   `json:"up"`
	By  string `json:"by,omitempty"`
	For string `json:"for,omitempty"` // an instance
}

// Snapshot returns the snapshot of the target.
func (t Target) Snapshot() SavedTarget { return SavedTarget{t.Up, t.By.Kind.String(), t.By.For} }

// Restore returns the target. An unknown actor becomes ActorOther.
func (v SavedTarget) Restore() Target {
	kind, err := valueOf[ActorKind](actorNames[:], v.By)
	if err != nil && v.By != "" {
		kind = ActorOther
	}
	return Target{v.Up, Actor{kind, v.For}}
}

// A SavedReason is the snapshot of a [Reason].
type SavedReason struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail,omitempty"`
}

// Snapshot returns the snapshot of the reason.
func (r Reason) Snapshot() SavedReason { return SavedReason{r.Kind.String(), r.Detail} }

// Restore returns the reason. One of an unknown kind keeps only its detail.
func (v SavedReason) Restore() Reason {
	if v == (SavedReason{}) {
		return Reason{}
	}
	kind, err := valueOf[ReasonKind](reasonNames[:], v.Kind)
	if err != nil {
		kind = ReasonOther
	}
	return Reason{kind, v.Detail}
}

// A Saved is the snapshot of a machine. The names and their meaning are those of the journal.
type Saved struct {
	State   string      `json:"state"`
	Desired SavedTarget `json:"desired"`
	// Target before the shutdown
	DesiredBeforeShutdown *SavedTarget `json:"desired_before_shutdown,omitempty"`
	RestartPending        bool         `json:"restart_pending,omitempty"`
	Outcome               string       `json:"outcome"`
	FailureReason         SavedReason  `json:"failure_reason,omitzero"`
	NotStarted            bool         `json:"not_started,omitempty"`
	ResourceShortage      bool         `json:"resource_shortage,omitempty"`
	Failed                bool         `json:"failed,omitempty"`

	RestartAttempts int             `json:"restart_attempts,omitempty"`
	Failures        []time.Duration `json:"failures,omitempty"`
	StartLimitHit   bool            `json:"start_limit_hit,omitempty"`
	Restarts        int             `json:"restarts,omitempty"`
	Delay           time.Duration   `json:"delay,omitempty"`

	RunPending bool `json:"run_pending,omitempty"` // matters only with a trigger
	Outdated   bool `json:"-"`                     // the journal has it in the record of the run

	StartReason SavedReason `json:"start_reason,omitzero"`
	ExitReason  SavedReason `json:"exit_reason,omitzero"`
	StateReason SavedReason `json:"state_reason,omitzero"`
}

// Snapshot returns the durable part of the machine: all but definition and table. It shares no
// memory with the machine.
func (m *Machine) Snapshot() Saved {
	v := Saved{
		State:   m.state.Name(),
		Desired: m.desired.Snapshot(), RestartPending: m.restartPending,
		Outcome: m.outcome.OutcomeName(), FailureReason: m.failureReason.Snapshot(),
		NotStarted: m.notStarted, ResourceShortage: m.resourceShortage, Failed: m.failed,
		RestartAttempts: int(m.restartAttempts), Failures: slices.Clone(m.failures),
		StartLimitHit: m.startLimitHit, Restarts: int(m.restarts), Delay: m.delay,
		RunPending: m.runPending, Outdated: m.outdated,
		StartReason: m.startReason.Snapshot(), ExitReason: m.exitReason.Snapshot(),
		StateReason: m.stateReason.Snapshot(),
	}
	if before := m.desiredBeforeShutdown; before != nil {
		v.DesiredBeforeShutdown = new(before.Snapshot())
	}
	return v
}

// Restore sets the machine to a snapshot that [Saved.Check] accepts. run reports whether there is a
// run: its actor and reasons are completed where the snapshot lacks them, since the journal may
// have no more than a start record, or one that is newer.
func (m *Machine) Restore(v Saved, run bool) {
	*m = New(m.program, m.rules)
	m.state, _ = ParseState(v.State)
	m.outcome, _ = ParseOutcome(v.Outcome)
	m.desired, m.restartPending, m.failureReason = v.Desired.Restore(), v.RestartPending, v.FailureReason.Restore()
	m.notStarted, m.resourceShortage, m.failed = v.NotStarted, v.ResourceShortage, v.Failed
	if before := v.DesiredBeforeShutdown; before != nil {
		m.desiredBeforeShutdown = new(before.Restore())
	}
	m.restartAttempts, m.failures, m.startLimitHit = int32(v.RestartAttempts), slices.Clone(v.Failures), v.StartLimitHit
	m.restarts, m.delay = int32(v.Restarts), v.Delay
	m.runPending, m.outdated = v.RunPending, v.Outdated
	m.startReason, m.exitReason = v.StartReason.Restore(), v.ExitReason.Restore()
	m.stateReason = v.StateReason.Restore()
	if run {
		m.explainRun()
	}
}

// Check reports values that this superd can't use: unknown names, and a state that does not fit
// desired state or outcome.
func (v *Saved) Check() error {
	state, err := ParseState(v.State)
	if err != nil {
		return err
	}
	outcome, err := ParseOutcome(v.Outcome)
	if err != nil {
		return err
	}
	if !v.Desired.Up && (state == Starting || state == Running) {
		return fmt.Errorf("state %s while not wanted up", v.State)
	}
	if state == TearingDown && (outcome < RunEndedRetry || outcome > RunEndedWait) {
		return fmt.Errorf("state %s with outcome %s", v.State, v.Outcome)
	}
	return nil
}

// explainRun completes actor and reasons of a recovered run.
func (m *Machine) explainRun() {
	if m.desired.By.Kind == ActorNone {
		m.desired.By = By(ActorOther)
	}
	if m.startReason.Kind == ReasonNone {
		m.startReason = startedBy(m.desired.By)
	}
	switch k := m.stateReason.Kind; {
	case k != ReasonNone && k != ReasonNotStarted:
	case m.desired.Up:
		m.stateReason = m.startReason
	default:
		m.stateReason = Reason{ReasonStopping, m.desired.By.String()}
	}
}
