package httpapi

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"carillon.dev/carillon/bucketer"
)

// When the bucketer is slow the sender waits: no more is read than fits the chunks in flight and
// the buffers.
func TestImportHoldsTheSenderBack(t *testing.T) {
	for _, encoding := range []string{"", "gzip", "zstd"} {
		t.Run(encoding, func(t *testing.T) {
			const length = 8 << 20
			var bomb []byte // the same, far smaller
			if encoding != "" {
				bomb = pack(t, encoding, strings.Repeat(line+"\n", length/len(line)))
			}
			synctest.Test(t, func(t *testing.T) {
				b := newStub()
				release := make(chan struct{})
				b.onBatch = func([]bucketer.Job) { <-release }
				s, err := New(Config{Chunks: 2, ChunkLines: 100}, Deps{Jobs: b, Runs: b, Tasks: b, Recurring: b, Workflows: b, Events: b, Joins: b})
				if err != nil {
					t.Fatal(err)
				}
				text := &countingReader{line: []byte(line + "\n"), limit: length}
				req := httptest.NewRequest("POST", importPath+"?results=errors", text)
				if encoding != "" {
					req.Body = io.NopCloser(bytes.NewReader(bomb))
					req.Header.Set("Content-Encoding", encoding)
				}
				rec := httptest.NewRecorder()
				served := make(chan struct{})
				go func() {
					defer close(served)
					s.ServeHTTP(rec, req)
				}()
				synctest.Wait() // until nobody can go on
				if b.batches != 2 {
					t.Errorf("%d chunks under way, want 2", b.batches)
				}
				if n := text.count(); encoding == "" && (n == 0 || n > 4*readBuffer+4*100*len(line)) {
					t.Errorf("%d bytes were read ahead, want no more than a few buffers", n)
				}
				text.stop()
				if encoding != "" {
					s.endImports() // the rest of the bomb is of no interest
				}
				close(release)
				<-served
				if encoding == "" {
					if _, sum := statuses(t, readAnswers(t, rec.Body)); sum == nil || sum.Failed > 0 || sum.Created == 0 {
						t.Errorf("summary %+v, want lines created and none failed", sum)
					}
				}
			})
		})
	}
}

// countingReader is a long text of equal lines that says how much of it was read.
type countingReader struct {
	line  []byte
	limit int

	mu      sync.Mutex
	n       int
	stopped bool
}

func (r *countingReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n >= r.limit {
		return 0, io.EOF
	}
	n := 0
	for !(r.stopped && (r.n+n)%len(r.line) == 0) && n < len(p) {
		c := copy(p[n:], r.line[(r.n+n)%len(r.line):])
		n += c
	}
	r.n += n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *countingReader) count() int { r.mu.Lock(); defer r.mu.Unlock(); return r.n }

func (r *countingReader) stop() { r.mu.Lock(); defer r.mu.Unlock(); r.stopped = true }

func TestImportsAtOnceAreBounded(t *testing.T) {
	hs := serve(t, newStub(), func(c *Config, _ *Deps) { c.MaxImports = 1 })
	w, answers := beginImport(t, hs)
	doProblem(t, hs, call{method: "POST", path: importPath, body: line, header: http.Header{"Content-Type": {ndjson}}}, 429)
	_ = w.Close()
	if _, s := statuses(t, readAnswers(t, answers)); s == nil || s.Created != 1 {
		t.Errorf("summary %+v of the import that was let in, want 1 created", s)
	}
	if _, s := statuses(t, sendImport(t, hs, "", "", strings.NewReader(line))); s == nil || s.Created != 1 {
		t.Errorf("summary %+v of an import after it, want 1 created", s)
	}
}
