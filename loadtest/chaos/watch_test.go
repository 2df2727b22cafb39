package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/loadtest/api"
	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A reader looks at its runs in turn and writes each state down once, and what is no answer not at
// all.
func TestStatesAreWrittenDownAsTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := map[string]int{}
		answers := map[string][]string{"a": {"pending", "running", "running", "succeeded", "failed"}, "b": {"", "cancelled"}}
		ask := func(r *http.Request) (*http.Response, error) {
			id := path.Base(r.URL.Path)
			state := answers[id][min(looks[id], len(answers[id])-1)]
			looks[id]++
			answer := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewBufferString(fmt.Sprintf(`{"id":%q,"state":%q}`, id, state)))}
			if state == "" {
				answer.StatusCode = http.StatusNotFound
			}
			return answer, nil
		}
		r := &run{client: &api.Client{
			URLs: []string{"http://node"}, HTTP: &http.Client{Transport: roundTripper(ask)}, Log: slog.New(slog.DiscardHandler),
		}}
		r.watched.runs[0] = []string{"a", "b"}
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := (watching{r}).one(ctx, &out, 0); err != nil {
			t.Fatal(err)
		}
		got, err := journal.ReadWatched(&out)
		if err != nil {
			t.Fatal(err)
		}
		states := map[string][]check.State{}
		for _, look := range got {
			states[look.Run] = append(states[look.Run], look.State)
		}
		want := map[string][]check.State{
			"a": {check.Pending, check.Running, check.Succeeded, check.Failed}, "b": {check.Cancelled},
		}
		if diff := cmp.Diff(want, states); diff != "" {
			t.Errorf("states written down (-want +got):\n%s", diff)
		}
	})
}

func TestWatchedRunsAreDividedAmongReaders(t *testing.T) {
	var w watched
	for i := range watchersAtOnce + 1 {
		w.add(fmt.Sprint(i))
	}
	if first, again, second := w.at(0, 0), w.at(0, 2), w.at(0, 1); first != "0" || again != "0" || second != fmt.Sprint(watchersAtOnce) {
		t.Errorf("at(0, …) = %q, %q, %q, want the first and the last in turn", first, again, second)
	}
	if got := (&watched{}).at(1, 7); got != "" {
		t.Errorf("at of none = %q, want nothing", got)
	}
}
