package server

import (
	"net/http"

	"superd/control"
	"superd/procs"
)

// config sends the definitions in force of programs.
func (s *Server) config(w http.ResponseWriter, r *http.Request) error {
	all, err := listOnLoop(r.Context(), s, r.Form["name"], s.options.ConfigOf)
	if err != nil {
		return err
	}
	list := make([]control.Configured, len(all))
	for i, p := range all {
		list[i] = control.Configured{Program: p.Name, Text: p.Show()}
	}
	return s.answer(w, http.StatusOK, list)
}

// resetFailed clears the failures of programs.
func (s *Server) resetFailed(w http.ResponseWriter, r *http.Request) error {
	selected, err := requireNames(r)
	if err != nil {
		return err
	}
	all, err := listOnLoop[procs.CommandResult](r.Context(), s, selected, s.options.ResetFailed)
	if err != nil {
		return err
	}
	return s.answer(w, http.StatusOK, commandResults(all))
}
