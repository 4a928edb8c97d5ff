package host

import "superd/loop"

// Files watches files for changes.
type Files interface {
	// WatchFiles watches files until scope closes, off the loop. report runs on the loop.
	WatchFiles(scope *loop.Scope, spec FileWatch, report func(FileReport))
}

// A FileWatch says which files to watch.
type FileWatch struct {
	Paths  []string // absolute files, and directories with what is below them; they may be missing
	Ignore []string // patterns as in .gitignore, relative to each directory of Paths
	// What superd itself writes: directories, and log files with those rotated from them
	ExcludeDirs, ExcludeLogs []string
}

// A FileReport is what is new of watched files.
type FileReport struct {
	Changed string // absolute path of the first file that has changed; "": none has
	More    bool   // others have changed, too
	Problem string // why not all changes are noticed, and the remedy; "": all are
}
