//go:build !crashpoints

// Package crashpoint names the instants at which tests kill superd.
//
// In a binary built with the tag crashpoints a process that passes one may end itself by SIGKILL there, as the
// environment says:
//
//	SUPERD_CRASHPOINT       NAME:N: the N-th passage of NAME, counted from 1; NAME* stands for all that begin so
//	SUPERD_CRASHPOINT_ROLE  only in a process of this role, see SetRole
//	SUPERD_CRASHPOINT_ONCE  only if this file does not exist; it is made first
//
// In any other binary the functions do nothing, and calls of them are compiled to nothing.
package crashpoint

// Here is the crashpoint of that name.
func Here(name string) {}

// SetRole tells which of superd's processes this is: keeper or supervisor.
func SetRole(role string) {}
