package web

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"superd/internal/safepath"
)

const (
	tokenMode    = 0o600
	tokenDirMode = 0o700
	mayOthers    = 0o077
)

// readToken returns the content of a token file. It must be one that nobody else can have read or
// made.
func readToken(path string) (text string, err error) {
	f, err := safepath.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	file := os.NewFile(uintptr(f.FD), path)
	defer file.Close()
	switch me := uint32(os.Geteuid()); { //nolint:gosec // not negative on Linux
	case !f.Info.Mode.IsRegular():
		return "", fmt.Errorf("%s is not a regular file: name another one", path)
	case f.Info.UID != me && f.Info.UID != 0:
		return "", fmt.Errorf("%s belongs to user %d, who knows the token: remove it, or name another file", path, f.Info.UID)
	case f.Info.Mode.Perm()&mayOthers != 0:
		return "", fmt.Errorf("others may read or change %s, whose mode is %#o: remove it to have a new token made, or `chmod 600` it if nobody has read it",
			path, f.Info.Mode.Perm())
	case f.Info.Size > maxTokenBytes:
		return "", fmt.Errorf("%s has more than %d bytes: name another file", path, maxTokenBytes)
	}
	all, err := io.ReadAll(io.LimitReader(file, maxTokenBytes))
	return string(all), err
}

// createToken makes a token file. It appears with its whole content, or not at all.
func createToken(path, text string) error {
	made, err := safepath.MakeDir(filepath.Dir(path), tokenDirMode)
	if err != nil {
		return err
	}
	made.Close()
	dir, name, err := safepath.Locate(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	temporary := ".superd-web-" + rand.Text()
	f, err := dir.Open(temporary, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, tokenMode)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(f.FD), path)
	_, err = file.WriteString(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = dir.RenameNew(temporary, name)
	}
	if err != nil {
		_ = dir.Remove(temporary) // the error above counts
	}
	if errors.Is(err, fs.ErrExist) {
		return errTokenExists
	}
	return err
}
