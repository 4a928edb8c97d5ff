package docs

import (
	"flag"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var siteDir = flag.String("site", "", "the directory of the site that make docs has built")

var (
	targets = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	ids     = regexp.MustCompile(`\sid="([^"]*)"`)
)

// TestSite checks that each link of the site leads to a file of it and to an anchor there. The site
// must load nothing from elsewhere.
func TestSite(t *testing.T) {
	if *siteDir == "" {
		t.Skip("make test-docs runs this")
	}
	site := os.DirFS(*siteDir)
	anchors := map[string]map[string]bool{}
	pages := map[string]string{}
	err := fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		text, err := fs.ReadFile(site, name)
		pages[name], anchors[name] = string(text), map[string]bool{}
		for _, id := range ids.FindAllStringSubmatch(string(text), -1) {
			anchors[name][html.UnescapeString(id[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 60 {
		t.Errorf("the site has %d pages, want 60 and more", len(pages))
	}
	checked := 0
	for page, text := range pages {
		for _, m := range targets.FindAllStringSubmatch(text, -1) {
			to, err := url.Parse(html.UnescapeString(m[1]))
			switch {
			case err != nil:
				t.Errorf("%s: link %q: %v", page, m[1], err)
				continue
			case to.Scheme != "" && strings.HasPrefix(m[0], "src"):
				t.Errorf("%s loads %s", page, m[1])
				continue
			case to.Scheme != "", page == "404.html": // the address of a missing page is any
				continue
			}
			checked++
			file := page
			if to.Path != "" {
				file = path.Join(path.Dir(page), to.Path)
			}
			if info, err := fs.Stat(site, file); err != nil {
				t.Errorf("%s: link %s: there is no %s", page, m[1], file)
			} else if info.IsDir() {
				file = path.Join(file, "index.html")
			}
			if to.Fragment != "" && anchors[file] != nil && !anchors[file][to.Fragment] {
				t.Errorf("%s: link %s: %s has no anchor %q", page, m[1], file, to.Fragment)
			}
		}
	}
	t.Logf("%d pages, %d links", len(pages), checked)
}
