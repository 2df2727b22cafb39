package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/loadtest/check/workflows"
	"carillon.dev/carillon/loadtest/journal"
	"carillon.dev/carillon/schema"
)

// From the files of a chaos run to the verdict, against an API that lists a workflow run without its
// steps, and shows it with them.
func TestCheckOfWorkflows(t *testing.T) {
	dir, now := t.TempDir(), time.Now().UTC().Truncate(time.Millisecond)
	run := schema.MakeEntryID(now, 3, 1)
	state := "succeeded"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/runs", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"items":[{"id":%q,"state":%q,"workflow":"w","attempts":[{"number":1}]}]}`, run, state)
	})
	mux.HandleFunc("GET /v1/runs/{id}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"id":%q,"state":%q,"workflow":"w","attempts":[{"number":1}],"steps":[{"name":"s1","state":"succeeded"}]}`, run, state)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)

	write := func(name string, lines ...string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	at := now.UnixNano()
	seen := func(mark int) string {
		return write("seen", fmt.Sprintf(`{"start":%d}`+"\n", at),
			fmt.Sprintf(`{"n":1,"run":%q,"path":"/w/1","attempt":1,"fence":0,"due":"","at":%d,"end":%d,"status":200}`+"\n", schema.MakeStepID(run, 0, 0), at+1, at+2),
			fmt.Sprintf(`{"mark":%d}`+"\n", mark))
	}
	put := write("workflows", `{"name":"w","body":{"steps":[{"name":"s1","http":{"url":"http://h/w/1"}}]}}`+"\n")
	asked := write("triggers", fmt.Sprintf(`{"ref":{"source":"w","line":1},"payload":{"n":1},"requested":%q,"acked":%q,"run":%q}`+"\n",
		now.Format(time.RFC3339Nano), now.Format(time.RFC3339Nano), run))
	out := filepath.Join(dir, "report")
	args := []string{"check", "--workflows", put, "--triggers", asked, "--sink", seen(1), "--api", srv.URL, "--apart", "1ms", "--wait", "0s", "--out", out}
	if text := mustLoad(t, args...); !strings.Contains(text, "ok") {
		t.Errorf("check says:\n%s\nwant ok", text)
	}
	rep, err := journal.ReadFile(out, readWorkflowReport)
	if err != nil || rep.Acknowledged != 1 || rep.StepRuns != 1 || !rep.SeenAll {
		t.Errorf("report = %+v, %v, want one run with one step", rep, err)
	}

	state = "failed"
	if text, err := load(t, args...); !errors.Is(err, errVerdict) || !strings.Contains(text, "untrue") {
		t.Errorf("check of a run that has failed without a reason = %v:\n%s", err, text)
	}
	for _, bad := range [][]string{
		{"check", "--workflows", put, "--sink", seen(1)},
		{"check", "--workflows", put, "--triggers", asked, "--asked", put, "--sink", seen(1)},
	} {
		if _, err := load(t, bad...); err == nil || errors.Is(err, errVerdict) {
			t.Errorf("%v = %v, want that the flags do not fit", bad, err)
		}
	}
}

func readWorkflowReport(r io.Reader) (rep workflows.Report, err error) {
	err = json.NewDecoder(r).Decode(&rep)
	return rep, err
}
