package beside

import "superd/procs/snapshot"

// What the simulation plants as defects.

// AnswerReload ends a reload during its reload_command, as if that had succeeded.
func (b *Commands) AnswerReload() {
	if l := b.reload; l != nil && l.command != nil && l.stage == snapshot.ReloadCommand {
		l.command.drop()
		l.command = nil
		l.end(Outcome{OK: true, Message: "reloaded"})
	}
}

// PassChecks lets each check before a restart succeed.
func (b *Commands) PassChecks() {
	for _, k := range b.checks {
		done := k.command.done
		k.command.done = func(error, []string) { done(nil, nil) }
	}
}
