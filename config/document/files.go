package document

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"superd/internal/safepath"
)

// maxFileBytes bounds how much of one file is read: enough for 10,000 programs, and reading
// /dev/zero ends, too.
const maxFileBytes = 16 << 20

// Files is the source of the texts: the file system, an [Archive], or a test.
type Files struct {
	Read    reading // reads a file of TOML
	ReadEnv reading // reads an env file
	Glob    func(pattern string) ([]string, error)
	Abs     func(path string) (string, error)
}

// reading is a function that returns the text of a file.
type reading = func(path string) (string, error)

// FileSystem returns the files of this machine.
func FileSystem() Files {
	return Files{Read: readFile, ReadEnv: readEnvFile, Glob: filepath.Glob, Abs: filepath.Abs}
}

// Replacing returns files in which the one at that absolute path has another text.
func (f Files) Replacing(path, text string) Files {
	read, abs := f.Read, f.Abs
	f.Read = func(name string) (string, error) {
		if own, err := abs(name); err == nil && own == path {
			return text, nil
		}
		return read(name)
	}
	return f
}

// OnAccess returns files that call accessed with each path or pattern before they access it.
func (f Files) OnAccess(accessed func(path string)) Files {
	read, readEnv, glob := f.Read, f.ReadEnv, f.Glob
	f.Read = func(path string) (string, error) { accessed(path); return read(path) }
	f.ReadEnv = func(path string) (string, error) { accessed(path); return readEnv(path) }
	f.Glob = func(pattern string) ([]string, error) { accessed(pattern); return glob(pattern) }
	return f
}

func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", withoutPath(err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return "", withoutPath(err)
	}
	if len(data) > maxFileBytes {
		return "", fmt.Errorf("larger than %d MiB", maxFileBytes>>20)
	}
	return string(data), nil
}

// readEnvFile returns the text of an env file, or of a directory: see [readEnvDirectory]. It reads
// regular files only, and does not block.
func readEnvFile(path string) (string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		text, err := readEnvDirectory(path)
		return text, withoutPath(err)
	}
	data, err := safepath.ReadFile(path, maxFileBytes)
	return string(data), withoutPath(err)
}

// withoutPath returns the cause alone, since the place of the error already has the path.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// A Reader reads the files of one configuration, each once, and archives what it reads.
type Reader struct {
	files    Files // files that record each text in archive
	archive  *Archive
	names    []string        // names of the documents, in reading order
	opened   map[string]bool // absolute paths of the documents
	envFiles map[string]envFile

	unrecorded reading // reads an env file without the archive
}

// An envFile is the result of reading an env file.
type envFile struct {
	vars     map[string]string
	mistakes Errors
}

// NewReader returns a reader for the configuration whose main file is at path.
func NewReader(path string, files Files) *Reader {
	archive := newArchive(path, files)
	return &Reader{
		files: archive.recording(files), archive: archive,
		opened: map[string]bool{}, envFiles: map[string]envFile{}, unrecorded: files.ReadEnv,
	}
}

// Open reads a file of TOML.
func (r *Reader) Open(path string) (*Document, *KeyError) {
	r.names = append(r.names, path)
	absolute, err := r.files.Abs(path)
	if err != nil {
		return nil, &KeyError{File: path, Err: fmt.Errorf("read configuration: %w", err)}
	}
	r.opened[absolute] = true
	data, err := r.files.Read(path)
	if err != nil {
		err = fmt.Errorf("read configuration: %w: name another file, or correct this one", err)
		return nil, &KeyError{File: path, Err: err}
	}
	if strings.TrimSpace(strings.TrimPrefix(data, byteOrderMark)) == "" {
		err := errors.New("is empty: write a [program.NAME] table, or name another file")
		return nil, &KeyError{File: path, Err: err}
	}
	return parse(path, filepath.Dir(absolute), data)
}

// OpenOptional reads a regular file of TOML that need not exist. Without one it returns nil. The
// archive has the file only if it exists.
func (r *Reader) OpenOptional(path string) (*Document, *KeyError) {
	data, err := r.unrecorded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is neither a document nor a mistake
	}
	r.names = append(r.names, path)
	if data, err = r.archive.recorder(func(string) (string, error) { return data, err })(path); err != nil {
		err = fmt.Errorf("read configuration: %w: correct or remove the file", err)
		return nil, &KeyError{File: path, Err: err}
	}
	return Parse(path, data)
}

// Match returns the files that match an include pattern of a document, sorted, without those
// already opened: conf/*.toml may match the file that includes it. The error says that the pattern
// is malformed, or that a file named without wildcards does not exist.
func (r *Reader) Match(from *Document, pattern string) ([]string, error) {
	literal := !strings.ContainsAny(pattern, `*?[\`)
	// Matches are shown in the form in which the including file was named.
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(escapeGlob(filepath.Dir(from.Name)), pattern)
	}
	matches, err := r.files.Glob(pattern)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s is not a pattern: close each [, and don't end with a backslash",
			Quote(pattern))
	case len(matches) == 0 && literal:
		return nil, fmt.Errorf("there is no file %s: create it, "+
			`or write a pattern such as "conf.d/*.toml", which may match nothing`, Quote(pattern))
	}
	matches = slices.DeleteFunc(slices.Sorted(slices.Values(matches)), func(match string) bool {
		absolute, err := r.files.Abs(match)
		return err != nil || r.opened[absolute]
	})
	return matches, nil
}

// escapeGlob returns the pattern that matches only path.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// EnvFile returns the variables of an env file, or its mistakes: see [ReadEnvFile].
func (r *Reader) EnvFile(path string) (map[string]string, Errors) {
	file, ok := r.envFiles[path]
	if !ok {
		file.vars, file.mistakes = parseEnv(path, r.files.ReadEnv)
		r.envFiles[path] = file
	}
	return file.vars, file.mistakes
}

// EnvSums returns the [EnvSum] of each env file that had no mistake, by path, and [MissingSum] for
// those that do not exist.
func (r *Reader) EnvSums() map[string]uint64 {
	sums := map[string]uint64{}
	for path, file := range r.envFiles {
		switch {
		case len(file.mistakes) == 0:
			sums[path] = EnvSum(file.vars)
		case errors.Is(file.mistakes, fs.ErrNotExist):
			sums[path] = MissingSum
		}
	}
	return sums
}

// Names returns the paths of all documents, in the order they were opened.
func (r *Reader) Names() []string { return r.names }

// Archive returns the archive of what was read.
func (r *Reader) Archive() *Archive { return r.archive }
