package control

// A Mistake is one mistake in a configuration file.
type Mistake struct {
	File     string `json:"file"`
	Line     int    `json:"line"`   // counted from 1; 0: the whole file
	Column   int    `json:"column"` // counted from 1; 0: the whole line
	Key      string `json:"key"`    // dotted, such as program.web.stop_timeout
	Message  string `json:"message"`
	Severity string `json:"severity"` // error or warning
}
