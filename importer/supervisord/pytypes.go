package supervisord

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The types of supervisord's options. Source: supervisor/datatypes.py.

// integer is int() of Python: blanks around it, a sign, and single underscores between digits.
func integer(s string) (int, error) { return pyInt(s, 10) }

func pyInt(s string, base int) (int, error) {
	text := pyStrip(s)
	sign := ""
	if text != "" && (text[0] == '+' || text[0] == '-') {
		sign, text = text[:1], text[1:]
	}
	if base == 8 {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "0o"), "0O")
		text = strings.TrimPrefix(text, "_")
	}
	if strings.HasPrefix(text, "_") || strings.HasSuffix(text, "_") || strings.Contains(text, "__") {
		return 0, fmt.Errorf("%q is no integer", s)
	}
	n, err := strconv.ParseInt(sign+strings.ReplaceAll(text, "_", ""), base, 64)
	if err != nil || strings.ContainsAny(text, "+-") {
		return 0, fmt.Errorf("%q is no integer", s)
	}
	return int(n), nil
}

func octal(s string) (int, error) {
	n, err := pyInt(s, 8)
	if err != nil {
		return 0, fmt.Errorf("%q is no octal number", s)
	}
	return n, nil
}

func boolean(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "yes", "true", "on", "1":
		return true, nil
	case "no", "false", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is no boolean: write true or false", s)
}

// byteSize reads a number of bytes; kb, mb and gb are powers of 1024.
func byteSize(s string) (int, error) {
	lower := strings.ToLower(s)
	factor := 1
	for suffix, f := range map[string]int{"kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30} {
		if strings.HasSuffix(lower, suffix) {
			lower, factor = lower[:len(lower)-2], f
			break
		}
	}
	n, err := integer(lower)
	if err != nil {
		return 0, fmt.Errorf("%q is no size", s)
	}
	return n * factor, nil
}

// list splits at commas.
func list(s string) []string {
	if s == "" {
		return nil
	}
	items := strings.Split(s, ",")
	for i := range items {
		items[i] = pyStrip(items[i])
	}
	return items
}

func exitCodes(s string) ([]int, error) {
	var codes []int
	for _, item := range list(s) {
		n, err := integer(item)
		if err != nil || n < 0 || n > 255 {
			return nil, fmt.Errorf("%q is no list of exit codes", s)
		}
		codes = append(codes, n)
	}
	return codes, nil
}

// processName is the name of a process or group.
func processName(s string) (string, error) {
	name := pyStrip(s)
	if strings.ContainsAny(name, " :/") {
		return "", fmt.Errorf("the name %q has a blank, a colon or a slash", name)
	}
	return name, nil
}

// Restart policies of autorestart.
const (
	restartAlways     = "true"
	restartNever      = "false"
	restartUnexpected = "unexpected"
)

func autoRestart(s string) (string, error) {
	lower := strings.ToLower(s)
	if lower == restartUnexpected {
		return restartUnexpected, nil
	}
	on, err := boolean(lower)
	switch {
	case err != nil:
		return "", fmt.Errorf("%q is neither true, false nor unexpected", s)
	case on:
		return restartAlways, nil
	}
	return restartNever, nil
}

// Names of log files that mean something else.
const (
	logNone   = "NONE"
	logAuto   = "AUTO"
	logSyslog = "syslog"
)

func logfile(s string) string {
	switch strings.ToLower(s) {
	case "none", "off":
		return logNone
	case "auto":
		return logAuto
	case "syslog":
		return logSyslog
	}
	return s
}

// signals are the names of signals in Python's module signal on Linux, without SIG.
var signals = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "IOT": 6, "BUS": 7, "FPE": 8,
	"KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16,
	"CHLD": 17, "CLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23,
	"XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28, "IO": 29, "POLL": 29, "PWR": 30,
	"SYS": 31, "RTMIN": 34, "RTMAX": 64,
}

// signalName returns the number of a signal.
func signalNumber(s string) (int, error) {
	if n, err := integer(s); err == nil {
		for _, known := range signals {
			if n == known {
				return n, nil
			}
		}
		// SIG_DFL, SIG_IGN and the numbers for sigprocmask are below SIGHUP or among the signals.
		if n == 0 {
			return n, nil
		}
		return 0, fmt.Errorf("%q is no signal", s)
	}
	name := strings.TrimPrefix(strings.ToUpper(pyStrip(s)), "SIG")
	if n, known := signals[name]; known {
		return n, nil
	}
	return 0, fmt.Errorf("%q is no signal", s)
}

