package procs

import (
	"slices"

	"superd/procs/instance"
)

// subscriptions has the callbacks that want to know of changes, and calls them once for all changes
// of a turn.
type subscriptions struct {
	*platform
	registry         *registry
	beforeWatchers   func() // called before the watchers, also without any
	watchers         []*watcher
	changePosted     bool // notify is posted
	instanceWatchers []*watcher
	addedPosted      bool // the call of the instance watchers is posted
}

// A watcher is a subscription to changes of [Supervisor.Status] or of the instances.
type watcher struct{ f func() }

// watch is [Supervisor.Watch].
func (u *subscriptions) watch(f func()) (cancel func()) {
	w := &watcher{f}
	u.watchers = append(u.watchers, w)
	if len(u.watchers) == 1 {
		for _, in := range u.registry.instances {
			u.watchLines(in)
		}
	}
	return func() {
		u.watchers = slices.DeleteFunc(u.watchers, func(other *watcher) bool { return other == w })
		if len(u.watchers) == 0 {
			for _, in := range u.registry.instances {
				in.Output.UnwatchLines()
			}
		}
	}
}

// changed schedules a call of the watchers and the notifier, once a turn.
func (u *subscriptions) changed() {
	if !u.changePosted {
		u.changePosted = true
		u.Scope.Post(u.notify)
	}
}

func (u *subscriptions) notify() {
	u.changePosted = false
	u.beforeWatchers()
	for _, w := range slices.Clone(u.watchers) {
		w.f()
	}
}

// watchLines lets the collector of in report new lines, if there are watchers.
func (u *subscriptions) watchLines(in *instance.Instance) {
	if len(u.watchers) > 0 {
		in.Output.WatchLines(u.changed)
	}
}

// watchInstances is [Supervisor.WatchInstances].
func (u *subscriptions) watchInstances(f func()) (cancel func()) {
	w := &watcher{f}
	u.instanceWatchers = append(u.instanceWatchers, w)
	return func() {
		u.instanceWatchers = slices.DeleteFunc(u.instanceWatchers, func(other *watcher) bool { return other == w })
	}
}

// instancesChanged calls the instance watchers, once a turn.
func (u *subscriptions) instancesChanged() {
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
