package web

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
)

//go:embed static
var embedded embed.FS

// types are the media types of embedded files, by the end of their names: those of the machine may
// be others.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png",
	".json": "application/json", ".webmanifest": "application/manifest+json",
}

// files are the embedded files, by name.
type files map[string]*file

type file struct {
	text      []byte
	mediaType string
	etag      string
}

func newFiles() files {
	all := files{}
	entries, err := embedded.ReadDir("static")
	if err != nil {
		panic(err) // embedded by the compiler
	}
	for _, e := range entries {
		text, err := fs.ReadFile(embedded, "static/"+e.Name())
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		all[e.Name()] = &file{
			text: text, mediaType: cmp.Or(types[path.Ext(e.Name())], "application/octet-stream"),
			etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`,
		}
	}
	return all
}

func (all files) index(w http.ResponseWriter, r *http.Request) { all.send(w, r, "index.html") }

func (all files) file(w http.ResponseWriter, r *http.Request) { all.send(w, r, r.PathValue("name")) }

// send sends a file, unless the browser has it. A browser always asks, since the next version of
// superd has other files of the same names.
func (all files) send(w http.ResponseWriter, r *http.Request, name string) {
	f := all[name]
	if f == nil {
		refuse(w, errNoPath(r))
		return
	}
	header := w.Header()
	header.Set("Cache-Control", "no-cache")
	header.Set("ETag", f.etag)
	if r.Header.Get("If-None-Match") == f.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", f.mediaType)
	_, _ = w.Write(f.text) // an error is that of the connection
}
