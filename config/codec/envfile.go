package codec

import (
	"encoding/json"
	"strconv"
	"strings"
)

// An EnvFile is a file of environment variables.
type EnvFile struct {
	Path     string // absolute
	Optional bool   // it need not exist
}

// EnvFiles are the env files of a program. A later one overrides an earlier one.
type EnvFiles []EnvFile

// optionalMark before a path makes the file optional, as in systemd.
const optionalMark = "-"

// EnvFileList reads a path or an array of paths.
var EnvFileList = Codec[EnvFiles]{
	Name:   "path, or array of paths",
	Schema: func() *Schema { return &Schema{Type: stringOrArray, MinLength: 1, Items: plain()} },
	Show: func(files EnvFiles) string {
		switch len(files) {
		case 0:
			return ""
		case 1:
			return envFile.Show(files[0])
		}
		return envFilePaths.Show(files)
	},
	Read: func(v Value) (EnvFiles, bool) {
		switch v.Raw.(type) {
		case string:
			file, ok := envFile.Read(v)
			return EnvFiles{file}, ok
		case []any:
			return envFilePaths.Read(v)
		}
		v.Fail("must be a path or an array of paths, got %s", v.Describe())
		return nil, false
	},
}

var envFilePaths = List("array of paths", envFile)

var envFile = Codec[EnvFile]{
	Name:   "path",
	Schema: plain,
	Show: func(file EnvFile) string {
		if file.Optional {
			return strconv.Quote(optionalMark + file.Path)
		}
		return strconv.Quote(file.Path)
	},
	Read: func(v Value) (EnvFile, bool) {
		s, ok := Word.Read(v)
		if !ok {
			return EnvFile{}, false
		}
		path, optional := strings.CutPrefix(s, optionalMark)
		if path == "" {
			v.Fail(`names no file: write "-/path/to/file" for a file that need not exist`)
			return EnvFile{}, false
		}
		return EnvFile{Path: v.Path(path), Optional: optional}, true
	},
}

// MarshalJSON returns the path of a single file that must exist as a string: journals of format 1
// have that.
func (f EnvFiles) MarshalJSON() ([]byte, error) {
	switch {
	case len(f) == 0:
		return json.Marshal("")
	case len(f) == 1 && f[0].Path != "" && !f[0].Optional:
		return json.Marshal(f[0].Path)
	}
	return json.Marshal([]EnvFile(f))
}

// UnmarshalJSON reads what MarshalJSON returns.
func (f *EnvFiles) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '"' {
		return json.Unmarshal(text, (*[]EnvFile)(f))
	}
	var path string
	if err := json.Unmarshal(text, &path); err != nil {
		return err
	}
	if *f = nil; path != "" {
		*f = EnvFiles{{Path: path}}
	}
	return nil
}
