package deps

import (
	"slices"

	"superd/config"
	"superd/config/cycle"
)

// Order returns the programs of a configuration, each after those that it requires or is ordered
// after, and otherwise in the order of the configuration.
func Order(c *config.Config) []*config.Program {
	var names []string
	programs := make(map[string]*config.Program, len(c.Programs))
	for _, p := range c.Programs {
		names = append(names, p.Name)
		programs[p.Name] = p
	}
	edges := func(name string) []string { return slices.Concat(programs[name].Requires, programs[name].After) }
	order := make([]*config.Program, 0, len(names))
	for _, name := range cycle.Order(names, edges) {
		order = append(order, programs[name])
	}
	return order
}
