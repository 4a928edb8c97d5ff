// Package paths says where what belongs to an instance is: its FIFOs, its notify socket, its log.
package paths

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"path/filepath"

	"superd/config"
	"superd/config/directory"
	"superd/logs"
	"superd/logs/frame"
	"superd/logs/segment"
	"superd/logs/sink"
)

// Paths are the directories that a supervisor uses.
type Paths struct {
	RuntimeDir string
	FIFODir    string // of the programs' FIFOs
	NotifyDir  string // of the notify sockets
	NotifyKey  []byte // secret from which the names of notify sockets are derived
	LogDir     string

	Directories directory.Roots // below which directories of programs are made
}

// LoggerInput is the index of a logger's standard input among the FIFOs of an instance, after its
// output streams.
const LoggerInput = logs.Stderr + 1

// OutputStreams returns the streams for which the program has FIFOs.
func OutputStreams(p *config.Program) []logs.Stream {
	if p.Log.Stderr == config.StderrMerge {
		return []logs.Stream{logs.Stdout}
	}
	return []logs.Stream{logs.Stdout, logs.Stderr}
}

// CountFIFOs returns how many FIFOs an instance of the program has.
func CountFIFOs(p *config.Program) int {
	n := len(OutputStreams(p))
	if p.LoggerOf != "" {
		n++
	}
	return n
}

// FIFO returns the path of the FIFO of a stream. Paths are unique, as no instance name has a
// colon.
func (p *Paths) FIFO(instance string, which logs.Stream) string {
	switch which {
	case logs.Stderr:
		instance += ":stderr"
	case LoggerInput:
		instance += ":stdin"
	case logs.Stdout: // has the plain name
	}
	return filepath.Join(p.FIFODir, instance)
}

// loggerInput returns the path of the FIFO that the program's logger reads.
func (p *Paths) loggerInput(program *config.Program) string {
	return p.FIFO(config.LoggerName(program.Name), LoggerInput)
}

// Runtime returns the paths of all FIFOs and notify sockets that an instance can have, under
// any definition of its program.
func (p *Paths) Runtime(instance string) []string {
	return []string{
		p.FIFO(instance, logs.Stdout), p.FIFO(instance, logs.Stderr), p.FIFO(instance, LoggerInput),
		p.notifySocket(instance),
	}
}

// PrivateTmp returns the directory of the run's private_tmp. It is on the file system of /tmp.
// Nobody can guess its name before it exists.
func PrivateTmp(instance, invocationID string) string {
	return filepath.Join("/tmp", "superd-"+instance+"-"+invocationID)
}

// NotifySocket returns the path of the notify socket of a run with that definition; empty if the
// program has none.
func (p *Paths) NotifySocket(instance string, program *config.Program) string {
	if program.Watchdog == 0 && (program.Ready == nil || !program.Ready.Notify) {
		return ""
	}
	return p.notifySocket(instance)
}

// notifySocket returns the path that the instance's notify socket has, if there is one.
func (p *Paths) notifySocket(instance string) string {
	return filepath.Join(p.NotifyDir, socketName(p.NotifyKey, instance))
}

// socketName returns the name of an instance's notify socket. Any process that knows the name can
// send to it, so it must not be guessable: it is the beginning of a keyed hash. A successor has the
// key and computes the same name. All names have 22 bytes.
func socketName(key []byte, instance string) string {
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(instance))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:16])
}

// LogOptions returns the log options of an instance with that definition.
func (p *Paths) LogOptions(instance string, program *config.Program) logs.Options {
	o := logs.Options{
		Program:     program.Name,
		User:        program.User,
		Path:        program.LogPath(p.LogDir, instance),
		Split:       len(OutputStreams(program)) > 1,
		StderrPath:  program.StderrPath(p.LogDir, instance),
		Format:      frame.Format(program.Log.Format),
		MaxSize:     program.Log.MaxSize,
		MaxAge:      program.Log.MaxAge,
		Keep:        program.Log.Keep,
		MaxTotal:    program.Log.MaxTotal,
		Compression: segment.Compression(program.Log.Compress),
		Drop:        program.Log.Overflow == config.OverflowDrop,
		MinFree:     program.Log.MinFree,
		Owner:       program.Log.Owner,
		Group:       program.Log.Group,
	}
	if program.Log.Mode != nil {
		o.Mode = *program.Log.Mode
	}
	if program.Log.Sink != config.SinkFile {
		o.Sink, o.Address, o.Identifier, o.Facility = sink.Kind(program.Log.Sink), program.Log.Address, program.Log.Identifier, program.Log.Facility.Number()
	}
	if program.Log.Sink == config.SinkCommand {
		o.Address = p.loggerInput(program)
	}
	return o
}
