//go:build !linux

package config

// thisMachine returns nil: users, files and limits of another system do not matter for the Linux
// machine that a configuration is for.
func thisMachine() *machine { return nil }
