package config

import (
	"fmt"
	"strconv"

	"superd/config/codec"
)

// programRef reads the name of another program; its existence is checked when all programs are
// known.
var programRef = codec.Text("string", "the name of a program", func(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf(`is empty: write the name of a program`)
	}
	return s, nil
}, strconv.Quote)

var groupName = codec.Text("string", "the name of a group", func(s string) (string, error) { return s, checkName("group", s) }, strconv.Quote)

// compression reads false, true or the name of a compression.
var compression = codec.Codec[Compression]{
	Name:   `boolean, "gzip" or "zstd"`,
	Schema: func() *codec.Schema { return &codec.Schema{Enum: []any{false, true, "gzip", "zstd"}} },
	Show: func(c Compression) string {
		if c == CompressNot {
			return "false"
		}
		return strconv.Quote(string(c))
	},
	Read: func(v codec.Value) (Compression, bool) {
		switch v.Raw {
		case false:
			return CompressNot, true
		case true, string(CompressGzip):
			return CompressGzip, true
		case string(CompressZstd):
			return CompressZstd, true
		}
		v.Fail(`must be false, true, "gzip" or "zstd", got %s`, v.Describe())
		return "", false
	},
}
