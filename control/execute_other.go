//go:build !linux

package control

import (
	"context"
	"errors"
)

func (c *Client) execute(context.Context, string, Command) (Exit, error) {
	return Exit{}, errors.New("execute command: on Linux only")
}
