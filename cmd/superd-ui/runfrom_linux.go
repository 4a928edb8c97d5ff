package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"superd/importer"
)

// newRunFromCommand returns the command by which `superd run --from` imports a file. Its arguments
// are FROM, the path of superd, and further arguments of `superd run`. superd replaces this
// process, so that it has the pid, the terminal and the descriptors that it was started with.
func newRunFromCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "run-from FROM SUPERD [ARGUMENT...]",
		Hidden: true,
		Args:   cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var names []string
			if format, path, ok := strings.Cut(args[0], ":"); ok && isFormat(format) {
				names = []string{format, path}
			} else {
				names = []string{args[0]}
			}
			format, path, err := source(names)
			if err != nil {
				return usageError{fmt.Errorf("read --from: %w", err)}
			}
			file, err := imported(path)
			if err != nil {
				return err
			}
			doc, err := importer.Import(format, path, filepath.Dir(file))
			if err != nil {
				return usageError{err}
			}
			if err := replace(file, doc.TOML()); err != nil {
				return fmt.Errorf("write the configuration: %w", err)
			}
			printNotes(cmd.ErrOrStderr(), doc)
			fmt.Fprintf(cmd.ErrOrStderr(), "superd: %s is imported as %s; a reload reads that file\n", path, file)
			argv := append([]string{"superd", "run", "--config", file}, args[2:]...)
			return fmt.Errorf("execute %s: %w", args[1], unix.Exec(args[1], argv, os.Environ()))
		},
	}
}

func isFormat(name string) bool {
	_, err := importer.Find(name)
	return err == nil
}

// imported returns the path of the configuration for a file that is imported: always the same one,
// since the keeper, an upgrade and a reload read it again.
func imported(path string) (string, error) {
	dir := "/var/cache/superd"
	switch given := os.Getenv("CACHE_DIRECTORY"); { // of a service of systemd
	case given != "":
		dir, _, _ = strings.Cut(given, ":") // it may be several
	case os.Geteuid() != 0:
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a place for the configuration: %w; `superd import -o FILE` writes one", err)
		}
		dir = filepath.Join(cache, "superd")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("find a place for the configuration: %w; `superd import -o FILE` writes one", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(abs))
	return filepath.Join(dir, filepath.Base(abs)+"-"+hex.EncodeToString(sum[:4])+".toml"), nil
}

// replace writes a file at once, so that no reader sees a part of it.
func replace(path, text string) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".import-*")
	if err != nil {
		return err
	}
	_, err = temporary.WriteString(text)
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name()) // the first error counts
	}
	return err
}
