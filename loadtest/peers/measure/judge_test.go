package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/sink"
)

func TestRankIsTheSmallestThatAShareDoesNotExceed(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	tests := []struct {
		name   string
		sorted []int
		q      float64
		want   int
	}{
		{"median", hundred, 0.5, 50},
		{"p99 of a hundred", hundred, 0.99, 99},
		{"p99.9 of a hundred is the highest", hundred, 0.999, 100},
		{"all", hundred, 1, 100},
		{"none", hundred, 0, 1},
		{"one element", []int{7}, 0.5, 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := rank(tt.sorted, tt.q); got != tt.want {
				t.Errorf("rank(%d elements, %g) = %d, want %d", len(tt.sorted), tt.q, got, tt.want)
			}
		})
	}
}

func TestRankAgreesWithCounting(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		values := make([]int, 1+random.IntN(300))
		for i := range values {
			values[i] = random.IntN(1000)
		}
		slices.Sort(values)
		for _, percent := range []int{50, 90, 99} {
			got := rank(values, float64(percent)/100)
			atMost := 0
			for _, v := range values {
				if v <= got {
					atMost++
				}
			}
			below, _ := slices.BinarySearch(values, got)
			if 100*atMost < percent*len(values) || 100*below >= percent*len(values) {
				t.Fatalf("rank(%v, %d %%) = %d: %d of %d at most, %d below", values, percent, got, atMost, len(values), below)
			}
		}
	}
}

func TestSpreadLiesInItsSpanAndIsEven(t *testing.T) {
	from := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	s := Spread{From: from, Span: 10 * time.Second, Seed: 3}
	perSecond := make([]int, 10)
	for i := range 20_000 {
		d := s.Due(i).Sub(from)
		if d < 0 || d >= s.Span || d%time.Millisecond != 0 {
			t.Fatalf("Due(%d) = from + %s, want whole milliseconds below %s", i, d, s.Span)
		}
		perSecond[int(d/time.Second)]++
	}
	for second, n := range perSecond {
		if n < 1800 || n > 2200 { // 2000 expected, five standard deviations are 212
			t.Errorf("second %d holds %d runs, want about 2000", second, n)
		}
	}
	if other := (Spread{From: from, Span: s.Span, Seed: 4}); !s.Due(5).Equal(s.Due(5)) || s.Due(5).Equal(other.Due(5)) {
		t.Error("instants do not follow from the seed alone")
	}
}

// TestCallsOfRunsAreFoundInTheSinksRecord goes the whole way: caller, sink, its record.
func TestCallsOfRunsAreFoundInTheSinksRecord(t *testing.T) {
	record := filepath.Join(t.TempDir(), "seen.ndjson")
	file, err := os.Create(record)
	if err != nil {
		t.Fatal(err)
	}
	s := sink.New(file)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	server := httptest.NewServer(s)
	c := newCaller(&Sink{URL: server.URL}, 16)
	for _, job := range []Job{{warmWave, 0}, {realWave, 0}, {realWave, 2}, {realWave, 2}, {realWave, 9}, {5, 1}} {
		if err := c.call(t.Context(), job); err != nil {
			t.Fatalf("call(%v): %v", job, err)
		}
	}
	c.client.CloseIdleConnections()
	server.Close()
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("sink.Run = %v", err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	o, err := readSink(record, source(realWave), source(warmWave), 3)
	if err != nil {
		t.Fatalf("readSink: %v", err)
	}
	got := fmt.Sprint(!o.first[0].IsZero(), !o.first[1].IsZero(), !o.first[2].IsZero(), o.doubled, o.strange)
	if want := "true false true 1 2"; got != want { // strange: run 9 of 3, and wave 5
		t.Errorf("first, second, third seen, doubled, strange = %s, want %s", got, want)
	}
}

func TestARecordWithGapsIsNoEvidence(t *testing.T) {
	record := filepath.Join(t.TempDir(), "seen.ndjson")
	if err := os.WriteFile(record, []byte("{\"start\":1}\n{\"n\":1,\"run\":\"\",\"path\":\"/w1/1\",\"attempt\":0,\"fence\":0,\"due\":\"\",\"at\":5,\"end\":6,\"status\":200}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readSink(record, "w1", "w0", 1); err == nil {
		t.Error("readSink of a record without a close = nil, want an error")
	}
}
