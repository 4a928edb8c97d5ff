package supervisor

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"superd/compat/xmlrpc"
)

// supervisord reads its file in one step (reread) and activates it group by group (add, remove).
// superd activates the whole file at once, at the first of these steps that needs it. What follows
// is about groups that are active already.

// active holds what a supervisord has in memory beside its file.
type active struct {
	mu      sync.Mutex
	removed map[string]bool // groups that a client has removed, and that are still in the file
	// What the last reload has removed and added, of which clients have not heard yet
	gone, arrived map[string]bool
}

func (a *active) isRemoved(group string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.removed[group]
}

// set notes that a group is removed, or is active again. It reports whether that is new.
func (a *active) set(group string, removed bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.removed[group] == removed {
		return false
	}
	if a.removed == nil {
		a.removed = map[string]bool{}
	}
	if removed {
		a.removed[group] = true
	} else {
		delete(a.removed, group)
	}
	return true
}

// stillRemoved returns the groups that a client has removed, and forgets those that exist no more.
func (a *active) stillRemoved(exists func(group string) bool) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.removed, func(group string, _ bool) bool { return !exists(group) })
	return slices.Collect(maps.Keys(a.removed))
}

// reloaded notes what a reload has changed.
func (a *active) reloaded(c Changes) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gone, a.arrived = map[string]bool{}, map[string]bool{}
	for _, group := range c.Removed {
		a.gone[group] = true
	}
	for _, group := range slices.Concat(c.Added, c.Changed) {
		a.arrived[group] = true
	}
}

// isGone reports whether the last reload has removed a group. With take it is true once.
func (a *active) isGone(group string, take bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.gone[group]
	if take {
		delete(a.gone, group)
	}
	return was
}

// takeArrived reports whether the last reload has added or changed a group, once.
func (a *active) takeArrived(group string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	was := a.arrived[group]
	delete(a.arrived, group)
	return was
}

// Changes are the groups in which the file and what is active differ, each sorted.
type Changes struct{ Added, Changed, Removed []string }

// Reread reads the configuration, and activates nothing.
func (s *Supervisor) Reread(ctx context.Context) (Changes, error) {
	r, err := s.api.DryReload(ctx)
	if err != nil {
		return Changes{}, rereadFault(err)
	}
	groups, err := s.groups(ctx)
	if err != nil {
		return Changes{}, err
	}
	stays := map[string]bool{} // groups of which a program stays
	for program, group := range groups {
		stays[group] = stays[group] || !slices.Contains(r.Removed, program)
	}
	// A new program has a group of its own here: its table is known when it is active.
	c := Changes{Added: slices.Concat(r.Added, s.active.stillRemoved(func(group string) bool { return stays[group] }))}
	for _, name := range r.Changed {
		c.Changed = append(c.Changed, groups[name])
	}
	for _, name := range r.Removed {
		if group := groups[name]; stays[group] {
			c.Changed = append(c.Changed, group)
		} else {
			c.Removed = append(c.Removed, group)
		}
	}
	for _, list := range []*[]string{&c.Added, &c.Changed, &c.Removed} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	c.Changed = slices.DeleteFunc(c.Changed, func(g string) bool { return slices.Contains(c.Added, g) })
	return c, nil
}

// reload activates the file, which has these changes.
func (s *Supervisor) reload(ctx context.Context, c Changes) error {
	if _, err := s.api.Reload(ctx); err != nil {
		return rereadFault(err)
	}
	s.active.reloaded(c)
	return nil
}

// rereadFault returns a mistake in the file as supervisord tells it.
func rereadFault(err error) *xmlrpc.Fault {
	if f := asFault(err); f.Code == ShutdownState {
		return f
	}
	return fault(CantReread, err.Error())
}

// groups returns the group of each program.
func (s *Supervisor) groups(ctx context.Context) (map[string]string, error) {
	statuses, err := s.api.Status(ctx, nil)
	if err != nil {
		return nil, asFault(err)
	}
	groups := map[string]string{}
	for i := range statuses {
		p := processOf(&statuses[i], time.Time{})
		groups[p.program] = p.Group
	}
	return groups, nil
}

// Add activates a group: it reloads the file if that has changed. What a client has removed is
// started as at the start of superd.
func (s *Supervisor) Add(ctx context.Context, group string) error {
	c, err := s.Reread(ctx)
	if err != nil {
		return err
	}
	wasRemoved := s.active.set(group, false)
	pending := slices.Contains(c.Added, group) || slices.Contains(c.Changed, group)
	if pending && !(wasRemoved && s.onlyRemoved(c, group)) {
		if err := s.reload(ctx, c); err != nil {
			return err
		}
	}
	if arrived := s.active.takeArrived(group); !arrived && !wasRemoved {
		if _, err := s.group(ctx, group); err != nil {
			return err
		}
		return fault(AlreadyAdded, group)
	}
	return s.startWanted(ctx, group)
}

// onlyRemoved reports whether nothing differs but what clients have removed, as group.
func (s *Supervisor) onlyRemoved(c Changes, group string) bool {
	differs := func(g string) bool { return g != group && !s.active.isRemoved(g) }
	return len(c.Changed) == 0 && len(c.Removed) == 0 && !slices.ContainsFunc(c.Added, differs)
}

// startWanted starts the programs of a group that start with superd, and are down since a client
// has stopped them.
func (s *Supervisor) startWanted(ctx context.Context, group string) error {
	all, err := s.group(ctx, group)
	if err != nil {
		return err
	}
	tables, err := s.tables(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p Process) bool {
		t := tables[p.program]
		return p.State.up() || !t.autostart()
	})
	if len(all) == 0 {
		return nil
	}
	_, err = s.command(ctx, "start", all, false)
	return err
}

// Remove removes a group whose processes are down. A group that is not in the file any more is
// removed by a reload, any other one until a client adds it.
func (s *Supervisor) Remove(ctx context.Context, group string) error {
	if s.active.isGone(group, true) {
		return nil
	}
	all, err := s.group(ctx, group)
	if err != nil {
		return err
	}
	for i := range all {
		if !all[i].State.Down() {
			return fault(StillRunning, group)
		}
	}
	c, err := s.Reread(ctx)
	if err != nil {
		return err
	}
	if !slices.Contains(c.Removed, group) {
		s.active.set(group, true)
		return nil
	}
	if err := s.reload(ctx, c); err != nil {
		return err
	}
	s.active.isGone(group, true)
	return nil
}

// Restart reads the file again and restarts all programs, as a restart of supervisord does.
func (s *Supervisor) Restart(ctx context.Context) error {
	if _, err := s.api.Reload(ctx); err != nil {
		return rereadFault(err)
	}
	all, err := s.Processes(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p Process) bool { return !p.State.up() })
	if len(all) == 0 {
		return nil
	}
	_, err = s.command(ctx, "restart", all, false)
	return err
}
