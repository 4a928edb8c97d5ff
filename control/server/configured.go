package server

import (
	"errors"
	"net/http"
	"path/filepath"

	"superd/control"
	"superd/procs"
	"superd/procs/enabling"
)

// config sends the definitions in force of programs.
func (s *Server) config(w http.ResponseWriter, r *http.Request) error {
	all, err := listOnLoop(r.Context(), s, r.Form["name"], s.options.ConfigOf)
	if err != nil {
		return err
	}
	list := make([]control.Configured, len(all))
	for i, p := range all {
		list[i] = control.Configured{Program: p.Name, Text: p.Show(), Line: p.Line}
		// Both are "" without a working directory
		list[i].File, _ = filepath.Abs(p.File)
		list[i].Configuration, _ = filepath.Abs(s.options.ConfigPath)
	}
	return s.answer(w, http.StatusOK, list)
}

// enable returns the handler that decides whether programs start with superd.
func (s *Server) enable(starts bool) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		selected, err := requireNames(r)
		if err != nil {
			return err
		}
		type result struct {
			all []procs.CommandResult
			err error
		}
		decided, err := await(r.Context(), s, func(done func(result)) (func(), error) {
			return s.options.Enable(selected, starts, func(all []procs.CommandResult, err error) {
				done(result{all, err})
			})
		})
		if err == nil {
			err = decided.err
		}
		if refused, ok := errors.AsType[*enabling.RefusedError](err); ok {
			return &control.Error{Status: http.StatusConflict, Message: refused.Error(), Remedy: "nothing was changed"}
		}
		if failed, ok := errors.AsType[*enabling.Error](err); ok {
			return &control.Error{Status: http.StatusInternalServerError, Message: failed.Error(), Remedy: failed.Remedy}
		}
		if err != nil {
			return err
		}
		return s.answer(w, http.StatusOK, commandResults(decided.all))
	}
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
