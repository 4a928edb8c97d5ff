package instance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"path/filepath"

	"superd/config"
	"superd/logs"
	"superd/logs/frame"
	"superd/logs/segment"
	"superd/logs/sink"
)

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

// FIFOPath returns the path of the FIFO of a stream. Paths are unique, as no instance name has a
// colon.
func (e *Env) FIFOPath(instance string, which logs.Stream) string {
	switch which {
	case logs.Stderr:
		instance += ":stderr"
	case LoggerInput:
		instance += ":stdin"
	case logs.Stdout: // has the plain name
	}
	return filepath.Join(e.Paths.FIFODir, instance)
}

// loggerInputPath returns the path of the FIFO that the program's logger reads.
func (e *Env) loggerInputPath(program *config.Program) string {
	return e.FIFOPath(config.LoggerName(program.Name), LoggerInput)
}

// RuntimePaths returns the paths of all FIFOs and notify sockets that an instance can have, under
// any definition of its program.
func (e *Env) RuntimePaths(instance string) []string {
	return []string{
		e.FIFOPath(instance, logs.Stdout), e.FIFOPath(instance, logs.Stderr), e.FIFOPath(instance, LoggerInput),
		e.notifySocket(instance),
	}
}

// privateTmpOf returns the directory of the run's private_tmp. It is on the file system of /tmp.
// Nobody can guess its name before it exists.
func privateTmpOf(r *run) string {
	return filepath.Join("/tmp", "superd-"+r.in.Name+"-"+r.invocationID)
}

// notifySocketOf returns the path of the notify socket of a run with that definition; empty if the
// program has none.
func (e *Env) notifySocketOf(instance string, p *config.Program) string {
	if p.Watchdog == 0 && (p.Ready == nil || !p.Ready.Notify) {
		return ""
	}
	return e.notifySocket(instance)
}

// notifySocket returns the path that the instance's notify socket has, if there is one.
func (e *Env) notifySocket(instance string) string {
	return filepath.Join(e.Paths.NotifyDir, socketName(e.NotifyKey, instance))
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
func (e *Env) LogOptions(instance string, program *config.Program) logs.Options {
	o := logs.Options{
		Program:     program.Name,
		User:        program.User,
		Path:        program.LogPath(e.Paths.LogDir, instance),
		Split:       len(OutputStreams(program)) > 1,
		StderrPath:  program.StderrPath(e.Paths.LogDir, instance),
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
		o.Address = e.loggerInputPath(program)
	}
	return o
}
