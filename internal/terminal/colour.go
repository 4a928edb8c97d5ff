package terminal

import (
	"hash/fnv"
	"slices"
)

// A Colour is the parameter of the escape sequence (SGR) for a colour; 0 is none.
type Colour uint8

// Colours with fixed meanings. A [Palette] never gives a name the colour of a failure.
const (
	NoColour Colour = 0
	Bold     Colour = 1
	Dim      Colour = 2
	Red      Colour = 31
	Green    Colour = 32
	Yellow   Colour = 33
)

// nameColours are readable on dark and light backgrounds and distinct from each other.
func nameColours() []Colour { return []Colour{36, 33, 32, 35, 94, 96, 93, 92, 95} }

// Paint returns s in colour c.
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

// A Palette assigns a colour to each name. It derives from the name, so that a program has the same
// colour in every command, unless it is taken by an earlier name while others are free.
type Palette struct {
	free  []Colour
	given map[string]Colour
}

// NewPalette returns a palette without assignments.
func NewPalette() *Palette {
	return &Palette{free: nameColours(), given: map[string]Colour{}}
}

// Colour returns the colour of name, NoColour for a nil palette.
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
	if len(p.free) == 0 {
		return all[first]
	}
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
