package console

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/loadtest/sink"
)

// A Witness asks for runs and records every call of them, for the checker of the load tests: that
// judges what a cluster did by what was asked, acknowledged and seen, and believes no page.
type Witness struct {
	url     string
	record  string // file of what was seen
	end     func() error
	history check.History
}

// StartWitness starts one, which ends with the test.
func StartWitness(t testing.TB) *Witness {
	t.Helper()
	w := &Witness{record: filepath.Join(t.TempDir(), "seen")}
	out, err := os.Create(w.record)
	if err != nil {
		t.Fatal(err)
	}
	seen := sink.New(out)
	server := httptest.NewServer(seen)
	w.url = server.URL
	ctx, stop := context.WithCancel(context.Background())
	written := make(chan error, 1)
	go func() { written <- seen.Run(ctx) }()
	w.end = sync.OnceValue(func() error {
		server.Close()
		stop()
		return errors.Join(<-written, out.Close())
	})
	t.Cleanup(func() {
		if err := w.end(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Ask asks for a run at an instant, with a label.
func (w *Witness) Ask(t testing.TB, node *API, at time.Time, label, value string) {
	t.Helper()
	at = at.UTC().Truncate(time.Millisecond)
	ref := check.Ref{Source: "page", Line: len(w.history.Asked) + 1}
	job, err := node.Jobs.Create(t.Context(), client.NewJob(client.HTTP(w.url+"/"+ref.String())).At(at).Label(label, value).
		Payload(journal.Payload{Ref: ref.String()}))
	id := runOf(t, must(t, job, err)).String()
	w.history.Asked = append(w.history.Asked, check.Ask{Ref: ref, At: at})
	w.history.Acks = append(w.history.Acks, check.Ack{Ref: ref, ID: id, Status: http.StatusCreated, At: time.Now()})
}

// Killed notes that a node dies now.
func (w *Witness) Killed() {
	w.history.Kills = append(w.history.Kills, check.Kill{At: time.Now()})
}

// Judge waits until every run has ended, at most so long, and returns what the checker says. A fault
// fails the test.
func (w *Witness) Judge(t testing.TB, nodes []string, late, wait time.Duration) check.Report {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	h := w.history
	h.Late = check.LatenessBound{Max: late}
	var ids []string
	var times []time.Time
	for i := range h.Acks {
		ids = append(ids, h.Acks[i].ID)
		times = append(times, h.Asked[i].At)
	}
	o := &api.Observer{
		Client: &api.Client{URLs: nodes, HTTP: http.DefaultClient, Log: quiet}, Log: quiet,
		IDs: ids, Windows: api.Windows(times), WaitUntil: time.Now().Add(wait), Apart: 2 * time.Second,
	}
	var err error
	if h.Runs, h.Unlisted, err = o.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if h.Seen, h.SeenAll, err = journal.ReadSeenFile(w.record); err != nil {
		t.Fatal(err)
	}
	report, err := check.Judge(h)
	must(t, report, err)
	if report.Failed() {
		var text bytes.Buffer
		orFail(t, report.WriteText(&text))
		t.Errorf("the checker says:\n%s", text.String())
	}
	return report
}
