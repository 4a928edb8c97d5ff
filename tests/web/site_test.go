package web

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"testing"
)

var siteDir = flag.String("site", "", "the directory of the site that make docs has built")

// TestSiteSearch: the search of the site of the documentation finds a key first, and the address of
// its row leads there.
func TestSiteSearch(t *testing.T) {
	if *siteDir == "" {
		t.Skip("make test-docs runs this")
	}
	server := httptest.NewServer(http.FileServer(http.Dir(*siteDir)))
	defer server.Close()
	b := newTab(t)
	b.open(server.URL + "/index.html")
	const results = `[...document.querySelectorAll('.md-search-result__link')].map(a => new URL(a.href))`
	// The key is pressed again until the script of the page listens
	b.until("the first result is the key", `(() => {
		document.getElementById('__search').checked = true;
		const input = document.querySelector('.md-search__input');
		input.focus();
		input.value = 'kill_mode';
		input.dispatchEvent(new KeyboardEvent('keyup', { key: 'e', bubbles: true }));
		return `+results+`.slice(0, 2).some(url => url.pathname == '/docs/keys.html' && url.hash == '#kill_mode');
	})()`)
	if other := value[int](b, results+`.filter(url => url.pathname == '/docs/guide.html').length`); other == 0 {
		t.Error("the search does not find the guide")
	}
	b.open(server.URL + "/docs/reference.html#program.kill_mode")
	b.until("the row of the key is in view", `(() => {
		const row = document.getElementById('program.kill_mode').getBoundingClientRect();
		return row.top >= 0 && row.top < innerHeight;
	})()`)
}
