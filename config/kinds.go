package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"superd/config/document"
)

// A codec defines how a kind of value is read, checked and shown.
type codec[T any] struct {
	name string                  // as the reference shows it
	read func(v value) (T, bool) // reports mistakes through v.fail
	show func(T) string          // as TOML; "" for none
}

// text reads a string that convert accepts or refuses.
func text[T any](name, what string, convert func(string) (T, error), show func(T) string) codec[T] {
	return codec[T]{name: name, show: show, read: func(v value) (T, bool) {
		var none T
		s, ok := v.str(what, func(s string) bool {
			_, err := convert(s)
			return err == nil
		})
		if !ok {
			return none, false
		}
		converted, err := convert(s)
		if err != nil {
			v.fail("%w", err)
			return none, false
		}
		return converted, true
	}}
}

func quoteSet(s string) string {
	if s == "" {
		return ""
	}
	return strconv.Quote(s)
}

var boolean = codec[bool]{
	name: "boolean",
	show: strconv.FormatBool,
	read: func(v value) (bool, bool) {
		b, ok := v.Raw.(bool)
		if !ok {
			v.fail("must be true or false, got %s", v.describe())
		}
		return b, ok
	},
}

// negated is boolean for a field that is true where the key is false.
var negated = codec[bool]{
	name: boolean.name,
	show: func(b bool) string { return boolean.show(!b) },
	read: func(v value) (bool, bool) {
		b, ok := boolean.read(v)
		return !b, ok
	},
}

// integer reads an integer from least to most.
func integer[T int | int64](least, most T) codec[T] {
	return codec[T]{
		name: "integer",
		show: func(n T) string { return strconv.FormatInt(int64(n), 10) },
		read: func(v value) (T, bool) {
			n, ok := v.Raw.(int64)
			if !ok {
				v.fail("must be an integer, got %s", v.describe())
				return 0, false
			}
			if n < int64(least) || n > int64(most) {
				v.fail("must be an integer from %d to %d, got %d", least, most, n)
				return 0, false
			}
			return T(n), true
		},
	}
}

// number reads an integer or float that ok accepts; bounds describes the range in words.
func number(bounds string, ok func(float64) bool) codec[float64] {
	return codec[float64]{
		name: "number",
		show: showFloat,
		read: func(v value) (float64, bool) {
			var f float64
			switch raw := v.Raw.(type) {
			case int64:
				f = float64(raw)
			case float64:
				f = raw
			default:
				v.fail("must be a number, got %s", v.describe())
				return 0, false
			}
			if math.IsNaN(f) || math.IsInf(f, 0) || !ok(f) {
				v.fail("must be %s, got %s", bounds, strings.TrimSuffix(showFloat(f), ".0"))
				return 0, false
			}
			return f, true
		},
	}
}

// duration reads a duration greater than 0, or also 0 if zero is set.
func duration(zero bool) codec[time.Duration] {
	return codec[time.Duration]{
		name: "duration",
		show: func(d time.Duration) string { return strconv.Quote(showDuration(d)) },
		read: func(v value) (time.Duration, bool) {
			const what = `a duration such as "5s"`
			fits := func(d time.Duration) bool { return d > 0 || zero && d == 0 }
			switch raw := v.Raw.(type) {
			case int64, float64:
				remedy := ""
				seconds := fmt.Sprint(raw) + "s"
				if d, err := time.ParseDuration(seconds); err == nil && fits(d) {
					remedy = fmt.Sprintf(": write %q", seconds)
				}
				v.fail("must be %s, got %s%s", what, v.describe(), remedy)
				return 0, false
			}
			s, ok := v.str(what, func(string) bool { return false })
			if !ok {
				return 0, false
			}
			d, err := parseDuration(s, "", fits)
			switch {
			case err != nil:
				v.fail("%w", err)
			case d < 0 && zero:
				v.fail("must not be negative, got %q", s)
			case d <= 0 && !zero:
				v.fail("must be more than 0s, got %q", s)
			default:
				return d, true
			}
			return 0, false
		},
	}
}

