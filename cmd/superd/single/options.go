package single

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"superd/internal/signame"
)

// A style is the program whose flags and habits are followed.
type style uint8

const (
	styleSuperd style = iota // superd run -- COMMAND, with the flags of both
	styleTini
	styleDumbInit
)

// mostVerbose is the verbosity at which all is told.
const mostVerbose = 3

// names are the names of this binary by which it follows another style.
var names = map[string]style{
	"tini": styleTini, "tini-static": styleTini, "docker-init": styleTini, "dumb-init": styleDumbInit,
}

// options say how to run a command.
type options struct {
	style     style
	name      string // for messages
	command   []string
	env       []string // of the command
	group     bool     // signals go to the process group of the command
	session   bool     // the command leads a session of its own
	subreaper bool
	warnReaps bool
	verbosity int            // 0: errors only; 1: warnings, too; 2 and 3: what happens
	death     syscall.Signal // that this process gets when its parent ends; 0: none
	expected  []int          // exit statuses that become 0
	rewrite   map[syscall.Signal]syscall.Signal
	// What to print instead of running a command
	help, version bool
}

// errUsage is a command line without a command.
var errUsage = errors.New("no command: name one, with its arguments")

// Concerns reports whether the arguments of this process, which begin with its name, ask for one
// command to be run without a configuration.
func Concerns(args []string) bool {
	if len(args) == 0 {
		return false
	}
	_, named := names[filepath.Base(args[0])]
	return named || len(args) > 2 && args[1] == "run" && slices.Contains(args[2:], "--")
}

// parse reads the arguments of this process and the environment variables that tini and dumb-init
// know.
func parse(args, env []string) (options, error) {
	o := options{name: filepath.Base(args[0]), style: names[filepath.Base(args[0])], env: env, verbosity: 1, rewrite: map[syscall.Signal]syscall.Signal{}}
	rest := args[1:]
	if o.style == styleSuperd {
		o.name, rest = "superd", args[2:]
	}
	if o.style == styleDumbInit {
		o.session, o.verbosity = true, 0
	}
	err := o.flags(rest)
	switch {
	case err != nil || o.help || o.version:
		return o, err
	case len(o.command) == 0:
		return o, errUsage
	}
	return o, o.environment()
}

// environment applies environment variables.
func (o *options) environment() error {
	getenv := func(name string) (value string, set bool) {
		for _, v := range o.env {
			if rest, ok := strings.CutPrefix(v, name+"="); ok {
				return rest, true
			}
		}
		return "", false
	}
	if o.style == styleDumbInit {
		if debug, _ := getenv("DUMB_INIT_DEBUG"); debug == "1" {
			o.verbosity = mostVerbose
		}
		if session, _ := getenv("DUMB_INIT_SETSID"); session == "0" {
			o.session = false
		}
		return nil
	}
	if _, set := getenv("TINI_SUBREAPER"); set {
		o.subreaper = true
	}
	if _, set := getenv("TINI_KILL_PROCESS_GROUP"); set {
		o.group = true
	}
	if text, set := getenv("TINI_VERBOSITY"); set {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("read TINI_VERBOSITY: %q is no number: write 0 to 3", text)
		}
		o.verbosity = n
	}
	return nil
}

// longFlags are the long names of short flags.
var longFlags = map[string]string{
	"single-child": "c", "rewrite": "r", "verbose": "v", "help": "h", "version": "V",
}

// shortFlags are the flags of each style; a colon follows those with a value.
var shortFlags = [...]string{styleSuperd: "sgwvhVcp:e:r:", styleTini: "sgwvhlp:e:", styleDumbInit: "cvhVr:"}

// flags reads the flags in front of the command, as getopt_long(3) does: they end at "--" or at the
// first word that is none.
func (o *options) flags(args []string) error {
	for len(args) > 0 {
		arg := args[0]
		switch {
		case arg == "--":
			o.command = args[1:]
			return nil
		case arg == "--version" && (o.style != styleTini || len(args) == 1):
			o.version = true
			return nil
		case strings.HasPrefix(arg, "--"):
			name, value, inline := strings.Cut(arg[2:], "=")
			flag := longFlags[name]
			if flag == "" || !strings.Contains(shortFlags[o.style], flag) || o.style == styleTini {
				return fmt.Errorf("unknown flag --%s", name)
			}
			if !takesValue(o.style, flag) {
				if inline {
					return fmt.Errorf("the flag --%s has no value", name)
				}
			} else if !inline {
				if len(args) == 1 {
					return fmt.Errorf("the flag --%s needs a value", name)
				}
				value, args = args[1], args[1:]
			}
			if err := o.flag(flag, value); err != nil {
				return err
			}
		case strings.HasPrefix(arg, "-") && arg != "-":
			letters := arg[1:]
			for letters != "" {
				flag := letters[:1]
				letters = letters[1:]
				value := ""
				if takesValue(o.style, flag) {
					if value = letters; value == "" {
						if len(args) == 1 {
							return fmt.Errorf("the flag -%s needs a value", flag)
						}
						value, args = args[1], args[1:]
					}
					letters = ""
				}
				if err := o.flag(flag, value); err != nil {
					return err
				}
			}
		case o.style == styleSuperd:
			return fmt.Errorf("%q is no flag: with -- the command follows that, and there is no file", arg)
		default:
			o.command = args
			return nil
		}
		args = args[1:]
	}
	return nil
}

func takesValue(s style, flag string) bool { return strings.Contains(shortFlags[s], flag+":") }

// flag applies one flag.
func (o *options) flag(flag, value string) error {
	if flag == ":" || !strings.Contains(shortFlags[o.style], flag) {
		return fmt.Errorf("unknown flag -%s", flag)
	}
	switch flag {
	case "s":
		o.subreaper = true
	case "g":
		o.group = true
	case "w":
		o.warnReaps = true
	case "v":
		if o.verbosity++; o.style == styleDumbInit {
			o.verbosity = mostVerbose
		}
	case "h":
		o.help = true
	case "V", "l":
		o.version = true
	case "c":
		o.group, o.session = false, false
	case "p":
		sig, err := signame.Parse(value)
		if err != nil {
			return fmt.Errorf("flag -p: %w", err)
		}
		o.death = sig
	case "e":
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > 255 {
			return fmt.Errorf("flag -e: %q is no exit status: write 0 to 255", value)
		}
		o.expected = append(o.expected, n)
	case "r":
		return o.addRewrite(value)
	}
	return nil
}

// maxSignal is the highest signal that dumb-init rewrites.
const maxSignal = 31

// addRewrite reads "15:3", or "15:0" to ignore it. Names of signals are read, too.
func (o *options) addRewrite(value string) error {
	from, to, ok := strings.Cut(value, ":")
	got, err := rewritten(from)
	if err != nil || !ok || got == 0 {
		return fmt.Errorf("flag -r: %q is not FROM:TO: write two signals, such as 15:3, or 15:0 to ignore the first", value)
	}
	sends, err := rewritten(to)
	if err != nil {
		return fmt.Errorf("flag -r: %q is not FROM:TO: write two signals, such as 15:3, or 15:0 to ignore the first", value)
	}
	o.rewrite[got] = sends
	return nil
}

// rewritten reads a signal, or 0.
func rewritten(text string) (syscall.Signal, error) {
	if text == "0" {
		return 0, nil
	}
	sig, err := signame.Parse(text)
	if err == nil && sig > maxSignal {
		err = fmt.Errorf("%d is greater than %d", int(sig), maxSignal)
	}
	return sig, err
}
