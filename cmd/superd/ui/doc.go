// Package ui has the commands of superd that superd-ui carries out: those that need large libraries.
package ui
