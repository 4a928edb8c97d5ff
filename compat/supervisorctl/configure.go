package supervisorctl

import (
	"context"
	"errors"
	"maps"
	"slices"

	"superd/compat/supervisor"
	"superd/compat/xmlrpc"
)

func (c *Controller) avail(ctx context.Context, _ []string) error {
	all, err := c.Supervisor.Configs(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		inUse, start := "avail", "manual"
		if all[i].InUse {
			inUse = "in use"
		}
		if all[i].Autostart {
			start = "auto"
		}
		c.print("%-32s %-9s %-9s %d:%d", all[i].Spec(), inUse, start, supervisor.Priority, supervisor.Priority)
	}
	return nil
}

func (c *Controller) reread(ctx context.Context, _ []string) error {
	changes, err := c.Supervisor.Reread(ctx)
	if f, ok := errors.AsType[*xmlrpc.Fault](err); ok && f.Code == supervisor.CantReread {
		c.print("ERROR: %s", f.Text)
		c.status = statusFailed
		return nil
	}
	if err != nil {
		return err
	}
	what := map[string]string{}
	for text, groups := range map[string][]string{
		"available": changes.Added, "changed": changes.Changed, "disappeared": changes.Removed,
	} {
		for _, group := range groups {
			what[group] = text
		}
	}
	for _, group := range slices.Sorted(maps.Keys(what)) {
		c.print("%s: %s", group, what[group])
	}
	if len(what) == 0 {
		c.print("No config updates to processes")
	}
	return nil
}

// update activates what the files have. superd activates all groups at once.
func (c *Controller) update(ctx context.Context, names []string) error {
	changes, err := c.Supervisor.Reread(ctx)
	if err != nil {
		return err
	}
	if err := c.checkGroups(ctx, names, changes); err != nil {
		return err
	}
	chosen := func(group string) bool {
		return len(names) == 0 || slices.Contains(names, "all") || slices.Contains(names, group)
	}
	for _, group := range changes.Removed {
		if !chosen(group) {
			continue
		}
		if _, err := c.Supervisor.StopAll(ctx, group, true); err != nil {
			return err
		}
		c.print("%s: stopped", group)
		if err := c.Supervisor.Remove(ctx, group); err != nil {
			return err
		}
		c.print("%s: removed process group", group)
	}
	for _, group := range changes.Changed {
		if !chosen(group) {
			continue
		}
		if _, err := c.Supervisor.StopAll(ctx, group, true); err != nil {
			return err
		}
		c.print("%s: stopped", group)
		if err := c.Supervisor.Add(ctx, group); err != nil && !already(err) {
			return err
		}
		c.print("%s: updated process group", group)
	}
	for _, group := range changes.Added {
		if !chosen(group) {
			continue
		}
		if err := c.Supervisor.Add(ctx, group); err != nil && !already(err) {
			return err
		}
		c.print("%s: added process group", group)
	}
	return nil
}

// already reports whether a group is active, as an earlier step of the same update has reloaded the
// files.
func already(err error) bool {
	f, ok := errors.AsType[*xmlrpc.Fault](err)
	return ok && f.Code == supervisor.AlreadyAdded
}

// checkGroups prints an error for each name that is no group.
func (c *Controller) checkGroups(ctx context.Context, names []string, changes supervisor.Changes) error {
	all, err := c.Supervisor.Processes(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		known := name == "all" || slices.Contains(changes.Added, name) ||
			slices.ContainsFunc(all, func(p supervisor.Process) bool { return p.Group == name })
		if !known {
			c.print("ERROR: no such group: %s", name)
			c.status = statusFailed
		}
	}
	return nil
}

func (c *Controller) add(ctx context.Context, names []string) error {
	for _, group := range names {
		err := c.Supervisor.Add(ctx, group)
		f, _ := errors.AsType[*xmlrpc.Fault](err)
		switch {
		case err == nil:
			c.print("%s: added process group", group)
		case f != nil && f.Code == supervisor.AlreadyAdded:
			c.print("ERROR: process group already active")
		case f != nil && f.Code == supervisor.BadName:
			c.print("ERROR: no such process/group: %s", group)
			c.status = statusFailed
		default:
			return err
		}
	}
	return nil
}

// remove removes groups that are not in the files any more. A group that is in the files can be
// removed from a supervisord's memory only, which this command does not have.
func (c *Controller) remove(ctx context.Context, names []string) error {
	for _, group := range names {
		changes, err := c.Supervisor.Reread(ctx)
		if err != nil {
			return err
		}
		all, err := c.Supervisor.Processes(ctx)
		if err != nil {
			return err
		}
		isKnown := slices.ContainsFunc(all, func(p supervisor.Process) bool { return p.Group == group })
		if isKnown && !slices.Contains(changes.Removed, group) {
			c.print("ERROR: %s is in the configuration: remove it there, then update", group)
			c.status = statusFailed
			continue
		}
		err = c.Supervisor.Remove(ctx, group)
		f, _ := errors.AsType[*xmlrpc.Fault](err)
		switch {
		case err == nil:
			c.print("%s: removed process group", group)
			continue
		case f != nil && f.Code == supervisor.StillRunning:
			c.print("ERROR: process/group still running: %s", group)
		case f != nil && f.Code == supervisor.BadName:
			c.print("ERROR: no such process/group: %s", group)
		default:
			return err
		}
		c.status = statusFailed
	}
	return nil
}

func (c *Controller) clear(ctx context.Context, names []string) error {
	if !c.needNames("clear", names, statusFailed) {
		return nil
	}
	var all []supervisor.Result
	if slices.Contains(names, "all") {
		var err error
		if all, err = c.Supervisor.ClearAllLogs(ctx); err != nil {
			return err
		}
		names = nil
	}
	for _, spec := range names {
		group, name := supervisor.Split(spec)
		result := supervisor.Result{Group: group, Name: name, Status: supervisor.Success}
		err := c.Supervisor.ClearLogs(ctx, spec)
		f, isFault := errors.AsType[*xmlrpc.Fault](err)
		switch {
		case isFault && (f.Code == supervisor.BadName || f.Code == supervisor.Failed):
			result.Status = f.Code
		case err != nil:
			return err
		}
		all = append(all, result)
	}
	for _, r := range all {
		text := "cleared"
		switch r.Status {
		case supervisor.Success:
		case supervisor.BadName:
			text = "ERROR (no such process)"
		default:
			text = "ERROR (failed)"
		}
		c.print("%s: %s", supervisor.Spec(r.Group, r.Name), text)
		c.note(r.Status, supervisor.Success)
	}
	return nil
}

func (c *Controller) mainTail(context.Context, []string) error {
	c.print("supervisord: ERROR (no log file)")
	c.status = statusFailed
	return nil
}

func (c *Controller) reload(ctx context.Context, args []string) error {
	if len(args) > 0 {
		c.print("Error: reload accepts no arguments")
		c.status = statusFailed
		return nil
	}
	if err := c.Supervisor.Restart(ctx); err != nil {
		return err
	}
	c.print("Restarted supervisord")
	return nil
}

func (c *Controller) shutdown(ctx context.Context, args []string) error {
	if len(args) > 0 {
		c.print("Error: shutdown accepts no arguments")
		c.status = statusFailed
		return nil
	}
	if err := c.Shutdown(ctx); err != nil {
		return err
	}
	c.print("Shut down")
	return nil
}

func (c *Controller) version(context.Context, []string) error {
	c.print("%s", supervisor.Version)
	return nil
}
