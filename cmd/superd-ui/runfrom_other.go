//go:build !linux

package main

import "github.com/spf13/cobra"

// newRunFromCommand returns a command that does nothing: programs run on Linux only.
func newRunFromCommand() *cobra.Command { return &cobra.Command{Use: "run-from", Hidden: true} }
