package listener

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A protocol is the state of the dialogue with a listener, which writes READY, gets an event, and
// writes a RESULT.
//
// Source: supervisord.org/events.html.
type protocol struct {
	phase  phase
	text   []byte // what the listener has written and is not read yet
	length int    // of the result in bytes; -1: its line is not read yet
}

// A phase says what the listener has to write next.
type phase int

const (
	acknowledged phase = iota // READY
	ready                     // nothing: it waits for an event
	busy                      // RESULT
)

const (
	readyToken   = "READY\n"
	resultToken  = "RESULT "
	maxResult    = 1 << 20 // bytes
	maxTokenLine = 64      // bytes
)

// sent notes that an event was sent.
func (p *protocol) sent() { p.phase, p.length = busy, -1 }

// read returns the result of the event that was sent, if it has come; done reports that. An error
// is a violation of the protocol, after which nothing that the listener writes can be understood.
func (p *protocol) read(text []byte) (result string, done bool, err error) {
	p.text = append(p.text, text...)
	if p.phase == busy {
		if result, done, err = p.readResult(); !done || err != nil {
			return "", false, err
		}
		p.phase = acknowledged
	}
	if p.phase == acknowledged && len(p.text) > 0 {
		begun := p.text[:min(len(p.text), len(readyToken))]
		if !strings.HasPrefix(readyToken, string(begun)) {
			return "", false, fmt.Errorf("it wrote %s where READY was due", excerpt(p.text))
		}
		if len(begun) < len(readyToken) {
			return result, done, nil
		}
		p.text = p.text[len(readyToken):]
		p.phase = ready
	}
	if p.phase == ready && len(p.text) > 0 {
		return "", false, fmt.Errorf("it wrote %s before it got an event", excerpt(p.text))
	}
	return result, done, nil
}

func (p *protocol) readResult() (result string, done bool, err error) {
	if p.length < 0 {
		line, rest, ended := bytes.Cut(p.text, []byte("\n"))
		if !ended && len(line) < maxTokenLine {
			return "", false, nil
		}
		number, isResult := strings.CutPrefix(string(line), resultToken)
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if !ended || !isResult || err != nil || n < 0 || n > maxResult {
			return "", false, fmt.Errorf("it wrote %s where RESULT and a length were due", excerpt(line))
		}
		p.text, p.length = rest, n
	}
	if len(p.text) < p.length {
		return "", false, nil
	}
	result = string(p.text[:p.length])
	p.text = p.text[p.length:]
	return result, true, nil
}

// excerpt returns the begin of a text for a message.
func excerpt(text []byte) string {
	const most = 40
	if len(text) > most {
		return strconv.Quote(string(text[:most])) + "…"
	}
	return strconv.Quote(string(text))
}
