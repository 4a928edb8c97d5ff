// Package ui has the commands that superd-ui carries out for superd: those that need large
// libraries.
package ui
