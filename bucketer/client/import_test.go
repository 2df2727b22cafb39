package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/client"
)

func TestImport(t *testing.T) {
	t.Parallel()
	c, ctx := open(t), t.Context()
	at := time.Now().Add(time.Hour)
	lines := []client.Line{
		{Key: "a", Job: client.NewJob(client.HTTP(target)).At(at)},
		{Job: json.RawMessage(`{"http": {"url": "nowhere"}}`)},
		{Job: json.RawMessage("{\"http\":\n{\"url\": \"" + target + "\"}}")},
		{Job: json.RawMessage(`{}`)},
	}
	first, err := c.Jobs.Import(ctx, lines)
	if err != nil || len(first) != 4 || first[0].Err != nil || first[0].Existing || first[2].Err != nil {
		t.Fatalf("Import = %+v, %v; want the first and the third line created", first, err)
	}
	for i, location := range map[int]string{1: "body.http.url", 3: "body"} {
		var faults client.Faults
		if !errors.As(first[i].Err, &faults) || !strings.HasPrefix(faults[0].Location, location) {
			t.Errorf("line %d: %v, want a fault of %s", i+1, first[i].Err, location)
		}
	}
	again, err := c.Jobs.Import(ctx, lines[:1])
	if err != nil || again[0] != (client.Imported{ID: first[0].ID, Existing: true}) {
		t.Errorf("Import again = %+v, %v; want the job %s that exists", again, err, first[0].ID)
	}
	if job, err := c.Jobs.Get(ctx, first[0].ID.String()); err != nil || job.State != client.JobActive {
		t.Errorf("Get = %+v, %v; want the job", job, err)
	}
}

func TestImportTellsEveryFaultBeforeItSends(t *testing.T) {
	t.Parallel()
	c := connect(t, "http://127.0.0.1:1", client.WithRetries(0))
	_, err := c.Jobs.Import(t.Context(), []client.Line{{}, {Job: json.RawMessage(`[]`)}, {Job: client.NewJob(nil)}})
	var faults client.Faults
	if !errors.As(err, &faults) || len(faults) != 3 || faults[1].Location != "lines[1]" {
		t.Errorf("Import = %v, want a fault of each line", err)
	}
	if _, err := c.Jobs.Import(t.Context(), make([]client.Line, client.MaxLines+1)); !errors.As(err, &faults) {
		t.Errorf("Import of too many lines = %v, want a fault", err)
	}
	if got, err := c.Jobs.Import(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("Import of nothing = %v, %v", got, err)
	}
}

// TestImportSendsAgainWhatIsLeft: an answer that was cut, and a line that was refused for now.
func TestImportSendsAgainWhatIsLeft(t *testing.T) {
	t.Parallel()
	const id = "01932e5a-7c00-7003-8d2f-5a1b9c3e7f60"
	answers := []string{
		`{"line":2,"id":"` + id + `","status":201}` + "\n" + `{"line":3,"status":503,"error":{"title":"T","status":503}}` + "\n" + `{"li`,
		`{"line":1,"id":"` + id + `","status":200}` + "\n" + `{"line":2,"id":"` + id + `","status":201}` + "\n" + `{"summary":{}}`,
	}
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, r.Header.Get("Content-Type")+" "+string(body))
		_, _ = fmt.Fprintln(w, answers[min(len(asked), len(answers))-1])
	}))
	t.Cleanup(s.Close)
	lines := []client.Line{{Key: "a", Job: json.RawMessage(`{}`)}, {Key: "b", Job: json.RawMessage(`{}`)}, {Key: "c", Job: json.RawMessage(`{"n":1}`)}}
	got, err := connect(t, s.URL).Jobs.Import(t.Context(), lines)
	if err != nil || got[0].Err != nil || !got[0].Existing || got[1].Err != nil || got[1].Existing || got[2].Err != nil {
		t.Errorf("Import = %+v, %v; want all three, the first of which exists", got, err)
	}
	want := []string{
		"application/x-ndjson {\"key\":\"a\"}\n{\"key\":\"b\"}\n{\"key\":\"c\",\"n\":1}\n",
		"application/x-ndjson {\"key\":\"a\"}\n{\"key\":\"c\",\"n\":1}\n",
	}
	if strings.Join(asked, "|") != strings.Join(want, "|") {
		t.Errorf("asked %q, want %q", asked, want)
	}

	answers = answers[:1]
	got, err = connect(t, s.URL, client.WithRetries(0)).Jobs.Import(t.Context(), lines)
	var e *client.Error
	if err == nil || !errors.Is(got[0].Err, client.ErrUnanswered) || got[1].Err != nil || !errors.As(got[2].Err, &e) || e.Status != http.StatusServiceUnavailable {
		t.Errorf("Import without tries = %+v, %v; want that it was cut, and what is known", got, err)
	}
}
