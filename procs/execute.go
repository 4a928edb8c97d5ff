package procs

import (
	"fmt"
	"strings"

	"superd/procs/instance"
	"superd/procs/instance/beside"
)

// ExecuteOptions say what [Execute] executes.
type ExecuteOptions = beside.ExecuteOptions

// Execute executes a command beside the main process of the one instance of s that name selects,
// with the program's user, directory, environment, limits and process tree. uid is the operator.
// end ends the command. It is called on the loop.
func Execute(s *Supervisor, name string, uid int, o ExecuteOptions) (end func(), err error) {
	all, err := s.selector.instances([]string{name})
	if err != nil {
		return nil, err
	}
	if len(all) != 1 {
		names := make([]string, len(all))
		for i, in := range all {
			names[i] = in.Name
		}
		return nil, fmt.Errorf("%s selects %d instances: name one of them: %s", name, len(all), strings.Join(names, ", "))
	}
	s.Log.Info("command of an operator", "instance", all[0].Name, "uid", uid, "command", o.Command[0])
	return instance.Execute(all[0], o)
}
