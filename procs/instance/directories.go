package instance

import (
	"time"

	"superd/config"
	"superd/procs/host"
)

// removeTime is how long the end of a run waits until its runtime directories are moved out of the
// way.
const removeTime = 5 * time.Second

// removedDirectories returns the directories that are removed with the run.
func removedDirectories(r *run) []string {
	if !r.program.RemovesDirectories() {
		return nil
	}
	paths, err := r.program.DirectoryPaths(config.RuntimeDirectory, r.in.Env.Paths.Directories, runVariables(r))
	if err != nil { // the run could not begin, or superd's environment has changed since
		r.in.Env.Log.Warn("runtime directory not removed", "instance", r.in.Name, "error", err)
	}
	return paths
}

// claimDirectories counts the run as a user of its runtime directories until it is over. After a
// reload an ending run may have one in common with a new run of another program.
func claimDirectories(r *run) {
	users := &r.in.Env.shared.directoryUsers
	for _, path := range removedDirectories(r) {
		if *users == nil {
			*users = map[string]int{}
		}
		(*users)[path]++
		r.scope.Defer(func() {
			if (*users)[path]--; (*users)[path] == 0 {
				delete(*users, path)
			}
		})
	}
}

// removeDirectories removes the runtime directories that no other run uses, and then ends the
// teardown.
func removeDirectories(r *run) {
	in := r.in
	end := func() { in.Apply(in.Machine.TornDown(in.Conditions(), in.Env.RNG)) }
	var paths []string
	for _, path := range removedDirectories(r) {
		if in.Env.shared.directoryUsers[path] <= 1 {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		end()
		return
	}
	scope := r.scope.Child()
	warn := func(cause any) {
		in.Env.Log.Warn("runtime directory not removed", "instance", in.Name, "error", cause)
	}
	scope.Defer(in.Env.Host.RemoveDirectories(paths, func(err error) {
		scope.Close()
		if err != nil {
			warn(err)
		}
		end()
	}))
	scope.After(removeTime, func() {
		scope.Close()
		warn("no answer; " + host.HangHint)
		end()
	})
}
