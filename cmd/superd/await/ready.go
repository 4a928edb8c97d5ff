package await

import (
	"context"

	"superd/control"
)

// A NotReady is an instance that is not ready, or a name that selects none, and why.
type NotReady struct{ Name, Why string }

// Ready returns what of names is not ready now; without names, what is neither ready nor down as it
// should be.
func Ready(ctx context.Context, client *control.Client, names []string) (all []NotReady, err error) {
	if len(names) == 0 {
		instances, err := client.Status(ctx, nil)
		for i := range instances {
			if why := notWell(&instances[i]); why != "" {
				all = append(all, NotReady{instances[i].Name, why})
			}
		}
		return all, err
	}
	seen := map[string]bool{}
	for _, name := range names {
		instances, err := client.Brief(ctx, []string{name})
		if err != nil {
			return nil, err
		}
		if len(instances) == 0 {
			all = append(all, NotReady{name, "no instances"})
		}
		for _, b := range instances {
			if !b.Up() && !seen[b.Name] {
				all = append(all, NotReady{b.Name, b.State})
			}
			seen[b.Name] = true
		}
	}
	return all, nil
}

// notWell returns why an instance is neither ready nor down as it should be; "" if it is.
func notWell(s *control.Status) string {
	switch {
	case s.State == control.StateRunning && s.Healthy != nil && !*s.Healthy:
		return "unhealthy"
	case s.State == control.StateRunning, s.State == control.StateStopped, s.State == control.StateExited:
		return ""
	case s.State == control.StateWaiting && s.ReasonKind != nil &&
		(*s.ReasonKind == control.ReasonWaitsForSchedule || *s.ReasonKind == control.ReasonWaitsForConnection):
		return ""
	}
	return s.State
}
