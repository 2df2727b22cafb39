package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/workload"
)

// The body that goes with a header of the key is the line of the import without its key.
func TestKeylessLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobs")
	spec := workload.Spec{N: 2, Immediate: 2, Source: "eu-keyed", Target: "http://10.79.0.1:9", Keyed: true}
	if err := writeJobs(path, spec); err != nil {
		t.Fatal(err)
	}
	bodies, err := keylessLines(path)
	if err != nil || len(bodies) != 2 {
		t.Fatalf("keylessLines = %d bodies, %v, want 2", len(bodies), err)
	}
	for i, body := range bodies {
		var got map[string]json.RawMessage
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf(`{"ref":"eu-keyed/%d"}`, i+1)
		if got["key"] != nil || string(got["payload"]) != want || got["http"] == nil {
			t.Errorf("body %d is %s, want the payload %s and no key", i+1, body, want)
		}
	}
}

// roundTrip is a region's node without a network.
type roundTrip func(q *http.Request) *http.Response

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) {
	if a := f(q); a != nil {
		return a, nil
	}
	return nil, errors.New("no answer")
}

// Each request goes to the own region first and to the other one later, under one key; what answers
// there is compared and written down.
func TestKeysAreSentToBothRegions(t *testing.T) {
	var acked bytes.Buffer
	var result KeyedResult
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards asked
		var asked []string
		client := &http.Client{Transport: roundTrip(func(q *http.Request) *http.Response {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, q.URL.Host+" "+q.Header.Get("Idempotency-Key")+" "+q.Header.Get("Carillon-Tenant"))
			id := "0001"
			switch {
			case q.URL.Host == "us" && q.Header.Get("Idempotency-Key") == `"k-2"`:
				id = "0002"
			case q.URL.Host == "us" && q.Header.Get("Idempotency-Key") == `"k-3"`:
				return nil
			}
			w := httptest.NewRecorder()
			w.WriteHeader(http.StatusCreated)
			_, _ = fmt.Fprintf(w, `{"id":%q}`, id)
			return w.Result()
		})}
		acks, err := journal.NewAckWriter(&acked, "eu-keyed")
		if err != nil {
			t.Fatal(err)
		}
		r := &run{members: members{http: client, log: slog.New(slog.DiscardHandler)}, recorder: recorder{report: &Report{}}}
		k := &keyed{
			regionsCourse: regionsCourse{r}, acks: acks, result: &result,
			home: home{name: lostHome, own: []string{"http://eu"}, others: []string{"http://us"}, client: &api.Client{URLs: []string{"http://eu", "http://us"}, Tenant: "team-eu"}},
		}
		for line := 1; line <= 3; line++ {
			if err := k.createOne(context.Background(), line, fmt.Sprintf("k-%d", line), []byte("{}")); err != nil {
				t.Fatalf("createOne of line %d = %v", line, err)
			}
		}
		// a region was cut off as it took this one in
		r.report.Events = []Event{{Act: ActRegionCut, Began: time.Now(), Ended: time.Now()}}
		if err := k.createOne(context.Background(), 4, "k-4", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := acks.Flush(); err != nil {
			t.Fatal(err)
		}
		if asked[0] != `eu "k-1" team-eu` || asked[1] != `us "k-1" team-eu` || asked[len(asked)-1] != `eu "k-4" team-eu` {
			t.Errorf("asked were %q, want each key in both regions, and the last in its own alone", asked)
		}
	})
	if result.Created != 4 || result.Same != 1 || result.Different != 1 || result.Silent != 1 || result.Unsent != 1 {
		t.Errorf("counts are %+v, want four created, and one of each after", result)
	}
	all, err := journal.ReadAcks(&acked)
	if err != nil || len(all) != 7 {
		t.Fatalf("ReadAcks = %d answers, %v, want 7", len(all), err)
	}
	if all[1].ID != "0001" || all[3].ID != "0002" || all[5].ID != "" || all[5].Status != 0 || all[3].Ref.Line != 2 || all[3].Ref.Source != "eu-keyed" {
		t.Errorf("answers are %+v, want those of both regions by line", all)
	}
}
