package instance

// endInput closes the logger's input once all output of the program is written to it. It stops a
// logger that does not start again.
func endInput(in *Instance) {
	r, remaining := in.run, 1
	written := func() {
		if remaining--; remaining == 0 && in.run == r {
			in.Output.CloseInput()
		}
	}
	for _, of := range in.Env.Config.Sources(in.Program) {
		remaining++
		of.Output.Collector.Drained(written)
	}
	written()
}
