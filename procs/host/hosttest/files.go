package hosttest

import (
	"slices"
	"time"

	"superd/loop"
	"superd/procs/host"
)

// reportDelay bounds how late superd learns that a file has changed.
const reportDelay = 20 * time.Millisecond

// A fileWatch is a watch of files that superd has.
type fileWatch struct {
	scope  *loop.Scope
	spec   host.FileWatch
	report func(host.FileReport)
}

// WatchFiles implements [host.Files].
func (k *Kernel) WatchFiles(scope *loop.Scope, spec host.FileWatch, report func(host.FileReport)) {
	w := &fileWatch{scope, spec, report}
	k.fileWatches = append(k.fileWatches, w)
	scope.Defer(func() {
		k.fileWatches = slices.DeleteFunc(k.fileWatches, func(other *fileWatch) bool { return other == w })
	})
}

// ChangeFile changes a file. superd learns of that if it watches the path.
func (k *Kernel) ChangeFile(path string) {
	for _, w := range k.fileWatches {
		if slices.Contains(w.spec.Paths, path) {
			w.scope.After(k.upTo(reportDelay), func() { w.report(host.FileReport{Changed: path}) })
		}
	}
}
