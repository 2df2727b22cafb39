package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/schema"
)

// taking takes every job under one id and does nothing.
type taking struct{ Jobs }

func (taking) Submit(context.Context, bucketer.Job) (bucketer.Receipt, error) {
	return bucketer.Receipt{Run: schema.MakeEntryID(testNow, 1, 1)}, nil
}

// BenchmarkCreateJob is one POST without connection and store: routing, decoding, checks and the
// answer.
func BenchmarkCreateJob(b *testing.B) {
	s, err := New(
		Config{Now: func() time.Time { return testNow }, CursorKey: []byte("0123456789abcdef")},
		Deps{Jobs: taking{}, Runs: newStub(), Tasks: newStub(), Recurring: newStub(), Workflows: newStub(), Events: newStub(), Joins: newStub()},
	)
	if err != nil {
		b.Fatal(err)
	}
	const text = `{"http":{"url":"http://127.0.0.1:9000/hook"},"schedule":{"at":"2026-11-21T10:00:00Z"},"payload":{"to":"someone@example.com","n":12345}}`
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/jobs", strings.NewReader(text))
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code != http.StatusCreated {
			b.Fatalf("POST /v1/jobs = %d %s, want 201", w.Code, w.Body)
		}
	}
}

// BenchmarkImport sends lines through a real connection, to a bucketer that does nothing.
func BenchmarkImport(b *testing.B) {
	hs := serve(b, newStub(), func(_ *Config, d *Deps) { d.Jobs = idle{} })
	text := `{"task":"send-email","schedule":{"at":"2026-11-21T10:00:00Z"},"payload":{"to":"someone@example.com","n":12345}}` + "\n"
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	r := &countingReader{line: []byte(text), limit: b.N * len(text)}
	req, err := http.NewRequest("POST", hs.URL+importPath, io.LimitReader(r, int64(b.N*len(text))))
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer() // what a server makes once, such as its document, is no cost of a line
	resp, err := hs.Client().Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var last []byte
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		last = append(last[:0], sc.Bytes()...)
	}
	if want := fmt.Sprintf(`{"summary":{"lines":%d,"created":%d,`, b.N, b.N); !strings.HasPrefix(string(last), want) {
		b.Fatalf("the last line is %s, want %s…", last, want)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// idle takes every job and does nothing.
type idle struct{ Jobs }

func (idle) SubmitBatch(_ context.Context, jobs []bucketer.Job, answer func(int, bucketer.Receipt, error)) {
	for i := range jobs {
		answer(i, bucketer.Receipt{Run: schema.MakeEntryID(testNow, 1, uint64(i))}, nil)
	}
}
