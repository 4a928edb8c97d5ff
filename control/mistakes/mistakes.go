// Package mistakes has the mistakes of a configuration in the form in which clients get them.
//
// It is not in package control, so that a client does not link package config.
package mistakes

import (
	"superd/config"
	"superd/control"
)

// JSON returns errors of a configuration in their JSON form, all with the same severity.
func JSON(errs config.Errors, severity string) []control.Mistake {
	mistakes := make([]control.Mistake, 0, len(errs))
	for _, e := range errs {
		mistakes = append(mistakes, control.Mistake{File: e.File, Line: e.Line, Column: e.Column, Key: e.Key,
			Message: e.Err.Error(), Severity: severity})
	}
	return mistakes
}
