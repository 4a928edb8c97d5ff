package single

import (
	"fmt"
	"io"
	"os"
)

// helpOutput returns where help and version go.
func (o *options) helpOutput() io.Writer {
	if o.style == styleDumbInit {
		return os.Stderr
	}
	return os.Stdout
}

// usage returns the help of a style.
func (o *options) usage() string {
	switch o.style {
	case styleTini:
		return fmt.Sprintf(`Usage: %s [flags] [--] COMMAND [ARGUMENT…]

superd under the name %[1]s: the command runs under the supervision of a valid init process, which
forwards signals to it and reaps orphans.

%s
Environment variables: TINI_SUBREAPER and TINI_KILL_PROCESS_GROUP as -s and -g, TINI_VERBOSITY (1).
`, o.name, tiniFlags)
	case styleDumbInit:
		return fmt.Sprintf(`Usage: %s [flags] [--] COMMAND [ARGUMENT…]

superd under the name %[1]s: it forwards signals to the session of the command and reaps orphans.

%s  -v, --verbose          print what happens
  -h, --help             print this
  -V, --version          print the version

Environment variables: DUMB_INIT_SETSID=0 and DUMB_INIT_DEBUG=1 as -c and -v.
`, o.name, dumbInitFlags)
	case styleSuperd:
	}
	return `Usage: superd run [flags] -- COMMAND [ARGUMENT…]

Run one command without a configuration: forward signals to it, reap orphans, and end with its exit
status, 128 and the number of the signal if one has ended it.

` + dumbInitFlags + tiniFlags
}

const dumbInitFlags = `  -c, --single-child     send signals to the command only, not to its process group
  -r, --rewrite FROM:TO  forward another signal, such as 15:3; 15:0 forwards none (repeatable)
`

const tiniFlags = `  -g         send signals to the process group of the command
  -s         reap orphans, also if this process is not PID 1
  -p SIGNAL  get this signal when the parent ends
  -e STATUS  end with 0 in place of this exit status (repeatable)
  -w         print a warning for each orphan that is reaped
  -v         print more of what happens (repeatable)
  -h         print this
`
