// Package xmlrpc reads and writes calls and answers of XML-RPC (xmlrpc.com/spec.md).
//
// A value is a string, int, bool, float64, []byte (base64), time.Time, nil, []any (array) or
// map[string]any (struct).
package xmlrpc

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxDepth bounds how deep the values of a call may be nested.
const maxDepth = 16

// A Fault is an error as XML-RPC sends it.
type Fault struct {
	Code int
	Text string
}

func (f *Fault) Error() string { return fmt.Sprintf("fault %d: %s", f.Code, f.Text) }

// ReadCall reads a call.
func ReadCall(r io.Reader) (method string, params []any, err error) {
	d := decoder{xml.NewDecoder(r)}
	if err := d.root("methodCall"); err != nil {
		return "", nil, fmt.Errorf("read call: %w", err)
	}
	err = d.children(func(e xml.StartElement) (err error) {
		switch e.Name.Local {
		case "methodName":
			method, err = d.text()
			method = strings.TrimSpace(method)
		case "params":
			params, err = d.params()
		default:
			err = d.Skip()
		}
		return err
	})
	if err != nil {
		return "", nil, fmt.Errorf("read call: %w", err)
	}
	return method, params, nil
}

// ReadAnswer reads an answer. The error is a [*Fault] if that is the answer.
func ReadAnswer(r io.Reader) (value any, err error) {
	d := decoder{xml.NewDecoder(r)}
	if err := d.root("methodResponse"); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	var fault *Fault
	err = d.children(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "params":
			params, err := d.params()
			if err == nil && len(params) > 0 {
				value = params[0]
			}
			return err
		case "fault":
			return d.children(func(xml.StartElement) error {
				v, err := d.value(0)
				all, _ := v.(map[string]any)
				fault = new(Fault)
				fault.Code, _ = all["faultCode"].(int)
				fault.Text, _ = all["faultString"].(string)
				return err
			})
		}
		return d.Skip()
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read answer: %w", err)
	case fault != nil:
		return nil, fault
	}
	return value, nil
}

// A decoder reads XML token by token.
type decoder struct{ *xml.Decoder }

var errRoot = errors.New("not the document that was expected")

// root reads up to the first element, which must have that name.
func (d decoder) root(name string) error {
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		if e, ok := token.(xml.StartElement); ok {
			if e.Name.Local != name {
				return fmt.Errorf("%w: <%s> instead of <%s>", errRoot, e.Name.Local, name)
			}
			return nil
		}
	}
}

// children calls f for each element up to the end of the current one. f reads the element with its
// end.
func (d decoder) children(f func(xml.StartElement) error) error {
	for {
		token, err := d.Token()
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if err := f(token); err != nil {
				return err
			}
		case xml.EndElement:
			return nil
		}
	}
}

// text reads the text of the current element up to its end.
func (d decoder) text() (string, error) {
	var text strings.Builder
	for {
		token, err := d.Token()
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.CharData:
			text.Write(token)
		case xml.StartElement:
			return "", fmt.Errorf("unexpected <%s>", token.Name.Local)
		case xml.EndElement:
			return text.String(), nil
		}
	}
}

func (d decoder) params() (all []any, err error) {
	err = d.children(func(xml.StartElement) error { // <param>
		return d.children(func(xml.StartElement) error { // <value>
			v, err := d.value(0)
			all = append(all, v)
			return err
		})
	})
	return all, err
}

var errDepth = errors.New("nested too deep")

// value reads the content of <value> up to its end.
func (d decoder) value(depth int) (v any, err error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	var text strings.Builder // without an element a value is a string
	typed := false
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.CharData:
			text.Write(token)
		case xml.StartElement:
			typed = true
			if v, err = d.typed(token.Name.Local, depth); err != nil {
				return nil, fmt.Errorf("read <%s>: %w", token.Name.Local, err)
			}
		case xml.EndElement:
			if !typed {
				v = text.String()
			}
			return v, nil
		}
	}
}

var errType = errors.New("unknown type")

// typed reads the content of the element of a type up to its end.
func (d decoder) typed(kind string, depth int) (any, error) {
	switch kind {
	case "struct":
		return d.structure(depth)
	case "array":
		return d.array(depth)
	}
	text, err := d.text()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "string":
		return text, nil
	case "int", "i4", "i8":
		return strconv.Atoi(strings.TrimSpace(text))
	case "boolean":
		return strconv.ParseBool(strings.TrimSpace(text))
	case "double":
		return strconv.ParseFloat(strings.TrimSpace(text), 64)
	case "base64":
		return base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	case "dateTime.iso8601":
		return time.Parse(timeLayout, strings.TrimSpace(text))
	case "nil":
		return nil, nil
	}
	return nil, errType
}

