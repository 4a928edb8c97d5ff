package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

const (
	cellWidth, cellHeight = 8.4, 18.0
	fontSize              = 14
	margin                = 14.0
	background            = "#1b1e27"
	foreground            = "#d6dae3"
)

// colours are those of SGR.
var colours = map[string]string{
	"1": "#ffffff", "2": "#8b93a5",
	"31": "#f7768e", "32": "#8fce6a", "33": "#e2b55a", "34": "#7aa2f7", "35": "#bb9af7", "36": "#6fc6dd",
	"91": "#ff9eb0", "92": "#b5e890", "93": "#f5d78e", "94": "#a3c0ff", "95": "#d6bcff", "96": "#a5e3f2",
}

// draw writes a picture of a recording.
//
// Each span is drawn once, and an animation makes it visible at its time. What was typed is below a
// cover, which moves to the right as the keys came. Another animation scrolls all of it.
func draw(w io.Writer, c *cast, s *screen) {
	width, height := float64(c.Width)*cellWidth, float64(c.Height)*cellHeight
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" role="img">`+"\n",
		number(width+2*margin), number(height+2*margin))
	fmt.Fprintf(w, "<title>%s</title>\n", escape(c.Title))

	a := animations{total: c.end}
	var body strings.Builder
	group := ""
	for i := range s.spans {
		sp := &s.spans[i]
		if name := a.appear(sp.at); name != group {
			if group != "" {
				body.WriteString("</g>\n")
			}
			fmt.Fprintf(&body, "<g class=\"t %s\">", name)
			group = name
		}
		x, y := margin+float64(sp.column)*cellWidth, margin+float64(sp.row)*cellHeight
		if text := strings.TrimRight(sp.text, " "); text != "" {
			lead := len(text) - len(strings.TrimLeft(text, " "))
			text = text[lead:]
			look := ""
			if colour := colours[sp.style]; colour != "" {
				look = fmt.Sprintf(` fill=%q`, colour)
			} else if sp.typedUntil > 0 {
				look = ` font-weight="bold"`
			}
			fmt.Fprintf(&body, `<text x="%s" y="%s" textLength="%s"%s>%s</text>`,
				number(x+float64(lead)*cellWidth), number(y+fontSize),
				number(float64(len([]rune(text)))*cellWidth), look, escape(text))
		}
		if sp.typedUntil > sp.at {
			fmt.Fprintf(&body, `<path class="c %s" d="M%s %sh%sv%sh-%sz"/>`, a.typed(sp),
				number(x), number(y), number(width-float64(sp.column)*cellWidth), number(cellHeight),
				number(width-float64(sp.column)*cellWidth))
		}
	}
	body.WriteString("</g>\n")

	fmt.Fprintf(w, "<style>\n"+
		"text{font-size:%dpx;font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,\"DejaVu Sans Mono\",monospace;white-space:pre}\n"+
		".t,.c,.s{animation:%ss step-end infinite}\n"+
		".c{fill:%s;visibility:hidden}\n", fontSize, number(c.end), background)
	last := s.scrolls[len(s.scrolls)-1].top
	fmt.Fprintf(w, ".s{animation-name:s;transform:translateY(-%spx)}\n@keyframes s{", number(float64(last)*cellHeight))
	for _, sc := range s.scrolls {
		fmt.Fprintf(w, "%s{transform:translateY(-%spx)}", a.percent(sc.at), number(float64(sc.top)*cellHeight))
	}
	fmt.Fprintf(w, "}\n%s@media(prefers-reduced-motion:reduce){.t,.c,.s{animation:none}}\n</style>\n", a.rules.String())

	fmt.Fprintf(w, `<rect width="100%%" height="100%%" rx="8" fill="%s"/>`+"\n", background)
	fmt.Fprintf(w, `<svg x="0" y="%s" width="%s" height="%s" viewBox="0 %s %s %s">`+"\n"+
		`<g class="s" fill="%s">`+"\n%s</g></svg>\n</svg>\n",
		number(margin), number(width+2*margin), number(height), number(margin), number(width+2*margin), number(height), foreground, body.String())
}

// animations are the rules by which things come.
type animations struct {
	total float64
	rules strings.Builder
	names map[string]bool
}

// appear returns the class of what comes at a time and stays.
func (a *animations) appear(at float64) string {
	name := "a" + strings.ReplaceAll(fmt.Sprintf("%.3f", at), ".", "_")
	if !a.names[name] {
		if a.names == nil {
			a.names = map[string]bool{}
		}
		a.names[name] = true
		if at == 0 {
			return name
		}
		fmt.Fprintf(&a.rules, ".%s{animation-name:%s}@keyframes %s{0%%{visibility:hidden}%s{visibility:visible}}\n",
			name, name, name, a.percent(at))
	}
	return name
}

// typed returns the class of the cover of what was typed.
func (a *animations) typed(sp *span) string {
	name := "k" + strings.ReplaceAll(fmt.Sprintf("%.3f", sp.at), ".", "_")
	n := sp.width()
	fmt.Fprintf(&a.rules, ".%s{animation-name:%s}@keyframes %s{0%%{visibility:hidden}%s{visibility:visible;transform:translateX(%spx);"+
		"animation-timing-function:steps(%d,end)}%s{visibility:hidden;transform:translateX(%spx)}}\n",
		name, name, name, a.percent(sp.at), number(cellWidth), max(n-1, 1), a.percent(sp.typedUntil), number(float64(n)*cellWidth))
	return name
}

func (a *animations) percent(at float64) string { return number(at/a.total*100) + "%" }

// number writes a number without what does not matter.
func number(x float64) string {
	text := strings.TrimRight(fmt.Sprintf("%.3f", x), "0")
	return strings.TrimSuffix(text, ".")
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes all
	return b.String()
}
