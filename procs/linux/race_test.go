//go:build race

package linux

// underRace reports that the tests run under the race detector. It takes more memory than limits of
// memory allow, also in the exec shim, which is the test binary.
const underRace = true
