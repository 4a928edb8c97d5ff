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
