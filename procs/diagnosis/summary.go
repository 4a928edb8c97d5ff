package diagnosis

import (
	"strconv"

	"superd/internal/words"
	"superd/procs/fsm"
)

// Summary counts instances by what they do: "3 instances: 2 running, 1 failed". counts has how many
// are in each state.
func Summary(instances int, counts *[fsm.StateCount]int) string {
	text := []byte(words.Plural(instances, "instance"))
	separator := ": "
	for _, states := range [][]fsm.State{
		{fsm.Running}, {fsm.Spawning, fsm.Starting}, {fsm.Waiting},
		{fsm.Stopping, fsm.StopPending, fsm.Killing, fsm.TearingDown},
		{fsm.Backoff}, {fsm.Failed}, {fsm.Exited}, {fsm.Stopped},
	} {
		count := 0
		for _, state := range states {
			count += counts[state]
		}
		if count > 0 {
			text = strconv.AppendInt(append(text, separator...), int64(count), 10)
			text = append(append(text, ' '), states[0].String()...)
			separator = ", "
		}
	}
	return string(text)
}
