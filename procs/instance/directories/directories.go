// Package directories removes the runtime directories of programs when a run is over.
package directories

import (
	"errors"
	"time"

	"superd/loop"
	"superd/procs/host"
)

// removeTime is how long the end of a run waits until its runtime directories are moved out of the
// way.
const removeTime = 5 * time.Second

// Users has how many runs use each directory that is removed. After a reload an ending run may have
// one in common with a new run of another program.
type Users map[string]int

// Claim counts a run as a user of these directories until scope ends.
func (u *Users) Claim(scope *loop.Scope, paths []string) {
	for _, path := range paths {
		if *u == nil {
			*u = Users{}
		}
		(*u)[path]++
		scope.Defer(func() {
			if (*u)[path]--; (*u)[path] == 0 {
				delete(*u, path)
			}
		})
	}
}

// Remove removes those of the directories that no other run uses, then calls done, perhaps before
// it returns. The error says why some are left. done does not run after scope has ended.
func (u Users) Remove(scope *loop.Scope, h host.Host, paths []string, done func(error)) {
	var unused []string
	for _, path := range paths {
		if u[path] <= 1 {
			unused = append(unused, path)
		}
	}
	if len(unused) == 0 {
		done(nil)
		return
	}
	removal := scope.Child()
	end := func(err error) {
		removal.Close()
		done(err)
	}
	removal.Defer(h.RemoveDirectories(unused, end))
	removal.After(removeTime, func() { end(errors.New("no answer; " + host.HangHint)) })
}