// size reads a number of bytes of at least least.
func size(least int64) codec[int64] {
	return codec[int64]{
		name: "size",
		show: func(n int64) string {
			if n == 0 {
				return "0"
			}
			return strconv.Quote(showSize(n))
		},
		read: func(v value) (int64, bool) {
			n, ok := v.Raw.(int64)
			if !ok {
				if _, ok := v.Raw.(string); !ok {
					v.fail(`must be a size such as "10MB" or a number of bytes, got %s`, v.describe())
					return 0, false
				}
				s, ok := v.str("a size", anyString)
				if !ok {
					return 0, false
				}
				var err error
				if n, err = parseSize(s); err != nil {
					v.fail("%w", err)
					return 0, false
				}
			}
			switch {
			case n < 0:
				v.fail("must not be negative, got %d", n)
			case n < least:
				v.fail("must be %d bytes or more, got %d", least, n)
			default:
				return n, true
			}
			return 0, false
		},
	}
}

// optional reads a value of k into a pointer, nil if the key isn't set.
func optional[T any](k codec[T]) codec[*T] {
	return codec[*T]{
		name: k.name,
		show: func(p *T) string {
			if p == nil {
				return ""
			}
			return k.show(*p)
		},
		read: func(v value) (*T, bool) {
			t, ok := k.read(v)
			return &t, ok
		},
	}
}

// settable reads a list of k; an empty list that is written down is not nil.
func settable[T any](k codec[[]T]) codec[[]T] {
	read := k.read
	k.read = func(v value) ([]T, bool) {
		items, ok := read(v)
		if ok && items == nil {
			items = []T{}
		}
		return items, ok
	}
	return k
}

// choice reads one of values.
func choice[T ~string](values ...T) codec[T] {
	names, quoted := make([]string, len(values)), make([]string, len(values))
	for i, v := range values {
		names[i], quoted[i] = string(v), strconv.Quote(string(v))
	}
	return codec[T]{
		name: oneOf(quoted),
		show: func(v T) string { return strconv.Quote(string(v)) },
		read: func(v value) (T, bool) {
			s, isString := v.Raw.(string)
			switch {
			case !isString:
				v.fail("must be %s, got %s", oneOf(quoted), v.describe())
			case !slices.Contains(names, s):
				v.fail("must be %s, got %s%s",
					oneOf(quoted), document.Quote(s), didYouMean(s, names, ""))
			default:
				return T(s), true
			}
			return "", false
		},
	}
}

// compression reads false, true or the name of a compression.
var compression = codec[Compression]{
	name: `boolean, "gzip" or "zstd"`,
	show: func(c Compression) string {
		if c == CompressNot {
			return "false"
		}
		return strconv.Quote(string(c))
	},
	read: func(v value) (Compression, bool) {
		switch v.Raw {
		case false:
			return CompressNot, true
		case true, string(CompressGzip):
			return CompressGzip, true
		case string(CompressZstd):
			return CompressZstd, true
		}
		v.fail(`must be false, true, "gzip" or "zstd", got %s`, v.describe())
		return "", false
	},
}

// list reads an array of values of k, nil for an empty array.
func list[T any](name string, k codec[T]) codec[[]T] {
	return codec[[]T]{
		name: name,
		show: func(items []T) string {
			shown := make([]string, len(items))
			for i, item := range items {
				shown[i] = k.show(item)
			}
			return "[" + strings.Join(shown, ", ") + "]"
		},
		read: func(v value) ([]T, bool) {
			elements, ok := v.items()
			if !ok {
				remedy := ""
				fits := func(element any) bool {
					one := v.alone()
					one.Raw = element
					_, ok := k.read(one)
					return ok
				}
				switch raw := v.Raw.(type) {
				case string:
					if fits(raw) {
						remedy = ": write [" + document.Quote(raw) + "]"
					}
				case int64:
					if digits := strconv.FormatInt(raw, 10); fits(raw) {
						remedy = ": write [" + digits + "]"
					} else if fits(digits) {
						remedy = fmt.Sprintf(": write [%q]", digits)
					}
				}
				v.fail("must be an %s, got %s%s", name, v.describe(), remedy)
				return nil, false
			}
			var items []T
			for _, element := range elements {
				item, itemOK := k.read(element)
				ok = ok && itemOK
				items = append(items, item)
			}
			return items, ok
		},
	}
}

// word reads a non-empty string.
var word = text("string", "a string", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("is empty: remove the key, or write a value")
	}
	return s, nil
}, quoteSet)

// programRef reads the name of another program; its existence is checked when all programs are
// known.
var programRef = text("string", "the name of a program", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf(`is empty: write the name of a program`)
	}
	return s, nil
}, strconv.Quote)

var groupName = text("string", "the name of a group", func(s string) (string, error) { return s, checkName("group", s) }, strconv.Quote)

var filePath = codec[string]{
	name: "path",
	show: quoteSet,
	read: func(v value) (string, bool) {
		s, ok := word.read(v)
		if !ok {
			return "", false
		}
		return v.Path(s), true
	},
}

