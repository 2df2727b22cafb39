package outbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/bucketer/client"
	"carillon.dev/carillon/bucketer/client/outbox"
)

// What needs a database is tested in loadtest/peers/outbox, whose module has a driver of
// PostgreSQL.

var now = time.Date(2026, 11, 21, 9, 30, 0, 125_000_000, time.UTC)

func open(t *testing.T, cfg outbox.Config) *outbox.Outbox {
	t.Helper()
	cfg.Now = func() time.Time { return now }
	ob, err := outbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return ob
}

// transaction keeps what is executed in it.
type transaction struct {
	query string
	args  []any
	err   error
}

func (tx *transaction) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	tx.query, tx.args = query, args
	return nil, tx.err
}

func TestEnqueueWritesAJobWithAnInstant(t *testing.T) {
	hook := client.HTTP("https://example.com/hook?a=1&b=<2>")
	later := now.Add(time.Hour)
	for name, row := range map[string]struct {
		job  json.Marshaler
		want string
	}{
		"at once":          {client.NewJob(hook).Payload(map[string]int{"n": 1}), `{"http":{"url":"https://example.com/hook?a=1&b=<2>"},"payload":{"n":1},"schedule":{"at":"2026-11-21T09:30:00.125Z"}}`},
		"later":            {client.NewJob(client.Task("ship")).At(later), `{"task":"ship","schedule":{"at":"2026-11-21T10:30:00.125Z"}}`},
		"as it is written": {json.RawMessage(` {"task": "ship", "payload": 12345678901234567890, "name": null} `), `{"task":"ship","payload":12345678901234567890,"name":null,"schedule":{"at":"2026-11-21T09:30:00.125Z"}}`},
	} {
		tx := new(transaction)
		key, err := open(t, outbox.Config{Table: "shop.jobs"}).Enqueue(t.Context(), tx, row.job)
		if err != nil || len(tx.args) != 2 || tx.args[0] != any(key) || !strings.HasPrefix(tx.query, "INSERT INTO shop.jobs ") {
			t.Errorf("%s: Enqueue = %q, %v, which executes %q with %v", name, key, err, tx.query, tx.args)
			continue
		}
		var got, want map[string]json.RawMessage
		if err := errors.Join(json.Unmarshal([]byte(tx.args[1].(string)), &got), json.Unmarshal([]byte(row.want), &want)); err != nil {
			t.Fatal(err)
		}
		for field, text := range want {
			if field != "http" && string(got[field]) != string(text) {
				t.Errorf("%s: %s = %s, want %s", name, field, got[field], text)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: wrote %s, want %s", name, tx.args[1], row.want)
		}
	}
	broken := errors.New("broken")
	if _, err := open(t, outbox.Config{}).Enqueue(t.Context(), &transaction{err: broken}, client.NewJob(hook)); !errors.Is(err, broken) {
		t.Errorf("Enqueue in a broken transaction = %v, want its error", err)
	}
}

// TestEnqueueRefusesWhatCannotBeMovedOnce: a key of such a job holds for 24 h only.
func TestEnqueueRefusesWhatCannotBeMovedOnce(t *testing.T) {
	work := client.Task("ship")
	for name, row := range map[string]struct {
		job  json.Marshaler
		want []string
	}{
		"recurring":   {client.NewJob(work).Name("ship").Schedule(client.Every(time.Hour)), []string{"body.name", "body.schedule.every"}},
		"many times":  {json.RawMessage(`{"task": "ship", "schedules": [{"every": "1h"}], "pause_on_failure": {"after": 1}}`), []string{"body.pause_on_failure", "body.schedules"}},
		"on events":   {client.NewJob(work).On("paid"), []string{"body.on"}},
		"after jobs":  {client.NewJob(work).After("a"), []string{"body.after"}},
		"with a key":  {json.RawMessage(`{"task": "ship", "key": "a", "schedule": 1}`), []string{"body.key", "body.schedule"}},
		"no job":      {nil, []string{"body"}},
		"no object":   {json.RawMessage(`[]`), []string{"body"}},
		"null":        {json.RawMessage(`null`), []string{"body"}},
		"a bad build": {client.NewJob(client.HTTP("")), []string{"body.http.url"}},
	} {
		tx := new(transaction)
		_, err := open(t, outbox.Config{}).Enqueue(t.Context(), tx, row.job)
		var faults client.Faults
		if !errors.As(err, &faults) || tx.query != "" {
			t.Errorf("%s: Enqueue = %v, which executes %q; want faults, and nothing", name, err, tx.query)
			continue
		}
		var got []string
		for _, f := range faults {
			got = append(got, f.Location)
		}
		slices.Sort(got)
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s: faults (-want +got):\n%s", name, diff)
		}
	}
}

func TestNewTakesNamesOfTables(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "jobs": true, "shop.jobs_2": true, "Jobs": false, "a.b.c": false, "jobs;": false, `"jobs"`: false, "1a": false, strings.Repeat("a", 60): false,
	} {
		if _, err := outbox.New(outbox.Config{Table: name}); (err == nil) != ok {
			t.Errorf("New(%q) = %v, want that it is taken: %t", name, err, ok)
		}
	}
}
