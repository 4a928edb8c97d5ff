package logs

import _ "unsafe" // for go:linkname

// yieldProcessor lets other goroutines run. Unlike [runtime.Gosched] it wakes no thread to look for
// them: it is how the runtime itself preempts a goroutine that has run for long.
//
//go:linkname yieldProcessor runtime.goyield
func yieldProcessor()
