package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A kind is one way to write a value: how it is read and checked, and how it is shown again.
type kind[T any] struct {
	name string                  // as the reference shows it
	read func(v value) (T, bool) // reports what is wrong by v.fail
	show func(T) string          // as TOML; "" for none
}

// text reads a string that convert then accepts or refuses.
func text[T any](name, what string, convert func(string) (T, error), show func(T) string) kind[T] {
	return kind[T]{name: name, show: show, read: func(v value) (T, bool) {
		var none T
		s, ok := v.str(what)
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

var boolean = kind[bool]{
	name: "boolean",
	show: strconv.FormatBool,
	read: func(v value) (bool, bool) {
		b, ok := v.raw.(bool)
		if !ok {
			v.fail("must be true or false, got %s", v.describe())
		}
		return b, ok
	},
}

// integer reads an integer from least to most.
func integer[T int | int64](least, most T) kind[T] {
	return kind[T]{
		name: "integer",
		show: func(n T) string { return strconv.FormatInt(int64(n), 10) },
		read: func(v value) (T, bool) {
			n, ok := v.raw.(int64)
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

// number reads an integer or a float that ok accepts; bounds says in words which those are.
func number(bounds string, ok func(float64) bool) kind[float64] {
	return kind[float64]{
		name: "number",
		show: showFloat,
		read: func(v value) (float64, bool) {
			var f float64
			switch raw := v.raw.(type) {
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

// duration reads a duration, more than 0 unless zero is allowed.
func duration(zero bool) kind[time.Duration] {
	return kind[time.Duration]{
		name: "duration",
		show: func(d time.Duration) string { return strconv.Quote(showDuration(d)) },
		read: func(v value) (time.Duration, bool) {
			const what = `a duration such as "5s"`
			switch raw := v.raw.(type) {
			case int64, float64:
				v.fail(`must be %s, got %s: write "%vs"`, what, v.describe(), raw)
				return 0, false
			}
			s, ok := v.str(what)
			if !ok {
				return 0, false
			}
			d, err := parseDuration(s)
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

// size reads a number of bytes, at least least.
func size(least int64) kind[int64] {
	return kind[int64]{
		name: "size",
		show: func(n int64) string {
			if n == 0 {
				return "0"
			}
			return strconv.Quote(showSize(n))
		},
		read: func(v value) (int64, bool) {
			n, ok := v.raw.(int64)
			if !ok {
				if _, ok := v.raw.(string); !ok {
					v.fail(`must be a size such as "10MB" or a number of bytes, got %s`, v.describe())
					return 0, false
				}
				s, ok := v.str("a size")
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

// optional reads what k reads into a pointer, which is nil where the key isn't set.
func optional[T any](k kind[T]) kind[*T] {
	return kind[*T]{
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

// settable reads what k reads, and tells an empty list that is written down (not nil) from none.
func settable[T any](k kind[[]T]) kind[[]T] {
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

// choice reads one of the values.
func choice[T ~string](values ...T) kind[T] {
	words, quoted := make([]string, len(values)), make([]string, len(values))
	for i, v := range values {
		words[i], quoted[i] = string(v), strconv.Quote(string(v))
	}
	return kind[T]{
		name: oneOf(quoted),
		show: func(v T) string { return strconv.Quote(string(v)) },
		read: func(v value) (T, bool) {
			s, isString := v.raw.(string)
			switch {
			case !isString:
				v.fail("must be %s, got %s", oneOf(quoted), v.describe())
			case !slices.Contains(words, s):
				v.fail("must be %s, got %s%s", oneOf(quoted), shorten(s), didYouMean(s, words, ""))
			default:
				return T(s), true
			}
			return "", false
		},
	}
}

// compression reads false, true or the name of a way to compress.
var compression = kind[Compression]{
	name: `boolean, "gzip" or "zstd"`,
	show: func(c Compression) string {
		if c == CompressNot {
			return "false"
		}
		return strconv.Quote(string(c))
	},
	read: func(v value) (Compression, bool) {
		switch v.raw {
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

// list reads an array of what k reads, nil for an empty one.
func list[T any](name string, k kind[T]) kind[[]T] {
	return kind[[]T]{
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
				switch raw := v.raw.(type) {
				case string:
					remedy = ": write [" + shorten(raw) + "]"
				case int64:
					remedy = fmt.Sprintf(": write [%d]", raw)
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

// word reads a string that is not empty.
var word = text("string", "a string", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("is empty: leave the key out, or write a value")
	}
	return s, nil
}, quoteSet)

// programRef reads the name of another program; whether it is there is seen when all are known.
var programRef = text("string", "the name of a program", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf(`is empty: write the name of a program`)
	}
	return s, nil
}, strconv.Quote)

var groupName = text("string", "the name of a group", func(s string) (string, error) { return s, checkName("group", s) }, strconv.Quote)

var filePath = kind[string]{
	name: "path",
	show: quoteSet,
	read: func(v value) (string, bool) {
		s, ok := word.read(v)
		if !ok {
			return "", false
		}
		return v.src.path(s), true
	},
}

// directory is a path that may hold references; they keep it from being cleaned here.
var directory = kind[string]{
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
			return strings.TrimSuffix(escapeDollars(v.src.dir), "/") + "/" + s, true
		}
		return escapeDollars(v.src.path(s)), true
	},
}

// logFile stays relative: to the log directory, which is not known here.
var logFile = text("path", "a path", func(s string) (string, error) {
	if s == "" || strings.HasSuffix(s, "/") || path.Base(s) == "." || path.Base(s) == ".." {
		return "", fmt.Errorf("%s is not a file: write a name such as \"web.log\"", shorten(s))
	}
	return path.Clean(s), nil
}, quoteSet)

// logAddress is the path of a socket, or the URL of a host and port.
var logAddress = kind[string]{
	name: "string",
	show: quoteSet,
	read: func(v value) (string, bool) {
		s, ok := v.str("an address")
		if !ok {
			return "", false
		}
		scheme, rest, isURL := strings.Cut(s, "://")
		if !isURL && !looksLikeHostPort(s) && s != "" {
			return v.src.path(s), true
		}
		if isURL && (scheme == "udp" || scheme == "tcp") {
			if err := checkHostPort(rest); err != nil {
				v.fail("%s %w: write \"%s://HOST:PORT\"", shorten(s), err, scheme)
				return "", false
			}
			return s, true
		}
		v.fail(`%s is not an address of journald or syslog: write a path such as "/dev/log", or for syslog "udp://HOST:PORT" or "tcp://HOST:PORT"`, shorten(s))
		return "", false
	},
}

// looksLikeHostPort reports whether s is HOST:PORT rather than a path.
func looksLikeHostPort(s string) bool {
	_, port, err := net.SplitHostPort(s)
	_, perr := strconv.Atoi(port)
	return err == nil && perr == nil && !strings.Contains(s, "/")
}

// checkHostPort refuses what is not HOST:PORT.
func checkHostPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" || port == "" {
		return errors.New("has no host and port")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("has the port %s, which must be a number from 1 to 65535", shorten(port))
	}
	return nil
}

// template reports whether the references in s can be read.
func (v value) template(s string) bool {
	if _, err := parseTemplate(s); err != nil {
		v.fail("%w", err)
		return false
	}
	return true
}

var command = kind[[]string]{
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
	switch raw := v.raw.(type) {
	case string:
		if _, ok := v.str("a string"); !ok {
			return nil, false
		}
		var unquoted string
		var err error
		if args, unquoted, err = splitCommand(raw); err != nil {
			v.fail("split %s: %w", shorten(raw), err)
			return nil, false
		}
		if unquoted != "" {
			remedy := "quote it to keep it so"
			if unquoted[0] == '$' {
				remedy = "write ${NAME} for a variable"
			}
			v.warn(`%q is passed on as it is, since no shell runs this command: %s, or write ["sh", "-c", "…"]`, unquoted, remedy)
		}
	default:
		items, ok := v.items()
		if !ok {
			v.fail("must be an array of strings or a string, got %s", v.describe())
			return nil, false
		}
		for _, item := range items {
			arg, itemOK := item.str("a string")
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
		if _, isString := v.raw.(string); isString && !v.template(arg) {
			return nil, false
		}
	}
	return args, true
}

var environment = kind[map[string]string]{
	name: "table of strings",
	show: func(map[string]string) string { return "{}" },
	read: func(v value) (map[string]string, bool) {
		table, ok := v.raw.(map[string]any)
		if !ok {
			v.fail(`must be a table such as { PORT = "8080" }, got %s`, v.describe())
			return nil, false
		}
		vars := make(map[string]string, len(table))
		for _, name := range slices.Sorted(maps.Keys(table)) {
			entry := v.kid(name)
			if err := checkVariable(name); err != nil {
				entry.failKey("%w", err)
				ok = false
			}
			if slices.Contains(runVariables, name) {
				entry.failKey("is set by superd itself: choose another name")
				ok = false
			}
			s, isString := entry.str("a string")
			ok = isString && entry.template(s) && ok
			vars[name] = s
		}
		return vars, ok
	},
}

var stopSignal = text("signal", `a signal such as "SIGTERM"`, ParseSignal,
	func(sig syscall.Signal) string { return strconv.Quote(showSignal(sig)) })

var umask = octal("mask", "022")

// fileMode is the mode of a file, as chmod takes it.
var fileMode = octal("mode", "640")

// octal reads nine bits, written in octal as in the example.
func octal(what, example string) kind[*uint32] {
	return kind[*uint32]{
		name: "octal string",
		show: func(mask *uint32) string {
			if mask == nil {
				return ""
			}
			return fmt.Sprintf(`"%03o"`, *mask)
		},
		read: func(v value) (*uint32, bool) {
			remedy := fmt.Sprintf(`write "%s" or 0o%s`, example, example)
			digits, isString := v.raw.(string)
			if n, ok := v.raw.(int64); ok {
				// 22 would be 026 in the end: only what is written in octal can have been meant so.
				if !strings.HasPrefix(v.text(), "0o") {
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
			if err != nil || n > 0o777 {
				v.fail("must be an octal %s from 000 to 777, got %s: %s", what, shorten(digits), remedy)
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
		return "", fmt.Errorf(`must be host:port, got %s: write "127.0.0.1:5432"`, shorten(s))
	}
	return s, nil
}, quoteSet)

var webAddress = text("URL", "a string", func(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return "", fmt.Errorf(`must be a URL of http or https, got %s: write "http://127.0.0.1:8080/healthz"`, shorten(s))
	}
	return s, nil
}, quoteSet)

var pattern = text("regular expression", "a string", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("is empty: write what the line looks like, as in \"listening on\"")
	}
	if _, err := regexp.Compile(s); err != nil {
		return "", fmt.Errorf("compile %s: %s", shorten(s), printable(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	}
	return s, nil
}, quoteSet)

var scheduleLine = text(`"@every DURATION" or cron line`, "a string", func(s string) (string, error) {
	return s, checkSchedule(s)
}, quoteSet)