// signalName returns the name of a signal as superd has it.
func signalName(number int) string {
	for _, name := range slices.Sorted(maps.Keys(signals)) {
		if signals[name] == number && name != "CLD" && name != "IOT" && name != "POLL" {
			return "SIG" + name
		}
	}
	return strconv.Itoa(number)
}

// environment reads KEY=value,KEY2="value 2". What stands between a value and the next key is
// skipped, whatever it is.
//
// Source: dict_of_key_value_pairs of datatypes.py, on shlex of Python 3.11, not posix.
func environment(s string) (names []string, values map[string]string, err error) {
	tokens, err := shlexTokens(s)
	if err != nil {
		return nil, nil, err
	}
	values = map[string]string{}
	for i := 0; i < len(tokens); i += 4 {
		if i+3 > len(tokens) || tokens[i+1] != "=" {
			return nil, nil, fmt.Errorf("%q has no NAME=value where one is expected", s)
		}
		if _, again := values[tokens[i]]; !again {
			names = append(names, tokens[i])
		}
		values[tokens[i]] = strings.Trim(tokens[i+2], `'"`)
	}
	return names, values, nil
}

func isWordChar(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
		strings.ContainsRune("_/.+-():", r) || r == refBegin || r == refEnd
}

const shlexBlanks = " \t\r\n"

// shlexTokens splits as shlex.shlex does with the additional word characters of supervisord.
func shlexTokens(s string) (tokens []string, err error) {
	runes := []rune(s)
	var token []rune
	inWord := false
	skipLine := func(i int) int {
		for i < len(runes) && runes[i] != '\n' {
			i++
		}
		return i
	}
	end := func() {
		if len(token) > 0 {
			tokens = append(tokens, string(token))
		}
		token, inWord = nil, false
	}
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		quote := r == '\'' || r == '"'
		switch {
		case strings.ContainsRune(shlexBlanks, r):
			end()
		case r == '#':
			i = skipLine(i) // a word goes on behind the comment
		case inWord && (isWordChar(r) || quote):
			token = append(token, r)
		case inWord:
			end()
			tokens = append(tokens, string(r))
		case isWordChar(r):
			token, inWord = append(token, r), true
		case quote:
			closing := slices.Index(runes[i+1:], r)
			if closing < 0 {
				return nil, fmt.Errorf("a quote in %q is not closed", s)
			}
			tokens = append(tokens, string(append(token, runes[i:i+closing+2]...)))
			token, inWord = nil, false
			i += closing + 1
		default:
			tokens = append(tokens, string(append(token, r)))
			token = nil
		}
	}
	end()
	return tokens, nil
}

// A word is an argument of a command, and whether a part of it stood in quotes.
type word struct {
	text   string
	quoted bool
}

// splitCommand is shlex.split of Python 3.11: quotes and backslashes as in a shell, no comments.
func splitCommand(s string) (words []word, err error) {
	var b strings.Builder
	inWord, quoted := false, false
	runes := []rune(s)
	end := func() {
		if inWord {
			words = append(words, word{b.String(), quoted})
		}
		b.Reset()
		inWord, quoted = false, false
	}
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case strings.ContainsRune(shlexBlanks, r):
			end()
		case r == '\\':
			if i+1 == len(runes) {
				return nil, fmt.Errorf("nothing follows the last backslash of %q", s)
			}
			i++
			b.WriteRune(runes[i])
			inWord = true
		case r == '\'' || r == '"':
			inWord, quoted = true, true
			for i++; ; i++ {
				if i >= len(runes) {
					return nil, fmt.Errorf("a quote in %q is not closed", s)
				}
				if runes[i] == r {
					break
				}
				if r == '"' && runes[i] == '\\' {
					if i+1 == len(runes) {
						return nil, fmt.Errorf("a quote in %q is not closed", s)
					}
					if next := runes[i+1]; next == '"' || next == '\\' {
						i++
					}
				}
				b.WriteRune(runes[i])
			}
		default:
			b.WriteRune(r)
			inWord = true
		}
	}
	end()
	return words, nil
}
