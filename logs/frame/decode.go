package frame

import (
	"bytes"
	"encoding/json"
)

// A Decoder finds the lines in records of a log. The records that superd makes of one chunk of
// output begin with the same bytes, up to their lines, so it decodes that head once.
type Decoder struct {
	format Format
	head   []byte // of the last record; empty: none that another may have
	fields Record // of the last record; Line is not set
}

// Decode returns the fields of a record other than Line, which stay valid until the next call, and
// its line, which may be a part of record. ok is false for what is no record of the format.
func (d *Decoder) Decode(format Format, record []byte) (fields *Record, line []byte, ok bool) {
	if d.format != format {
		*d = Decoder{format: format}
	}
	if line, ok := d.Same(record); ok {
		return &d.fields, line, true
	}
	d.head = d.head[:0]
	switch format {
	case Text:
		line, d.fields.Partial, ok = TextLine(record)
		if !ok {
			return nil, nil, false
		}
		d.head = append(d.head, record[:len(record)-len(line)]...)
		d.fields.Time = string(record[:len(TimeLayout)])
		d.fields.Stream = string(bytes.TrimSuffix(d.head[len(TimeLayout)+1:len(d.head)-1], []byte{'+'}))
		return &d.fields, line, true
	case JSON:
		d.fields = Record{}
		if json.Unmarshal(record, &d.fields) != nil || len(d.fields.Time) != len(TimeLayout) {
			return nil, nil, false
		}
		line = []byte(d.fields.Line)
		d.fields.Line = ""
		if i := bytes.Index(record, beforeLine); i >= 0 {
			d.head = append(d.head, record[:i+len(beforeLine)]...)
			if same, ok := d.Same(record); !ok || !bytes.Equal(same, line) {
				d.head = d.head[:0] // another key follows its line
			}
		}
		return &d.fields, line, true
	default: // it has no records
		return nil, nil, false
	}
}

// beforeLine precedes the line in a record of the format json, afterLine follows it.
var beforeLine, afterLine = []byte(`,"line":"`), []byte(`"}`)

// Same returns the line in a record that differs from the last one in its line only. ok is false
// for any other.
func (d *Decoder) Same(record []byte) (line []byte, ok bool) {
	line, ok = bytes.CutPrefix(record, d.head)
	if !ok || len(d.head) == 0 || d.format == Text {
		return line, ok && len(d.head) > 0
	}
	if line, ok = bytes.CutSuffix(line, afterLine); !ok {
		return nil, false
	}
	if bytes.IndexByte(line, '\\') < 0 && bytes.IndexByte(line, '"') < 0 {
		return line, true
	}
	var text string
	if json.Unmarshal(record[len(d.head)-1:len(record)-1], &text) != nil {
		return nil, false
	}
	return []byte(text), true
}
