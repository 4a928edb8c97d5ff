package control

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// A cutter cuts text up that has the form in which superd writes JSON: keys in one order, without spaces. That takes a tenth of the time that
// encoding/json takes, which is given whatever has another form.
type cutter struct {
	text string // what is left
	odd  bool   // it has another form; then nothing that was cut counts
}

// skip passes over what comes next: keys, and what stands around them.
func (c *cutter) skip(next string) {
	rest, ok := strings.CutPrefix(c.text, next)
	c.text, c.odd = rest, c.odd || !ok
}

// has passes over next if that comes next.
func (c *cutter) has(next string) bool {
	rest, ok := strings.CutPrefix(c.text, next)
	if ok {
		c.text = rest
	}
	return ok
}

// end is called when all was cut, and reports whether it had the form.
func (c *cutter) end() bool { return !c.odd && c.text == "" }

// plain cuts a string off that is nothing but printable ASCII without an escape, or nothing.
func (c *cutter) plain() (s string, ok bool) {
	if !strings.HasPrefix(c.text, `"`) {
		return "", false
	}
	for i := 1; i < len(c.text); i++ {
		switch b := c.text[i]; {
		case b == '"':
			s, c.text = c.text[1:i], c.text[i+1:]
			return s, true
		case b < ' ' || b > '~' || b == '\\':
			return "", false
		}
	}
	return "", false
}

// string cuts a string off.
func (c *cutter) string() string {
	if s, ok := c.plain(); ok {
		return s
	}
	return c.escaped()
}

// escaped is string where there may be escapes, or anything beyond ASCII.
func (c *cutter) escaped() (s string) {
	end := 1
	for ; end < len(c.text) && c.text[end] != '"'; end++ {
		if c.text[end] == '\\' {
			end++
		}
	}
	if end >= len(c.text) || json.Unmarshal([]byte(c.text[:end+1]), &s) != nil {
		c.odd = true
		return ""
	}
	c.text = c.text[end+1:]
	return s
}

// digits cuts off a number without sign and exponent.
func (c *cutter) digits() string {
	n, dots := 0, 0
	for n < len(c.text) && (c.text[n]-'0' <= 9 || c.text[n] == '.') {
		if c.text[n] == '.' {
			dots++
		}
		n++
	}
	s := c.text[:n]
	c.text = c.text[n:]
	whole, _, _ := strings.Cut(s, ".")
	c.odd = c.odd || dots > 1 || whole == "" || len(whole) > 1 && whole[0] == '0' || s[n-1] == '.'
	return s
}

func (c *cutter) int() int { return int(c.int64()) }

func (c *cutter) int64() int64 {
	n, err := strconv.ParseInt(c.digits(), 10, 64)
	c.odd = c.odd || err != nil
	return n
}

func (c *cutter) float() float64 {
	f, err := strconv.ParseFloat(c.digits(), 64)
	c.odd = c.odd || err != nil
	return f
}

func (c *cutter) bool() bool {
	if c.has("true") {
		return true
	}
	c.skip("false")
	return false
}

func (c *cutter) time() (t time.Time) {
	s, ok := c.plain()
	c.odd = c.odd || !ok || t.UnmarshalText([]byte(s)) != nil
	return t
}

// orNull cuts off null or what cut does.
func orNull[T any](c *cutter, cut func(*cutter) T) *T {
	if c.odd || c.has("null") {
		return nil
	}
	v := cut(c)
	return &v
}

// array has each cut an element off, until the end of an array.
func (c *cutter) array(each func()) {
	c.skip("[")
	if c.has("]") {
		return
	}
	for !c.odd {
		each()
		if !c.has(",") {
			c.skip("]")
			return
		}
	}
}

// cutBrief cuts off a brief status.
func cutBrief(c *cutter) (b Brief) {
	c.skip(`{"name":`)
	b.Name = c.string()
	c.skip(`,"state":`)
	b.State = c.string()
	c.skip(`,"pid":`)
	b.Pid = orNull(c, (*cutter).int)
	c.skip("}")
	return b
}

