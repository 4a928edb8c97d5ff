package instance

import (
	"time"

	"superd/config"
	"superd/procs/host"
)

// removeTime is how long the end of a run waits for the removal of its runtime directories. The
// program may have mounted a file system there that does not answer.
const removeTime = 5 * time.Second

// removeDirectories removes the runtime directories of the run, and then ends its teardown.
func (r *run) removeDirectories() {
	in := r.in
	end := func() { in.Apply(in.Machine.TornDown(in.Conditions(), in.Env.RNG)) }
	if !r.program.RemovesDirectories() {
		end()
		return
	}
	paths, err := r.program.DirectoryPaths(config.RuntimeDirectory, in.Env.Paths.Directories, r.variables())
	if err != nil { // and so the run could not begin
		end()
		return
	}
	scope := r.scope.Child()
	warn := func(cause any) {
		in.Env.Log.Warn("runtime directory not removed: the next start empties it",
			"instance", in.Name, "error", cause)
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
