// Package subscriptions has the callbacks that want to know of changes of instances.
package subscriptions

import (
	"slices"

	"superd/loop"
	"superd/procs/instance"
)

// A Set has the callbacks, and calls them once for all changes of a turn. It lives on the loop.
type Set struct {
	Scope            *loop.Scope
	Instances        func() []*instance.Instance // all that there are
	BeforeWatchers   func()                      // called before the watchers, also without any
	watchers         []*watcher
	changePosted     bool // notify is posted
	instanceWatchers []*watcher
	addedPosted      bool // the call of the instance watchers is posted
}

// A watcher is a subscription to changes of what a status shows or of which instances there are.
type watcher struct{ f func() }

// Watch calls f after changes of what a status shows, once a turn, until cancel is called.
func (u *Set) Watch(f func()) (cancel func()) {
	w := &watcher{f}
	u.watchers = append(u.watchers, w)
	if len(u.watchers) == 1 {
		for _, in := range u.Instances() {
			u.WatchLines(in)
		}
	}
	return func() {
		u.watchers = slices.DeleteFunc(u.watchers, func(other *watcher) bool { return other == w })
		if len(u.watchers) == 0 {
			for _, in := range u.Instances() {
				in.Output.UnwatchLines()
			}
		}
	}
}

// Changed schedules a call of the watchers and the notifier, once a turn.
func (u *Set) Changed() {
	if !u.changePosted {
		u.changePosted = true
		u.Scope.Post(u.notify)
	}
}

func (u *Set) notify() {
	u.changePosted = false
	u.BeforeWatchers()
	for _, w := range slices.Clone(u.watchers) {
		w.f()
	}
}

// WatchLines lets the collector of in report new lines, if there are watchers.
func (u *Set) WatchLines(in *instance.Instance) {
	if len(u.watchers) > 0 {
		in.Output.WatchLines(u.Changed)
	}
}

// WatchInstances calls f when instances were added or removed, once a turn, until cancel is called.
func (u *Set) WatchInstances(f func()) (cancel func()) {
	w := &watcher{f}
	u.instanceWatchers = append(u.instanceWatchers, w)
	return func() {
		u.instanceWatchers = slices.DeleteFunc(u.instanceWatchers, func(other *watcher) bool { return other == w })
	}
}

// InstancesChanged calls the instance watchers, once a turn.
func (u *Set) InstancesChanged() {
	if len(u.instanceWatchers) == 0 || u.addedPosted {
		return
	}
	u.addedPosted = true
	u.Scope.Post(func() {
		u.addedPosted = false
		for _, w := range slices.Clone(u.instanceWatchers) {
			w.f()
		}
	})
}
