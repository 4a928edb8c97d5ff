package frame

// A Header is what the records of a run have in common.
type Header struct {
	Format                 Format
	Program, Instance, Run string
	Identifier, Host       string // name of the program and of this machine, in messages
	Facility               int    // of syslog; 0 to 23
	Shared                 bool   // lines of several instances go to the same place
}

// A Recorder makes records of lines.
type Recorder struct {
	format            Format
	DefaultPriority   int // priority of a line without one
	facility          int // of messages
	Line              OpenLine
	head, partialHead []byte // of a record with a complete line, and with a partial one
}

// A Buffer is the memory in which records are made.
type Buffer struct {
	Recorder Recorder
	Records  [BufferBytes]byte
}
