package terminal

import (
	"hash/fnv"
	"slices"
)

// A Colour is the parameter of the sequence that sets it (SGR); 0 is none.
type Colour uint8

// Colours with a meaning of their own. A [Palette] never gives a name the colour of a failure.
const (
	NoColour Colour = 0
	Bold     Colour = 1
	Dim      Colour = 2
	Red      Colour = 31
	Green    Colour = 32
	Yellow   Colour = 33
)

// nameColours are readable on dark and on light backgrounds and can be told from one another.
func nameColours() []Colour { return []Colour{36, 33, 32, 35, 94, 96, 93, 92, 95} }

// Paint returns s in this colour.
func (c Colour) Paint(s string) string {
	if c == NoColour || s == "" {
		return s
	}
	return "\x1b[" + digits(c) + "m" + s + "\x1b[0m"
}

func digits(c Colour) string {
	if c >= 10 {
		return string([]byte{'0' + byte(c/10), '0' + byte(c%10)})
	}
	return string([]byte{'0' + byte(c)})
}

// A Palette gives each name a colour. It follows from the name, so that a program has the same colour
// in every command, unless an earlier name has it while others are free.
type Palette struct {
	free  []Colour
	given map[string]Colour
}

// NewPalette returns a palette that has given nothing yet.
func NewPalette() *Palette {
	return &Palette{free: nameColours(), given: map[string]Colour{}}
}

// Colour returns the colour of name. A nil palette is that of those who show none.
func (p *Palette) Colour(name string) Colour {
	if p == nil {
		return NoColour
	}
	if c, ok := p.given[name]; ok {
		return c
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	all := nameColours()
	first := int(h.Sum32() % uint32(len(all)))
	c := all[first]
	for i := range all {
		if next := all[(first+i)%len(all)]; slices.Contains(p.free, next) {
			c = next
			break
		}
	}
	p.free = slices.DeleteFunc(p.free, func(f Colour) bool { return f == c })
	p.given[name] = c
	return c
}
