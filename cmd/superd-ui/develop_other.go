//go:build !linux

package main

import "github.com/spf13/cobra"

// developCommands returns none: programs run on Linux only.
func developCommands() []*cobra.Command { return nil }
