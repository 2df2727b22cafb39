package httpapi

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"carillon.dev/carillon/bucketer/httpapi/console"
)

// Every file of every page is served as the browser must get it, and nothing else is.
func TestPagesAreServed(t *testing.T) {
	hs := serve(t, newStub())
	for _, site := range sites {
		files, err := site.files()
		if err != nil {
			t.Fatal(err)
		}
		for name, file := range files {
			path := site.below + name
			if name == indexFile {
				path = site.at
			}
			for _, coding := range []string{"identity", "gzip"} {
				made := call{method: "GET", path: path, header: http.Header{"Accept-Encoding": {coding}}}
				status, header, text := do(t, hs, made)
				if header.Get("Content-Encoding") == "gzip" {
					if coding != "gzip" {
						t.Errorf("GET %s without gzip is answered with it", path)
					}
					text = unzipped(t, text)
				} else if coding == "gzip" && file.zipped != nil {
					t.Errorf("GET %s, %d bytes, with gzip is answered without", path, len(text))
				}
				if status != 200 || !bytes.Equal(text, file.text) {
					t.Errorf("GET %s (%s) = %d, %d bytes; want the file", path, coding, status, len(text))
				}
				for name, want := range map[string]string{
					"Content-Type": file.media, "Content-Security-Policy": site.policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
					"Cache-Control": "no-cache",
				} {
					if got := header.Get(name); got != want {
						t.Errorf("GET %s: %s is %q, want %q", path, name, got, want)
					}
				}
				tag := header.Get("ETag")
				made.header.Set("If-None-Match", tag)
				if status, header, text := do(t, hs, made); status != 304 || len(text) != 0 || header.Get("ETag") != tag {
					t.Errorf("GET %s again (%s) = %d, %d bytes; want 304", path, coding, status, len(text))
				}
				made.header.Set("If-None-Match", `"another"`)
				if status, _, _ := do(t, hs, made); status != 200 {
					t.Errorf("GET %s with another tag = %d, want 200", path, status)
				}
				made.method = "HEAD"
				if status, header, text := do(t, hs, made); status != 200 || len(text) != 0 || header.Get("Content-Type") != file.media {
					t.Errorf("HEAD %s (%s) = %d, %s, %d bytes; want 200, %s and none", path, coding, status, header.Get("Content-Type"), len(text), file.media)
				}
			}
		}
		doProblem(t, hs, call{method: "GET", path: site.below + "none.js"}, 404)
		doProblem(t, hs, call{method: "GET", path: site.below + indexFile}, 404)
		doProblem(t, hs, call{method: "GET", path: site.below + "..%2fconsole.go"}, 404)
		doProblem(t, hs, call{method: "POST", path: site.at}, 405)
	}
}

// What the page of the console loads at first is small, and stands beside it: it asks for nothing of another
// host, and knows no path.
func TestTheConsoleIsSmallAndStandsAlone(t *testing.T) {
	const most = 120_000 // bytes of scripts, zipped
	page, err := fs.ReadFile(console.Files(), indexFile)
	if err != nil {
		t.Fatal(err)
	}
	zipped := 0
	for _, found := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllSubmatch(page, -1) {
		name, beside := strings.CutPrefix(string(found[1]), "./")
		text, err := fs.ReadFile(console.Files(), name)
		if !beside || err != nil {
			t.Errorf("the page asks for %s, want a file beside it: %v", found[1], err)
		}
		if strings.HasSuffix(name, ".js") {
			var b bytes.Buffer
			w := gzip.NewWriter(&b)
			_, _ = w.Write(text) // into memory
			_ = w.Close()
			zipped += b.Len()
		}
	}
	if zipped == 0 || zipped > most {
		t.Errorf("the scripts have %d bytes when they are zipped, want at most %d", zipped, most)
	}
}

func unzipped(t *testing.T, text []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What leads to a page does so behind a proxy that serves the node below a path of its own.
func TestDetoursAreRelative(t *testing.T) {
	hs := serve(t, newStub())
	client := &http.Client{Transport: hs.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for from, want := range map[string]string{"/": "/console/", "/console": "/console/", "/docs/": "/docs"} {
		resp, err := client.Get(hs.URL + from)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		for _, below := range []string{"", "/a", "/a/b"} {
			seen, err := url.Parse("https://carillon.example" + below + from)
			if err != nil {
				t.Fatal(err)
			}
			to, err := seen.Parse(resp.Header.Get("Location"))
			if err != nil || resp.StatusCode != http.StatusFound || to.String() != "https://carillon.example"+below+want {
				t.Errorf("GET %s = %d to %q, from %s: %s, %v; want %s", from, resp.StatusCode, resp.Header.Get("Location"), seen, to, err, below+want)
			}
		}
	}
}

// No page has script or style of its own that its policy would block, or an address that leads
// elsewhere, or out of the path at which a proxy serves the node.
func TestPagesStayWithinTheirPolicy(t *testing.T) {
	inline := regexp.MustCompile(`(?is)<script[^>]*>\s*[^<\s]|<style|\sstyle=|\son[a-z]+=|javascript:`)
	address := regexp.MustCompile(`(?i)\s(?:src|href|action)="([^"]*)"`)
	for _, site := range sites {
		files, err := site.files()
		if err != nil {
			t.Fatal(err)
		}
		for name, file := range files {
			if !strings.HasSuffix(name, ".html") {
				continue
			}
			if found := inline.Find(file.text); found != nil {
				t.Errorf("%s%s has %q, which its policy blocks", site.below, name, found)
			}
			at, err := url.Parse("https://carillon.example/a" + site.at)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range address.FindAllSubmatch(file.text, -1) {
				to, err := at.Parse(string(found[1]))
				if err != nil || to.Host != at.Host || !strings.HasPrefix(to.Path, "/a/") {
					t.Errorf("%s%s leads to %q, which is not below the path of the node", site.below, name, found[1])
				}
			}
		}
	}
}

func TestWhoTakesGzip(t *testing.T) {
	for accepted, want := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "deflate, gzip;q=0.5, br": true, "gzip;q=0": false, "gzip; q=0.0": false, "gzip; q=1": true, "br": false, "x-gzip": false, "*": false,
	} {
		if got := takesGzip(accepted); got != want {
			t.Errorf("takesGzip(%q) = %v, want %v", accepted, got, want)
		}
	}
}

func TestFilesWithoutAMediaTypeAreRefused(t *testing.T) {
	all, err := loadAssets(fstest.MapFS{"index.html": {Data: []byte("<p>")}, "a/b.svg": {Data: []byte("<svg/>")}})
	if err != nil || len(all) != 2 || all["a/b.svg"].media != "image/svg+xml" || all["a/b.svg"].tag == all["index.html"].tag {
		t.Errorf("loadAssets = %v, %v; want two files", all, err)
	}
	if _, err := loadAssets(fstest.MapFS{"a.exe": {}}); err == nil || !strings.Contains(err.Error(), "a.exe") {
		t.Errorf("loadAssets of a program = %v, want that its media type is not known", err)
	}
}
