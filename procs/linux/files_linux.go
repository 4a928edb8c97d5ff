package linux

import (
	"superd/loop"
	"superd/procs/host"
	"superd/procs/linux/filetree"
)

// WatchFiles implements [host.Files].
func (k *Host) WatchFiles(scope *loop.Scope, spec host.FileWatch, report func(host.FileReport)) {
	w := filetree.Begin(spec, func(r host.FileReport) {
		scope.Post(func() { report(r) })
	})
	scope.Defer(w.Close)
}
