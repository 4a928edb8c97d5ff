// Package develop has the commands for development: up, down, ls and init. They run the programs of
// a project, such as those of a Procfile, with a superd of its own for each project.
package develop
