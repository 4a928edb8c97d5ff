package sandbox

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
)

// A codec writes or reads a plan as arguments of the exec shim, "key=value" each. A method does
// either, so the plan is described once. It is no JSON: each start would pay for a decoder that
// knows all types.
type codec struct {
	reading bool
	fields  []string
	failed  bool // while reading: all else is zero
}

var errNotPlan = errors.New("not the plan of a sandbox")

// Fields returns the plan in the form that [ReadPlan] reads.
func (p *Plan) Fields() []string {
	c := new(codec)
	p.code(c)
	return c.fields
}

// ReadPlan returns the plan that has these fields. One of another build of superd is an error.
func ReadPlan(fields []string) (*Plan, error) {
	c := &codec{reading: true, fields: fields}
	p := new(Plan)
	p.code(c)
	if c.failed || len(c.fields) > 0 {
		return nil, errNotPlan
	}
	return p, nil
}

func (p *Plan) code(c *codec) {
	c.flag("best_effort", &p.BestEffort)
	optional(c, "user_namespace", &p.UserNamespace, func(ids *IDs) {
		c.number("uid", &ids.UID)
		c.number("gid", &ids.GID)
	})
	c.flag("network", &p.Network)
	c.flag("mounts", &p.Mounts)
	c.text("root", &p.Root)
	list(c, "paths", &p.Paths, func(path *Path) {
		c.text("path", &path.Path)
		c.text("key", &path.Key)
		c.text("view", (*string)(&path.View))
		c.text("source", &path.Source)
		c.flag("optional", &path.Optional)
	})
	optional(c, "user", &p.User, func(user *int) { c.number("uid", user) })
	optional(c, "bounding", &p.Bounding, func(set *CapSet) { c.bits("set", (*uint64)(set)) })
	c.bits("ambient", (*uint64)(&p.Ambient))
	optional(c, "no_new_privs", &p.NoNewPrivs, func(set *bool) { c.flag("set", set) })
	optional(c, "landlock", &p.Landlock, func(r *Rules) { r.code(c) })
	c.program("filter", &p.Filter)
	list(c, "filter_keys", &p.FilterKeys, func(key *string) { c.text("key", key) })
}

func (r *Rules) code(c *codec) {
	beneath := func(b *Beneath) {
		c.text("path", &b.Path)
		c.flag("optional", &b.Optional)
	}
	list(c, "read", &r.Read, beneath)
	list(c, "write", &r.Write, beneath)
	list(c, "execute", &r.Execute, beneath)
	port := func(port *int) { c.number("port", port) }
	list(c, "bind_tcp", &r.BindTCP, port)
	list(c, "connect_tcp", &r.ConnectTCP, port)
}

// text codes a value as it is.
func (c *codec) text(key string, value *string) {
	if !c.reading {
		c.fields = append(c.fields, key+"="+*value)
		return
	}
	if len(c.fields) > 0 {
		name, rest, ok := strings.Cut(c.fields[0], "=")
		c.fields = c.fields[1:]
		if ok && name == key {
			*value = rest
			return
		}
	}
	c.fields, c.failed = nil, true
}

// number codes a number; while reading, one that is none is 0.
func (c *codec) number(key string, n *int) {
	text := strconv.Itoa(*n)
	c.text(key, &text)
	if c.reading {
		var err error
		*n, err = strconv.Atoi(text)
		c.failed = c.failed || err != nil
	}
}

func (c *codec) flag(key string, is *bool) {
	n := 0
	if *is {
		n = 1
	}
	c.number(key, &n)
	*is = n == 1
}

func (c *codec) bits(key string, bits *uint64) {
	text := strconv.FormatUint(*bits, 16)
	c.text(key, &text)
	if c.reading {
		var err error
		*bits, err = strconv.ParseUint(text, 16, 64)
		c.failed = c.failed || err != nil
	}
}

// program codes the instructions of a filter as one field. That there is none is kept.
func (c *codec) program(key string, program *[]Instruction) {
	const none = "none"
	text := none
	if *program != nil {
		words := make([]string, len(*program))
		for i, in := range *program {
			words[i] = strconv.FormatUint(in.bits(), 16)
		}
		text = strings.Join(words, ",")
	}
	c.text(key, &text)
	if !c.reading || text == none {
		return
	}
	*program = make([]Instruction, 0, 1+strings.Count(text, ","))
	for text != "" {
		var word string
		word, text, _ = strings.Cut(text, ",")
		bits, err := strconv.ParseUint(word, 16, 64)
		c.failed = c.failed || err != nil
		*program = append(*program, instruction(bits))
	}
}

// optional codes a value that may be missing.
func optional[T any](c *codec, key string, value **T, code func(*T)) {
	there := *value != nil
	c.flag(key, &there)
	if !there {
		return
	}
	if c.reading {
		*value = new(T)
	}
	code(*value)
}

// list codes a list. That it is nil is kept.
func list[T any](c *codec, key string, values *[]T, code func(*T)) {
	n := len(*values)
	if *values == nil {
		n = -1
	}
	c.number(key, &n)
	if c.reading && n >= 0 {
		c.failed = c.failed || n > len(c.fields) // an element has a field or more
		*values = make([]T, min(n, len(c.fields)))
	}
	for i := range *values {
		code(&(*values)[i])
	}
}

// end ends each part of a failure in a report. Nothing in it has a NUL.
const end = "\x00"

// Report returns the failure in the form that [ReadFailure] reads.
func (f *Failure) Report() string {
	return f.Key + end + f.Object + end + strconv.Itoa(int(f.Errno)) + end + string(f.Rights) + end +
		strconv.FormatBool(f.OpenRefused) + end
}

// ReadFailure returns the failure that a report begins with, and the rest of it.
func ReadFailure(report string) (f Failure, rest string, ok bool) {
	const count = 5
	parts := strings.SplitN(report, end, count+1)
	if len(parts) <= count {
		return Failure{}, "", false
	}
	errno, err := strconv.Atoi(parts[2])
	f = Failure{
		Key: parts[0], Object: parts[1], Errno: syscall.Errno(errno), Rights: Rights(parts[3]),
		OpenRefused: parts[4] == strconv.FormatBool(true),
	}
	return f, parts[count], err == nil
}