// directory reads a path that may hold references, and is not cleaned for that reason.
var directory = codec[string]{
	name: "path",
	show: quoteSet,
	read: func(v value) (string, bool) {
		s, ok := word.read(v)
		if !ok || !v.template(s) {
			return "", false
		}
		switch {
		case strings.HasPrefix(s, "/"), strings.HasPrefix(s, "${"):
			return s, true
		case strings.Contains(s, "$"):
			return strings.TrimSuffix(document.EscapeDollars(v.Dir), "/") + "/" + s, true
		}
		return document.EscapeDollars(v.Path(s)), true
	},
}

// logFile reads a path that stays relative to the log directory, which is unknown here.
var logFile = text("path", "a path", func(s string) (string, error) {
	if s == "" || strings.HasSuffix(s, "/") || path.Base(s) == "." || path.Base(s) == ".." {
		return "",
			fmt.Errorf("%s is not a file: write a name such as \"web.log\"", document.Quote(s))
	}
	return path.Clean(s), nil
}, quoteSet)

// logAddress reads the path of a socket, or a URL with host and port.
var logAddress = codec[string]{
	name: "string",
	show: quoteSet,
	read: func(v value) (string, bool) {
		s, ok := v.str("an address", func(string) bool { return false })
		if !ok {
			return "", false
		}
		scheme, rest, isURL := strings.Cut(s, "://")
		if !isURL && !looksLikeHostPort(s) && s != "" {
			return v.Path(s), true
		}
		if isURL && (scheme == "udp" || scheme == "tcp") {
			if err := checkHostPort(rest); err != nil {
				v.fail("%s %w: write \"%s://HOST:PORT\"", document.Quote(s), err, scheme)
				return "", false
			}
			return s, true
		}
		v.fail(`%s is not an address of journald or syslog: write a path such as "/dev/log", or for syslog "udp://HOST:PORT" or "tcp://HOST:PORT"`, document.Quote(s))
		return "", false
	},
}

// looksLikeHostPort reports whether s is HOST:PORT rather than a path.
func looksLikeHostPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	_, perr := strconv.Atoi(port)
	return err == nil && perr == nil && !strings.Contains(s, "/")
}

// checkHostPort returns an error if s is not HOST:PORT.
func checkHostPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || port == "" {
		return errors.New("has no host and port")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("has the port %s, which must be a number from 1 to 65535",
			document.Quote(port))
	}
	return nil
}

// template reports whether the references in s are well-formed.
func (v value) template(s string) bool {
	if err := document.CheckTemplate(s); err != nil {
		v.fail("%w", err)
		return false
	}
	return true
}

var command = codec[[]string]{
	name: "array of strings, or a string",
	show: func(args []string) string {
		if len(args) == 0 {
			return ""
		}
		return list("", word).show(args)
	},
	read: readCommand,
}

func readCommand(v value) ([]string, bool) {
	var args []string
	switch raw := v.Raw.(type) {
	case string:
		if _, ok := v.str("a string", anyString); !ok {
			return nil, false
		}
		var unquoted string
		var err error
		if args, unquoted, err = document.SplitCommand(raw); err != nil {
			v.fail("split %s: %w", document.Quote(raw), err)
			return nil, false
		}
		if unquoted != "" {
			remedy := "quote it to keep it so"
			if unquoted[0] == '$' {
				remedy = "write ${NAME} for a variable"
			}
			v.warn(`%q is passed literally, since no shell runs this command: %s, or write ["sh", "-c", "…"]`, unquoted, remedy)
		}
	default:
		items, ok := v.items()
		if !ok {
			v.fail("must be an array of strings or a string, got %s", v.describe())
			return nil, false
		}
		for _, item := range items {
			arg, itemOK := item.str("a string", anyString)
			ok = ok && itemOK && item.template(arg)
			args = append(args, arg)
		}
		if !ok {
			return nil, false
		}
	}
	if len(args) == 0 || args[0] == "" {
		v.fail(`names no program: write ["/path/to/program", "argument"]`)
		return nil, false
	}
	for _, arg := range args {
		if _, isString := v.Raw.(string); isString && !v.template(arg) {
			return nil, false
		}
	}
	return args, true
}

