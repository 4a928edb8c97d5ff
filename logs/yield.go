package logs

import _ "unsafe" // for go:linkname

// giveUpProcessor lets other goroutines run and goes on. Unlike [runtime.Gosched] it wakes no thread to look for some: the runtime's own way to yield
// when a goroutine has run for long.
//
//go:linkname giveUpProcessor runtime.goyield
func giveUpProcessor()
