package instance

import "superd/config/directory"

// removedDirectories returns the directories that are removed with the run.
func removedDirectories(r *run) []string {
	if !r.program.RemovesDirectories() {
		return nil
	}
	paths, err := r.in.Env.Paths.Directories.Paths(directory.Runtime, r.program.Directories[directory.Runtime], runVariables(r))
	if err != nil { // the run could not begin, or superd's environment has changed since
		r.in.Env.Log.Warn("runtime directory not removed", "instance", r.in.Name, "error", err)
	}
	return paths
}

// removeDirectories removes the runtime directories that no other run uses, and then ends the
// teardown.
func removeDirectories(r *run) {
	in := r.in
	in.Env.shared.directoryUsers.Remove(&r.scope, in.Env.Host, removedDirectories(r), func(err error) {
		if err != nil {
			in.Env.Log.Warn("runtime directory not removed", "instance", in.Name, "error", err)
		}
		in.Apply(in.Machine.TornDown(in.Conditions(), in.Env.RNG))
	})
}
