package read

import _ "unsafe" // for go:linkname

// Yield lets other goroutines run. Unlike [runtime.Gosched] it wakes no thread to look for
// them: it is how the runtime itself preempts a goroutine that has run for long.
//
//go:linkname Yield runtime.goyield
func Yield()
