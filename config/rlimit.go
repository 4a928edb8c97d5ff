package config

import (
	"fmt"

	"superd/config/codec"
	"superd/internal/rlimit"
)

// bindRlimit returns the key of a limit for each process.
func bindRlimit(resource rlimit.Resource, values codec.Codec[int64], doc string) key {
	k := codec.Rlimit(resource, values)
	return reading("superd's own", key{
		table: "program", name: "limits." + resource.String(), codec: k.Name, shape: k.Schema, doc: doc,
		set: func(d *builder, v codec.Value) {
			if l, ok := k.Read(v); ok {
				d.Limits.Rlimits = d.Limits.Rlimits.With(l)
			}
		},
		get: func(d *builder) any { l, ok := d.Limits.Rlimits.Of(resource); return [2]any{l, ok} },
		shown: func(d *builder) string {
			if l, ok := d.Limits.Rlimits.Of(resource); ok {
				return k.Show(l)
			}
			return ""
		},
	})
}

// checkRlimits warns of limits that superd could not set with the rights of this process.
func (l *loader) checkRlimits(d *builder) {
	for _, limit := range d.Limits.Rlimits {
		if err := l.machine.setLimit(limit.Resource, limit.Hard); err != nil {
			d.mistakeAt(fmt.Sprintf("limits.%s", limit.Resource)).Warn("%w", err)
		}
	}
}