var environment = codec[map[string]string]{
	name: "table of strings",
	show: func(map[string]string) string { return "{}" },
	read: func(v value) (map[string]string, bool) {
		table, ok := v.Raw.(map[string]any)
		if !ok {
			v.fail(`must be a table such as { PORT = "8080" }, got %s`, v.describe())
			return nil, false
		}
		vars := make(map[string]string, len(table))
		for _, name := range slices.Sorted(maps.Keys(table)) {
			entry := v.entry(name)
			if err := document.CheckVariable(name); err != nil {
				entry.failKey("%w", err)
				ok = false
			}
			if slices.Contains(runVariables, name) {
				entry.failKey("is set by superd itself: choose another name")
				ok = false
			}
			s, isString := entry.str("a string", anyString)
			ok = isString && entry.template(s) && ok
			vars[name] = s
		}
		return vars, ok
	},
}

var stopSignal = text("signal", `a signal such as "SIGTERM"`, ParseSignal,
	func(sig syscall.Signal) string { return strconv.Quote(SignalName(sig)) })

// killSignal reads a signal; 0 is SIGKILL.
var killSignal = text("signal", `a signal such as "SIGKILL"`,
	func(s string) (syscall.Signal, error) {
		sig, err := ParseSignal(s)
		if sig == syscall.SIGKILL {
			sig = 0
		}
		return sig, err
	},
	func(sig syscall.Signal) string { return strconv.Quote(SignalName(cmp.Or(sig, syscall.SIGKILL))) })

// reloadSignal reads a signal that a program can handle; 0 is none.
var reloadSignal = text("signal", `a signal such as "SIGHUP"`,
	func(s string) (syscall.Signal, error) {
		sig, err := ParseSignal(s)
		if err == nil && (sig == syscall.SIGKILL || sig == syscall.SIGSTOP) {
			err = fmt.Errorf("no program can handle %s: write what it reloads by, as \"SIGHUP\"", SignalName(sig))
		}
		return sig, err
	},
	func(sig syscall.Signal) string {
		if sig == 0 {
			return ""
		}
		return strconv.Quote(SignalName(sig))
	})

var umask = octal("mask", "022", 0o777)

// fileMode reads the mode of a file in octal, as for chmod.
var fileMode = octal("mode", "640", 0o777)

// octal reads bits in octal notation, as in example.
func octal(what, example string, most uint64) codec[*uint32] {
	return codec[*uint32]{
		name: "octal string",
		show: func(mask *uint32) string {
			if mask == nil {
				return ""
			}
			return fmt.Sprintf(`"%03o"`, *mask)
		},
		read: func(v value) (*uint32, bool) {
			remedy := fmt.Sprintf(`write "%s" or 0o%s`, example, example)
			digits, isString := v.Raw.(string)
			if n, ok := v.Raw.(int64); ok {
				// Decimal 22 would become 026, so only octal literals are accepted.
				if !strings.HasPrefix(v.Text(), "0o") {
					v.fail("must be octal, got %d: %s", n, remedy)
					return nil, false
				}
				digits, isString = strconv.FormatInt(n, 8), true
			}
			if !isString {
				v.fail("must be an octal %s, got %s: %s", what, v.describe(), remedy)
				return nil, false
			}
			n, err := strconv.ParseUint(digits, 8, 32)
			if err != nil || n > most {
				v.fail("must be an octal %s from 000 to %o, got %s: %s",
					what, most, document.Quote(digits), remedy)
				return nil, false
			}
			mask := uint32(n)
			return &mask, true
		},
	}
}

var address = text("host:port", "a string", func(s string) (string, error) {
	_, port, err := net.SplitHostPort(s)
	if n, portErr := strconv.Atoi(port); err != nil || portErr != nil || n < 1 || n > 65535 {
		return "",
			fmt.Errorf(`must be host:port, got %s: write "127.0.0.1:5432"`, document.Quote(s))
	}
	return s, nil
}, quoteSet)

var webAddress = text("URL", "a string", func(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Errorf(`must be a URL of http or https, got %s: write "http://127.0.0.1:8080/healthz"`,
			document.Quote(s))
	}
	return s, nil
}, quoteSet)

var pattern = text("regular expression", "a string", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("is empty: write what the line looks like, as in \"listening on\"")
	}
	if _, err := regexp.Compile(s); err != nil {
		cause := err.Error()
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			cause = e.Code.String()
		}
		return "", fmt.Errorf("%s is not a regular expression: %s",
			document.Quote(s), document.Printable(cause))
	}
	return s, nil
}, quoteSet)

var scheduleLine = text(`"@every DURATION" or cron line`, "a string", func(s string) (string, error) {
	return s, checkSchedule(s)
}, quoteSet)