const timeLayout = "20060102T15:04:05"

func (d decoder) structure(depth int) (any, error) {
	all := map[string]any{}
	err := d.children(func(xml.StartElement) error { // <member>
		var name string
		var v any
		err := d.children(func(e xml.StartElement) (err error) {
			if e.Name.Local == "name" {
				name, err = d.text()
			} else {
				v, err = d.value(depth + 1)
			}
			return err
		})
		all[name] = v
		return err
	})
	return all, err
}

func (d decoder) array(depth int) (any, error) {
	all := []any{}
	err := d.children(func(xml.StartElement) error { // <data>
		return d.children(func(xml.StartElement) error { // <value>
			v, err := d.value(depth + 1)
			all = append(all, v)
			return err
		})
	})
	return all, err
}

// AppendCall returns the text of a call.
func AppendCall(to []byte, method string, params ...any) []byte {
	b := bytes.NewBuffer(to)
	b.WriteString("<?xml version='1.0'?>\n<methodCall>\n<methodName>")
	writeText(b, method)
	b.WriteString("</methodName>\n<params>\n")
	for _, p := range params {
		writeParam(b, p)
	}
	b.WriteString("</params>\n</methodCall>\n")
	return b.Bytes()
}

// Answer returns the text of an answer with a value.
func Answer(value any) []byte {
	var b bytes.Buffer
	b.WriteString("<?xml version='1.0'?>\n<methodResponse>\n<params>\n")
	writeParam(&b, value)
	b.WriteString("</params>\n</methodResponse>\n")
	return b.Bytes()
}

// AnswerFault returns the text of an answer with a fault.
func AnswerFault(f *Fault) []byte {
	var b bytes.Buffer
	b.WriteString("<?xml version='1.0'?>\n<methodResponse>\n<fault>\n")
	writeValue(&b, map[string]any{"faultCode": f.Code, "faultString": f.Text})
	b.WriteString("</fault>\n</methodResponse>\n")
	return b.Bytes()
}

func writeParam(b *bytes.Buffer, value any) {
	b.WriteString("<param>\n")
	writeValue(b, value)
	b.WriteString("</param>\n")
}

// writeValue writes a value. A number beyond 32 bits becomes the nearest that XML-RPC has, as a
// time after 2038.
func writeValue(b *bytes.Buffer, value any) {
	b.WriteString("<value>")
	switch v := value.(type) {
	case nil:
		b.WriteString("<nil/>")
	case string:
		b.WriteString("<string>")
		writeText(b, v)
		b.WriteString("</string>")
	case int:
		fmt.Fprintf(b, "<int>%d</int>", min(max(v, math.MinInt32), math.MaxInt32))
	case bool:
		fmt.Fprintf(b, "<boolean>%d</boolean>", map[bool]int{true: 1}[v])
	case float64:
		fmt.Fprintf(b, "<double>%s</double>", strconv.FormatFloat(v, 'f', -1, 64))
	case []byte:
		b.WriteString("<base64>" + base64.StdEncoding.EncodeToString(v) + "</base64>")
	case time.Time:
		b.WriteString("<dateTime.iso8601>" + v.Format(timeLayout) + "</dateTime.iso8601>")
	case []any:
		b.WriteString("<array><data>\n")
		for _, e := range v {
			writeValue(b, e)
		}
		b.WriteString("</data></array>")
	case map[string]any:
		b.WriteString("<struct>\n")
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b.WriteString("<member>\n<name>")
			writeText(b, name)
			b.WriteString("</name>\n")
			writeValue(b, v[name])
			b.WriteString("</member>\n")
		}
		b.WriteString("</struct>")
	default:
		panic(fmt.Sprintf("xmlrpc: value of type %T", value))
	}
	b.WriteString("</value>\n")
}

// writeText writes text. Characters that XML does not have become U+FFFD.
func writeText(b *bytes.Buffer, text string) {
	// EscapeText writes a line feed as a reference, which is right and hard to read.
	for line := range strings.Lines(text) {
		rest, ended := strings.CutSuffix(line, "\n")
		_ = xml.EscapeText(b, []byte(rest)) // a buffer takes all
		if ended {
			b.WriteByte('\n')
		}
	}
}
