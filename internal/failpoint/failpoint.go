//go:build !failpoints

// Package failpoint names the points in the code at which tests kill superd.
//
// In a binary built with the tag failpoints a process may kill itself by SIGKILL at such a point,
// as the environment requests:
//
//	SUPERD_FAILPOINT       NAME:N: the N-th passage of NAME, counted from 1; NAME* is a prefix
//	SUPERD_FAILPOINT_ROLE  only in a process of this role, see SetRole
//	SUPERD_FAILPOINT_ONCE  only if this file does not exist; it is created first
//
// In any other binary the functions do nothing, and calls are compiled to nothing.
package failpoint

// Here marks the failpoint with that name.
func Here(name string) {}

// SetRole sets the role of this process: keeper or supervisor.
func SetRole(role string) {}
