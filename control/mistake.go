package control

import "superd/config"

// A Mistake is one mistake in a configuration file.
type Mistake struct {
	File     string `json:"file"`
	Line     int    `json:"line"`   // counted from 1; 0: the whole file
	Column   int    `json:"column"` // counted from 1; 0: the whole line
	Key      string `json:"key"`    // dotted, such as program.web.stop_timeout
	Message  string `json:"message"`
	Severity string `json:"severity"` // error or warning
}

// Mistakes returns errors of a configuration in their JSON form, all with the same severity.
func Mistakes(errs config.Errors, severity string) []Mistake {
	mistakes := make([]Mistake, 0, len(errs))
	for _, e := range errs {
		mistakes = append(mistakes, Mistake{File: e.File, Line: e.Line, Column: e.Column, Key: e.Key,
			Message: e.Err.Error(), Severity: severity})
	}
	return mistakes
}
