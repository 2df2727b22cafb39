package httpapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"carillon.dev/carillon/bucketer/httpapi/console"
)

// docsFiles are the page that shows the OpenAPI document. docs/swagger-ui has files of the npm package
// swagger-ui-dist 5.35.0, as they are (`npm pack swagger-ui-dist@5.35.0`), with its licence.
//
//go:embed docs
var docsFiles embed.FS

// What browsers let the pages do: nothing but to load their own files and to ask this node. No
// script and no style stands in a page itself.
const (
	consolePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
	docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

// indexFile is the page itself, among its files.
const indexFile = "index.html"

// sites are the pages that a node serves, each at a path and its files below another.
var sites = []struct {
	at, below string
	policy    string
	files     func() (map[string]*asset, error)
}{
	{"/console/", "/console/", consolePolicy, sync.OnceValues(func() (map[string]*asset, error) { return loadAssets(console.Files()) })},
	{"/docs", "/docs/", docsPolicy, sync.OnceValues(func() (map[string]*asset, error) {
		files, err := fs.Sub(docsFiles, "docs")
		if err != nil {
			return nil, err
		}
		return loadAssets(files)
	})},
}

// detours lead to the pages. They are relative, so that they also lead there behind a proxy that
// gives the node a path below its own.
var detours = map[string]string{"/": "console/", "/console": "console/", "/docs/": "../docs"}

// pages are what browsers are shown, by path: the files of the sites, and detours to them.
var pages = sync.OnceValues(func() (map[string]http.HandlerFunc, error) {
	all := make(map[string]http.HandlerFunc)
	for _, site := range sites {
		files, err := site.files()
		if err == nil && files[indexFile] == nil {
			err = errors.New("it has no " + indexFile)
		}
		if err != nil {
			return nil, fmt.Errorf("read the page %s: %w", site.at, err)
		}
		for name, file := range files {
			at := site.below + name
			if name == indexFile {
				at = site.at
			}
			all[at] = func(w http.ResponseWriter, r *http.Request) { file.serve(w, r, site.policy) }
		}
	}
	for from, to := range detours {
		all[from] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to) // http.Redirect would make it absolute
			w.Header().Set("Cache-Control", "no-cache")
			w.WriteHeader(http.StatusFound)
		}
	}
	return all, nil
})

// pages registers the pages for browsers.
func (s systemRoutes) pages() error {
	all, err := pages()
	for at, page := range all {
		s.engine.GET(at, gin.WrapF(page))
		s.engine.HEAD(at, gin.WrapF(page))
	}
	return err
}

// ServePage answers a request for a page for browsers, and reports whether it is one. Pages need nothing
// of a node: so they are there while it starts, and say what it waits for.
func ServePage(w http.ResponseWriter, r *http.Request) bool {
	all, err := pages()
	page := all[r.URL.Path]
	if err != nil || page == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	page(w, r)
	return true
}

// asset is a file of a page, as it is served.
type asset struct {
	media  string
	tag    string // the hash of the text
	text   []byte
	zipped func() []byte // the text as gzip; nil if it is not worth it
}

// leastZipped is the size from which on an asset is worth compressing, in bytes.
const leastZipped = 1024

// mediaTypes are those of assets, by the ending of their names. What the machine knows of media
// types does not matter, so they are the same everywhere.
var mediaTypes = map[string]string{
	"": "text/plain; charset=utf-8", ".txt": "text/plain; charset=utf-8", ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".json": "application/json", ".webmanifest": "application/manifest+json",
	".svg": "image/svg+xml", ".png": "image/png", ".ico": "image/x-icon", ".woff2": "font/woff2",
}

// loadAssets reads files, by their paths.
func loadAssets(files fs.FS) (map[string]*asset, error) {
	all := make(map[string]*asset)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		media, ok := mediaTypes[path.Ext(name)]
		if !ok {
			return fmt.Errorf("%s: no media type is known of such a file", name)
		}
		all[name] = newAsset(media, text)
		return nil
	})
	return all, err
}

func newAsset(media string, text []byte) *asset {
	sum := sha256.Sum256(text)
	a := &asset{media: media, tag: base64.RawURLEncoding.EncodeToString(sum[:16]), text: text}
	packed := strings.HasPrefix(media, "image/") && media != mediaTypes[".svg"] || strings.HasPrefix(media, "font/")
	if len(text) >= leastZipped && !packed {
		a.zipped = sync.OnceValue(func() []byte { return zip(text) })
	}
	return a
}

func zip(text []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(text) // a buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// serve answers with the asset, or that it is as the caller has it.
func (a *asset) serve(w http.ResponseWriter, r *http.Request, policy string) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-cache") // it is asked for each time, and mostly answered 304
	h.Set("Content-Type", a.media)
	text, tag := a.text, a.tag
	if a.zipped != nil {
		h.Set("Vary", "Accept-Encoding")
		if takesGzip(r.Header.Get("Accept-Encoding")) {
			h.Set("Content-Encoding", "gzip")
			text, tag = a.zipped(), tag+"-gzip"
		}
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}

// takesGzip reports whether a caller that sent this Accept-Encoding takes gzip.
func takesGzip(accepted string) bool {
	for coding := range strings.SplitSeq(accepted, ",") {
		name, quality, _ := strings.Cut(coding, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, err := strconv.ParseFloat(strings.TrimPrefix(strings.TrimSpace(quality), "q="), 64)
			return err != nil || q > 0
		}
	}
	return false
}
