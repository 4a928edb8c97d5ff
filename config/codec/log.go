package codec

import (
	"fmt"
	"path"
	"strings"

	"superd/config/document"
)

// LogFile reads a path that stays relative to the log directory, which is unknown here.
var LogFile = Text("path", "a path", func(s string) (string, error) {
	if s == "" || strings.HasSuffix(s, "/") || path.Base(s) == "." || path.Base(s) == ".." {
		return "",
			fmt.Errorf("%s is not a file: write a name such as \"web.log\"", document.Quote(s))
	}
	return path.Clean(s), nil
}, QuoteSet)

// LogAddress reads the path of a socket, or a URL with host and port.
var LogAddress = Codec[string]{
	Name: "string",
	Show: QuoteSet,
	Read: func(v Value) (string, bool) {
		s, ok := v.Str("an address", func(string) bool { return false })
		if !ok {
			return "", false
		}
		scheme, rest, isURL := strings.Cut(s, "://")
		if !isURL && !LooksLikeHostPort(s) && s != "" {
			return v.Path(s), true
		}
		if isURL && (scheme == "udp" || scheme == "tcp") {
			if err := CheckHostPort(rest); err != nil {
				v.Fail("%s %w: write \"%s://HOST:PORT\"", document.Quote(s), err, scheme)
				return "", false
			}
			return s, true
		}
		v.Fail(`%s is not an address of journald or syslog: write a path such as "/dev/log", or for syslog "udp://HOST:PORT" or "tcp://HOST:PORT"`, document.Quote(s))
		return "", false
	},
}
