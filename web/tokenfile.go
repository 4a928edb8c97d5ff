package web

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

const (
	minTokenBytes = 16
	maxTokenBytes = 4096 // of the file
)

// errTokenExists is returned by createToken if another process has made the file meanwhile.
var errTokenExists = errors.New("the file exists")

// LoadToken returns the token in the file at path. If there is no file, it makes one with a random
// token, which only its owner may read, and returns true.
func LoadToken(path string) (token string, created bool, err error) {
	const tries = 3 // others may create and remove it
	for range tries {
		token, err = readToken(path)
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
		token = rand.Text() // 26 characters, 130 bits
		if err = createToken(path, token+"\n"); err == nil {
			return token, true, nil
		}
		if !errors.Is(err, errTokenExists) {
			break
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("read token: %w", err)
	}
	token = strings.TrimSpace(token)
	if len(token) < minTokenBytes || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", false, fmt.Errorf("read token: %s must hold one word of at least %d characters: remove it to have one made", path, minTokenBytes)
	}
	return token, false, nil
}
