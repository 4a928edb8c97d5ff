package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// shop is a site with something on each page.
const shop = `
[socket.http]
listen = "unix:DIR/http.sock"

[defaults]
backoff = { initial = "5s" }

[program.database]
command = ["sh", "-c", "echo 'INFO ready for connections'; exec sleep infinity"]
groups = ["backend"]
ready = { line = "ready" }

[program.cache]
command = "sleep infinity"
groups = ["backend"]

[program.shop]
command = ["sh", "-c", '''
for n in $$(seq 40); do echo "INFO  GET /items/$$n 200"; done
echo 'WARN  slow answer of the database: 812 ms'
echo 'ERROR GET /items/41 500: no such item'
exec sleep infinity''']
groups = ["frontend"]
requires = ["database", "cache"]
sockets = ["http"]
replicas = 3
health = { exec = ["true"], interval = "1s" }

[program.mailer]
command = ["sh", "-c", "echo 'ERROR cannot reach the mail server'; exit 1"]
groups = ["backend"]
requires = ["database"]

[program.report]
command = "true"
type = "oneshot"
schedule = "@daily"
requires = ["database"]

[program.importer]
command = "sleep infinity"
autostart = false
after = ["cache"]
`

// pages are the addresses of all pages, and what shows that they are complete.
var pages = []struct{ name, path, test string }{
	{"programs", "#/programs", "row-shop@1"},
	{"program", "#/program/shop@1", "log-line"},
	{"program-events", "#/program/mailer?tab=events", "panel-events"},
	{"program-runs", "#/program/mailer?tab=runs", "panel-runs"},
	{"program-processes", "#/program/shop@1?tab=processes", "panel-processes"},
	{"program-config", "#/program/shop@1?tab=config", "panel-config"},
	{"graph", "#/graph", "node-shop"},
	{"events", "#/events", "event"},
	{"sockets", "#/sockets", "socket-http"},
}

func newShop(t *testing.T) (*server, *tab) {
	t.Helper()
	s, _ := newSite(t, shop)
	s.WaitState("shop@3", "running")
	s.WaitState("mailer", "backoff")
	b := newTab(t)
	b.enter(s)
	return s, b
}

// TestAccessible: axe-core finds nothing serious in any page, in both themes.
func TestAccessible(t *testing.T) {
	axe, err := os.ReadFile(os.Getenv("AXE"))
	if err != nil {
		t.Skipf("make test-web runs this, with axe-core: %v", err)
	}
	s, b := newShop(t)
	check := func(what string) {
		t.Helper()
		run(b, chromedp.Evaluate[chromedp.Void]("void (() => {"+string(axe)+"})()"))
		var found []struct {
			ID, Impact, Help string
			Nodes            []struct{ HTML, FailureSummary string }
		}
		text := value[string](b, "axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))")
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err)
		}
		for _, v := range found {
			report := t.Logf
			if v.Impact == "serious" || v.Impact == "critical" {
				report = t.Errorf
			}
			report("%s: %s: %s (%s): %d times, first %s: %s", what, v.Impact, v.Help, v.ID, len(v.Nodes), v.Nodes[0].HTML, v.Nodes[0].FailureSummary)
		}
	}
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		for _, p := range pages {
			b.open(s.url + "/" + p.path)
			b.shows(p.test)
			check(p.name + ", " + theme)
		}
		b.open(s.url + "/#/programs")
		b.clickIn("row-shop@1", "action-stop")
		b.shows("confirm-dialog")
		check("a question, " + theme)
		b.click("cancel")
		b.click("help-open")
		check("the keys, " + theme)
		b.open("about:blank")
	}
	b.open(s.url + "/#/programs")
	b.click("logout")
	b.shows("login-form")
	check("the login")
}

// TestImages writes images of the pages that docs/web.md shows into the directory WEB_IMAGES.
func TestImages(t *testing.T) {
	dir := os.Getenv("WEB_IMAGES")
	if dir == "" {
		t.Skip("make test-web UPDATE=1 runs this")
	}
	page, err := os.ReadFile("../../docs/web.md")
	if err != nil {
		t.Fatal(err)
	}
	s, b := newShop(t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme)
		for _, p := range pages {
			name := fmt.Sprintf("web-%s-%s.png", p.name, theme)
			if !bytes.Contains(page, []byte(name)) {
				continue
			}
			b.open("about:blank")
			b.open(s.url + "/" + p.path)
			b.shows(p.test)
			b.until("the page is painted", "new Promise(done => setTimeout(() => requestAnimationFrame(() => done(true)), 500))")
			writeImage(t, filepath.Join(dir, name), run(b, chromedp.CaptureScreenshot()))
		}
	}
	// A telephone
	run(b, chromedp.EmulateViewport(390, 780))
	b.open("about:blank")
	b.open(s.url + "/#/programs")
	b.shows("row-shop@1")
	writeImage(t, filepath.Join(dir, "web-narrow-dark.png"), run(b, chromedp.CaptureScreenshot()))
}

// writeImage writes a PNG with few colours, which is small.
func writeImage(t *testing.T, path string, text []byte) {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	small := image.NewPaletted(picture.Bounds(), coloursOf(picture))
	draw.Draw(small, small.Bounds(), picture, image.Point{}, draw.Src)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(file, small); err != nil {
		t.Fatal(err)
	}
}

// coloursOf returns the most frequent colours of a picture, as many as a palette has.
func coloursOf(picture image.Image) color.Palette {
	const most = 256
	counts := map[color.RGBA]int{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			r, g, b, _ := picture.At(x, y).RGBA()
			counts[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}]++
		}
	}
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int { return counts[b] - counts[a] })
	colours := make(color.Palette, 0, most)
	for _, c := range all[:min(most, len(all))] {
		colours = append(colours, c)
	}
	return colours
}
