package config

import (
	"strings"
	"syscall"
	"time"

	"superd/config/codec"
	"superd/config/filewatch"
)

// watchKeys returns the keys of watched files, in the order of the reference.
func watchKeys() []key {
	return []key{
		reading("`directory`", bind("program", "watch.paths", codec.List("array of paths", codec.FilePath),
			func(d *builder) *[]string { return &d.watch.Paths },
			"Files, and directories with all below them. When one changes, the program is started "+
				"anew. A table `watch` may be empty. See [Watched files](#watched-files).")),
		bind("program", "watch.ignore", codec.List("array of patterns", filewatch.Pattern),
			func(d *builder) *[]string { return &d.watch.Ignore },
			"What of them does not count, written as in `.gitignore`, beside what the `.gitignore` files "+
				"there say. `\"!node_modules\"` has something count that usually does not."),
		bind("program", "watch.debounce", codec.Duration(true),
			func(d *builder) *time.Duration { return &d.watch.Debounce },
			"How long nothing may change before it is started anew, so that many changes at once lead "+
				"to one start."),
		reading("none", bind("program", "watch.signal", codec.ReloadSignal,
			func(d *builder) *syscall.Signal { return &d.watch.Signal },
			"The signal that a running program gets instead, such as `\"SIGHUP\"`.")),
	}
}

// checkWatch checks the table watch, and sets the field if there is one.
func (d *builder) checkWatch() {
	d.Watch = nil
	switch {
	case !d.anySet("watch"):
		return
	case d.Schedule != "":
		// The table in [defaults] is meant for other programs.
		d.refuseSet("has no meaning with a schedule, whose next run uses the files as they are: remove it", "watch")
		return
	}
	watch := d.watch
	if len(watch.Paths) == 0 {
		if strings.Contains(d.Directory, "$") {
			d.mistakeAt("watch").Fail(`the files are those of directory, which depends on variables: write watch.paths = ["/srv/web"], too`)
			return
		}
		watch.Paths = []string{d.Directory}
	}
	d.Watch = &watch
}

// compareWatch returns the change of a table watch that is new or gone.
func compareWatch(before, after *filewatch.Settings) []KeyChange {
	switch {
	case before == nil && after != nil:
		return []KeyChange{{Key: "watch", What: "added"}}
	case before != nil && after == nil:
		return []KeyChange{{Key: "watch", What: "removed"}}
	}
	return nil
}
