package hosttest

import (
	"time"

	"superd/config"
)

// What a [BesideCommand] is for, as its first argument: the key that has it.
const (
	CheckArgument     = "check_command"
	ReloadArgument    = "reload_command"
	PostStartArgument = "post_start"
	StopKeyArgument   = "stop_command"
	ExecuteArgument   = "execute" // by the operator
)

// A CommandLog has how often the commands of one key were started for a run, and how they ended.
type CommandLog struct {
	Begun, Succeeded int
	SucceededAt      time.Duration // end of the last one that succeeded
	FailedAt         time.Duration // end of the last one that did not, or was not started
}

type commandKey struct{ run, key string }

// Commands returns what the commands of a key have done for a run.
func (k *Kernel) Commands(run, key string) CommandLog {
	if c := k.commands[commandKey{run, key}]; c != nil {
		return *c
	}
	return CommandLog{}
}

// commandLog returns the log of the key of a command beside the main process, nil if the command
// names none.
func (k *Kernel) commandLog(p *config.Program, run string) *CommandLog {
	if RoleOf(p) != RoleBeside || len(p.Command) < 2 || p.Command[1] == StopArgument {
		return nil
	}
	key := commandKey{run, p.Command[1]}
	if k.commands[key] == nil {
		k.commands[key] = &CommandLog{}
	}
	return k.commands[key]
}

// ended records the end of a command. c may be nil.
func (c *CommandLog) ended(success bool, at time.Duration) {
	switch {
	case c == nil:
	case success:
		c.Succeeded++
		c.SucceededAt = at
	default:
		c.FailedAt = at
	}
}

// ReloadSignalAt returns when the main process of a run last got SIGHUP; 0: never.
func (k *Kernel) ReloadSignalAt(run string) time.Duration { return k.reloadSignals[run] }