// cutStatus cuts off a status.
func cutStatus(c *cutter) (s Status) {
	c.skip(`{"name":`)
	s.Name = c.string()
	c.skip(`,"program":`)
	s.Program = c.string()
	c.skip(`,"groups":`)
	s.Groups = []string{}
	c.array(func() { s.Groups = append(s.Groups, c.string()) })
	c.skip(`,"state":`)
	s.State = c.string()
	c.skip(`,"ready":`)
	s.Ready = c.bool()
	c.skip(`,"healthy":`)
	s.Healthy = orNull(c, (*cutter).bool)
	c.skip(`,"pid":`)
	s.Pid = orNull(c, (*cutter).int)
	c.skip(`,"since":`)
	s.Since = orNull(c, (*cutter).time)
	c.skip(`,"uptime_s":`)
	s.Uptime = orNull(c, (*cutter).float)
	c.skip(`,"restarts":`)
	s.Restarts = c.int()
	c.skip(`,"exit":`)
	s.Exit = orNull(c, cutExit)
	c.skip(`,"next_start_in_s":`)
	s.NextIn = orNull(c, (*cutter).float)
	c.skip(`,"cpu_s":`)
	s.CPU = orNull(c, (*cutter).float)
	c.skip(`,"rss_bytes":`)
	s.RSS = orNull(c, (*cutter).int64)
	c.skip(`,"log_file":`)
	s.LogFile = orNull(c, (*cutter).string)
	if c.has(`,"stderr_file":`) {
		s.Stderr = c.string()
	}
	if c.has(`,"log_sink":`) {
		s.LogSink = c.string()
	}
	c.skip(`,"last_line":`)
	s.LastLine = orNull(c, (*cutter).string)
	c.skip(`,"reason":`)
	s.Reason = orNull(c, (*cutter).string)
	c.skip(`,"status_text":`)
	s.StatusText = orNull(c, (*cutter).string)
	c.skip(`,"health_check":`)
	s.HealthCheck = orNull(c, cutHealthCheck)
	if c.has(`,"dropped_bytes":`) {
		s.DroppedBytes = c.int64()
	}
	if c.has(`,"dropped_lines":`) {
		s.DroppedLines = c.int64()
	}
	if c.has(`,"log_outage":`) {
		s.LogOutage = new(cutLogOutage(c))
	}
	c.skip("}")
	return s
}

func cutExit(c *cutter) (e Exit) {
	c.skip(`{"code":`)
	e.Code = orNull(c, (*cutter).int)
	c.skip(`,"signal":`)
	e.Signal = orNull(c, (*cutter).string)
	c.skip(`,"at":`)
	e.At = c.time()
	c.skip(`,"known":`)
	e.Known = c.bool()
	c.skip("}")
	return e
}

func cutHealthCheck(c *cutter) (h HealthCheck) {
	c.skip(`{"passed":`)
	h.Passed = orNull(c, (*cutter).bool)
	c.skip(`,"at":`)
	h.At = c.time()
	c.skip(`,"took_s":`)
	h.Took = c.float()
	c.skip(`,"reason":`)
	h.Reason = orNull(c, (*cutter).string)
	c.skip(`,"failures_in_row":`)
	h.Failures = c.int()
	c.skip("}")
	return h
}

func cutLogOutage(c *cutter) (o LogOutage) {
	c.skip(`{"since":`)
	o.Since = c.time()
	c.skip(`,"reason":`)
	o.Reason = c.string()
	c.skip(`,"drops":`)
	o.Drops = c.bool()
	c.skip("}")
	return o
}

// readArray reads the answer to a status, of which cut cuts off an element.
func readArray[T any](body string, cut func(*cutter) T) ([]T, error) {
	c := cutter{text: body}
	all := make([]T, 0, strings.Count(c.text, `{"name":`))
	c.array(func() { all = append(all, cut(&c)) })
	c.has("\n")
	if c.end() {
		return all, nil
	}
	all = nil
	err := json.Unmarshal([]byte(body), &all)
	return all, err
}
