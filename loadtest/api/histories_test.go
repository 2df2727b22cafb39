package api_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
)

// history answers with pages of one run each; busy is answered 503 first.
type history struct {
	mu   sync.Mutex
	busy int
	runs map[string]int // by job
	down bool
}

func (h *history) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id := strings.Split(r.URL.Path, "/")[3]
	n, ok := h.runs[id]
	var page int
	_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &page) // none: the first page
	switch {
	case h.down:
		w.WriteHeader(http.StatusInternalServerError)
	case h.busy > 0:
		h.busy--
		w.WriteHeader(http.StatusServiceUnavailable)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
	default:
		next := ""
		if page < n-1 {
			next = fmt.Sprintf(`,"next_cursor":"%d"`, page+1)
		}
		_, _ = fmt.Fprintf(w, `{"items":[{"id":"%s-%d","state":"succeeded"}]%s}`, id, page, next)
	}
}

func TestHistoriesAreReadToTheirEndOrNotAtAll(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	rows := []struct {
		name string
		api  *history
		want string
	}{
		{"three pages", &history{runs: map[string]int{"j1": 3}}, "found 3"},
		{"busy at first", &history{runs: map[string]int{"j1": 2}, busy: 2}, "found 2"},
		{"no such job", &history{}, "absent 0"},
		{"nobody tells", &history{down: true}, "unreadable 0"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			srv := httptest.NewServer(row.api)
			defer srv.Close()
			log := slog.New(slog.DiscardHandler)
			c := &api.Client{URLs: []string{srv.URL, srv.URL}, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Log: log}
			o := &api.Histories{Client: c, Log: log}
			h := check.RecurringHistory{End: at, Events: []check.JobEvent{{Kind: check.JobCreated, Requested: at, Acked: at}}}
			h.Events[0].Job.ID, h.Events[0].Job.Schedule.Every = "j1", check.Span(time.Second)
			if err := o.Read(t.Context(), &h); err != nil {
				t.Fatalf("Read = %v", err)
			}
			if len(h.Jobs) != 1 {
				t.Fatalf("Read brought %d jobs, want 1", len(h.Jobs))
			}
			name := map[check.ReadStatus]string{check.Found: "found", check.Absent: "absent", check.Unreadable: "unreadable"}
			for _, r := range []check.JobReading{h.Jobs[0].First, h.Jobs[0].Second} {
				if got := fmt.Sprint(name[r.Status], " ", len(r.Runs)); got != row.want {
					t.Errorf("Read = %s, want %s", got, row.want)
				}
			}
		})
	}
}
