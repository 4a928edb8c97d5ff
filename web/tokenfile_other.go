//go:build !linux

package web

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

func readToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	return string(text), err
}

func createToken(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return errTokenExists
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
