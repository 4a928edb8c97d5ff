package document

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"superd/internal/safepath"
)

// variableName matches the names of files that are variables.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// readEnvDirectory returns the files of a directory as the text of an env file: the name of each is
// that of a variable, its content without a newline at the end is the value. Names that begin with
// a dot are skipped.
//
// Source: man 1 s6-envdir and man 8 envdir, which have more rules; mounts of secrets in containers.
func readEnvDirectory(path string) (string, error) {
	names, err := safepath.List(path)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		if !variableName.MatchString(name) {
			return "", fmt.Errorf("the file %q of the directory can't be a variable: "+
				"rename it, or begin its name with a dot", name)
		}
		content, err := safepath.ReadFile(filepath.Join(path, name), maxFileBytes)
		if err != nil {
			return "", err
		}
		value := strings.TrimSuffix(string(content), "\n")
		if strings.ContainsRune(value, 0) {
			return "", fmt.Errorf("the file %q of the directory has a NUL byte, which no variable can have", name)
		}
		fmt.Fprintf(&text, "%s='%s'\n", name, strings.ReplaceAll(value, "'", `'"'"'`))
		if text.Len() > maxFileBytes {
			return "", fmt.Errorf("the files of the directory are larger than %d MiB together", maxFileBytes>>20)
		}
	}
	return text.String(), nil
}
