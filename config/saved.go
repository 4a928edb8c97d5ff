package config

import "encoding/json"

// The journal has definitions as JSON. What follows keeps the form that journals of format 1 have
// where a field of Go has another: an older superd reads it, too.

// MarshalJSON returns the path of a single file that must exist as a string.
func (f EnvFiles) MarshalJSON() ([]byte, error) {
	switch {
	case len(f) == 0:
		return json.Marshal("")
	case len(f) == 1 && f[0].Path != "" && !f[0].Optional:
		return json.Marshal(f[0].Path)
	}
	return json.Marshal([]EnvFile(f))
}

// UnmarshalJSON reads what MarshalJSON returns.
func (f *EnvFiles) UnmarshalJSON(text []byte) error {
	if len(text) == 0 || text[0] != '"' {
		return json.Unmarshal(text, (*[]EnvFile)(f))
	}
	var path string
	if err := json.Unmarshal(text, &path); err != nil {
		return err
	}
	if *f = nil; path != "" {
		*f = EnvFiles{{Path: path}}
	}
	return nil
}
