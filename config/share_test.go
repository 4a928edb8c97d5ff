package config

import "testing"

// TestProgramsShareSettings: settings that many programs have in common are in memory once, after a
// reload, too.
func TestProgramsShareSettings(t *testing.T) {
	const defaults = "[defaults]\ncommand = 'sleep 1'\nstop_timeout = '3s'\n"
	const table = "[program.a]\n[program.b]\ncommand = 'sleep 2'\nenvironment = { B = '1' }\n[program.c]\nstop_timeout = '4s'\n"
	c := mustLoad(t, defaults+table)
	a, b, other := c.Program("a"), c.Program("b"), c.Program("c")
	if a.Settings != b.Settings {
		t.Errorf("a and b have settings of their own: %+v, %+v", *a.Settings, *b.Settings)
	}
	if other.Settings == a.Settings || a.StopTimeout == other.StopTimeout {
		t.Error("c has the settings of a, which are others")
	}
	if clone := a.Clone(); clone.Settings == a.Settings {
		t.Error("a clone has no settings of its own")
	}
	load := func(text string, before *Config) *Config {
		t.Helper()
		c, err := loadAfter("superd.toml", before, memory(map[string]string{"superd.toml": text}))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := load(defaults+table, &Config{})
	after := load(defaults+table+"[program.d]\ncommand = 'sleep 3'\nstop_timeout = '4s'\n", before)
	if after.Program("a") != before.Program("a") {
		t.Fatal("the reload has made another one of a program that means the same")
	}
	if after.Program("d").Settings != before.Program("c").Settings {
		t.Error("a program that was added has settings of its own, which are those of another")
	}
}
