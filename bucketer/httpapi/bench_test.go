package httpapi

import (
	"context"
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

// BenchmarkCreateJob is one POST without connection and store: routing, decoding, checks and the answer.
func BenchmarkCreateJob(b *testing.B) {
	s, err := New(
		Config{Now: func() time.Time { return testNow }, CursorKey: []byte("0123456789abcdef")},
		Deps{Jobs: taking{}, Runs: newStub(), Tasks: newStub(), Recurring: newStub()},
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
