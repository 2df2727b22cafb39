package journal_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"carillon.dev/carillon/loadtest/check"
	"carillon.dev/carillon/loadtest/journal"
)

var t0 = time.Date(2026, 11, 21, 10, 0, 0, 123_456_789, time.UTC)

func TestReadAsked(t *testing.T) {
	in := `{"key":"k","http":{"url":"http://h/s1/1"},"schedule":{"at":"2026-11-21T11:00:00.123+01:00"},"guarantee":"effectively_once","retry":{"max_attempts":2},"misfire":{"policy":"skip","deadline":"1m"}}

{"http":{"url":"http://h/s1/3"}}
{"retry":{"initial":"3s","factor":3,"max":"1m","jitter":"none"}}
{"retry":{"jitter":"none"}}
{"retry":{"initial":"3s","jitter":"full"}}
{"region":{"name":"eu","require":true}}
{"region":{"name":"eu"}}
{"region":"eu"}
{"preemptible":true,"priority":"low"}
{"preemptible":true}
`
	got, err := journal.ReadAsked(strings.NewReader(in), "s1")
	if err != nil {
		t.Fatalf("ReadAsked: %v", err)
	}
	want := []check.Ask{
		{
			Ref: check.Ref{Source: "s1", Line: 1}, Key: "k", At: t0.Truncate(time.Millisecond), Guarantee: check.EffectivelyOnce,
			MaxAttempts: 2, Misfire: check.Misfire{Policy: "skip", Deadline: time.Minute},
		},
		{Ref: check.Ref{Source: "s1", Line: 3}},
		{Ref: check.Ref{Source: "s1", Line: 4}, Retry: check.Retry{Initial: 3 * time.Second, Factor: 3, Max: time.Minute, Exact: true}},
		{Ref: check.Ref{Source: "s1", Line: 5}, Retry: check.Retry{Initial: time.Second, Factor: 2, Max: 10 * time.Minute, Exact: true}},
		{Ref: check.Ref{Source: "s1", Line: 6}},
		{Ref: check.Ref{Source: "s1", Line: 7}, Region: "eu"},
		{Ref: check.Ref{Source: "s1", Line: 8}},
		{Ref: check.Ref{Source: "s1", Line: 9}},
		{Ref: check.Ref{Source: "s1", Line: 10}, Preemptible: true},
		{Ref: check.Ref{Source: "s1", Line: 11}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(time.Time.Equal)); diff != "" {
		t.Errorf("ReadAsked (-want +got):\n%s", diff)
	}
}

func TestReadAskedNotesWhatCallsAreToCarry(t *testing.T) {
	in := `{"http":{"url":"http://h/s1/1","headers":{"x-team":"a","Accept":"b"}},"payload":{"ref": "s1/1"}}
{"task":"t","payload":{"ref":"s1/2"}}
`
	got, err := journal.ReadAsked(strings.NewReader(in), "s1")
	if err != nil {
		t.Fatalf("ReadAsked: %v", err)
	}
	want := []check.Ask{
		{
			Ref: check.Ref{Source: "s1", Line: 1}, Known: true,
			Body: check.Hash(0).Add([]byte(`{"ref":"s1/1"}`)), Custom: check.Hash(0).AddHeader("X-Team", "a"),
		},
		{Ref: check.Ref{Source: "s1", Line: 2}, Task: "t"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ReadAsked (-want +got):\n%s", diff)
	}
}

func TestReadAskedRefusesWhatCannotBeJudged(t *testing.T) {
	for _, in := range []string{
		`{"schedule":{"cron":"* * * * *"}}`, `{"schedule":{"every":"1m"}}`, `{"misfire":{"deadline":"soon"}}`, `{"retry":{"initial":"soon","jitter":"none"}}`, `{`,
	} {
		if _, err := journal.ReadAsked(strings.NewReader(in), "s1"); err == nil {
			t.Errorf("ReadAsked(%s) = nil, want an error", in)
		}
	}
}

func TestSourceOf(t *testing.T) {
	rows := []struct{ name, content, want string }{
		{"by its addresses", `{"http":{"url":"http://h/hook/s7/1"}}` + "\n", "s7"},
		{"by its name", `{"http":{"url":"http://h/hook"}}` + "\n", "jobs"},
		{"empty", "", "jobs"},
		{"not JSON", "x\n", "jobs"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "jobs.ndjson")
			if err := os.WriteFile(path, []byte(row.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := journal.SourceOf(path)
			if err != nil || got != row.want {
				t.Errorf("SourceOf = %q, %v, want %q", got, err, row.want)
			}
		})
	}
}

func ackFile(t *testing.T) ([]byte, []check.Ack) {
	t.Helper()
	var b bytes.Buffer
	w, err := journal.NewAckWriter(&b, "s1")
	if err != nil {
		t.Fatal(err)
	}
	want := []check.Ack{
		{Ref: check.Ref{Source: "s1", Line: 2}, ID: "a-b", Status: 201, At: t0},
		{Ref: check.Ref{Source: "s1", Line: 1}, Status: 0, At: t0.Add(1)},
		{Ref: check.Ref{Source: "s1", Line: 3}, ID: `odd "id"`, Status: 200, At: t0.Add(2)},
	}
	for _, a := range want {
		if err := w.Write(a.Ref.Line, a.ID, a.Status, a.At); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), want
}

func TestAcksAreReadBack(t *testing.T) {
	file, want := ackFile(t)
	got, err := journal.ReadAcks(bytes.NewReader(file))
	if err != nil {
		t.Fatalf("ReadAcks: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ReadAcks (-want +got):\n%s", diff)
	}
}

func TestAcksCutAnywhere(t *testing.T) {
	file, want := ackFile(t)
	head := bytes.IndexByte(file, '\n')
	for n := head + 1; n <= len(file); n++ {
		got, err := journal.ReadAcks(bytes.NewReader(file[:n]))
		if err != nil {
			t.Fatalf("ReadAcks of the first %d bytes: %v", n, err)
		}
		whole := bytes.Count(file[:n], []byte{'\n'}) - 1
		if len(got) < whole || len(got) > whole+1 { // a line that lacks only its end may count
			t.Fatalf("ReadAcks of the first %d bytes = %d answers, want %d", n, len(got), whole)
		}
		if diff := cmp.Diff(want[:len(got)], got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("ReadAcks of the first %d bytes (-want +got):\n%s", n, diff)
		}
	}
}

func TestABadLineInTheMiddleIsAnError(t *testing.T) {
	file, _ := ackFile(t)
	for _, broken := range []string{
		strings.Replace(string(file), `"status":201`, `"status":x`, 1),
		string(file) + "{\n",
		"{}\n",
	} {
		if _, err := journal.ReadAcks(strings.NewReader(broken)); err == nil {
			t.Errorf("ReadAcks = nil, want an error, of:\n%s", broken)
		}
	}
}

func TestReadChanges(t *testing.T) {
	in := `{"run":"r1","kind":"reschedule","due":"2026-11-21T10:00:01Z","requested":"2026-11-21T10:00:00Z","acked":"2026-11-21T10:00:00.5Z"}
{"run":"r2","kind":"cancel","requested":"2026-11-21T10:00:00Z"}
`
	got, err := journal.ReadChanges(strings.NewReader(in))
	if err != nil {
		t.Fatalf("ReadChanges: %v", err)
	}
	base := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	want := []check.Change{
		{Run: "r1", Kind: check.Reschedule, Due: base.Add(time.Second), Requested: base, Acked: base.Add(time.Second / 2)},
		{Run: "r2", Kind: check.Cancel, Requested: base},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ReadChanges (-want +got):\n%s", diff)
	}
	if _, err := journal.ReadChanges(strings.NewReader(`{"kind":"pause"}` + "\n")); err == nil {
		t.Error("ReadChanges of an unknown kind = nil, want an error")
	}
}

func TestSeenIsReadBack(t *testing.T) {
	var w journal.SeenWriter
	quick := journal.Arrival{N: 1, Run: "r1", Path: "/hook/s1/7", Due: "2026-11-21T10:00:00.000Z", Attempt: 2, Fence: 1 << 60, At: t0, End: t0.Add(5), Status: 200}
	slow := journal.Arrival{N: 2, Run: "r\x00\"2", Path: "/", At: t0.Add(10), From: "192.0.2.7"}
	hung := journal.Arrival{N: 3, Run: "r3", Path: "/s1/8", At: t0.Add(11)}
	busy := journal.Arrival{N: 4, Run: "r4", Path: "/s1/9", Attempt: 1, At: t0.Add(12), End: t0.Add(13), Status: 429, RetryAfter: 3 * time.Second}
	busy.Sent = &check.Sent{Key: "r4", Job: "r4", Type: check.JSONType, Body: 1<<64 - 1}
	quick.Sent = &check.Sent{Key: "", Job: "j\"1", Type: "text/plain", Custom: 7}
	busySlow := journal.Arrival{N: 5, Run: "r5", Path: "/s1/10", Attempt: 1, At: t0.Add(14)}
	b := w.Start(nil, t0)
	b = w.Arrival(b, &quick)
	b = w.Arrival(b, &slow)
	b = w.Arrival(b, &hung)
	b = w.Arrival(b, &busy)
	b = w.Arrival(b, &busySlow)
	slow.End, slow.Status = t0.Add(20), 500
	b = w.End(b, &slow)
	busySlow.End, busySlow.Status, busySlow.RetryAfter = t0.Add(21), 503, 24*time.Hour
	b = w.End(b, &busySlow)
	b = w.Close(b, 5)

	got, all, err := journal.ReadSeen(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("ReadSeen: %v", err)
	}
	want := []check.Sighting{
		{
			Run: "r1", Ref: check.Ref{Source: "s1", Line: 7}, Attempt: 2, Fence: 1 << 60,
			Due: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), At: t0, End: t0.Add(5), Status: 200,
			Sent: quick.Sent,
		},
		{Run: "r\x00\"2", From: "192.0.2.7", At: t0.Add(10), End: t0.Add(20), Status: 500},
		{Run: "r3", Ref: check.Ref{Source: "s1", Line: 8}, At: t0.Add(11)},
		{Run: "r4", Ref: check.Ref{Source: "s1", Line: 9}, Attempt: 1, At: t0.Add(12), End: t0.Add(13), Status: 429, RetryAfter: 3 * time.Second, Sent: busy.Sent},
		{Run: "r5", Ref: check.Ref{Source: "s1", Line: 10}, Attempt: 1, At: t0.Add(14), End: t0.Add(21), Status: 503, RetryAfter: 24 * time.Hour},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ReadSeen (-want +got):\n%s", diff)
	}
	if !all {
		t.Error("ReadSeen says the record is not complete, want complete")
	}
}

func TestSeenKnowsItsGaps(t *testing.T) {
	var w journal.SeenWriter
	start := string(w.Start(nil, t0))
	one := string(w.Arrival(nil, &journal.Arrival{N: 1, Run: "r1", At: t0, End: t0, Status: 200}))
	two := string(w.Arrival(nil, &journal.Arrival{N: 2, Run: "r2", At: t0, End: t0, Status: 200}))
	closed, mark := func(n int64) string { return string(w.Close(nil, n)) }, func(n int64) string { return string(w.Mark(nil, n)) }
	rows := []struct {
		name, file string
		seen       int
		all        bool
	}{
		{"nothing", "", 0, false},
		{"closed", start + one + closed(1), 1, true},
		{"idle", start + one + mark(1), 1, true},
		{"killed", start + one, 1, false},
		{"killed in the middle of a line", start + one + two[:len(two)/2], 1, false},
		{"killed in the middle of a line after a mark", start + one + mark(1) + two[:len(two)/2], 1, false},
		{"killed after a mark, before the next arrival was written", start + one + mark(2), 1, false},
		{"more after the mark", start + one + mark(1) + two, 2, false},
		{"a line missing before the close", start + two + closed(2), 1, false},
		{"closed and started again", start + one + closed(1) + start + one + closed(1), 2, true},
		{"killed and started again", start + one + start + one + closed(1), 2, false},
		{"killed while idle and started again", start + one + mark(1) + start + one + closed(1), 2, false},
		{"killed in the middle of a line and started again", start + one + two[:9] + "\n" + start + one + closed(1), 2, false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			seen, all, err := journal.ReadSeen(strings.NewReader(row.file))
			if err != nil || len(seen) != row.seen || all != row.all {
				t.Errorf("ReadSeen = %d arrivals, %t, %v, want %d, %t", len(seen), all, err, row.seen, row.all)
			}
		})
	}
	t.Run("half a line in the middle of a start", func(t *testing.T) {
		if _, _, err := journal.ReadSeen(strings.NewReader(start + one[:9] + "\n" + two)); err == nil {
			t.Error("ReadSeen = nil, want an error")
		}
	})
}

func TestJobsOfTasks(t *testing.T) {
	const line = `{"key":"k","task":"herd","schedule":{"at":"2026-11-21T10:00:00.000Z"},"payload":{"ref":"rated-herd/1"}}` + "\n"
	path := filepath.Join(t.TempDir(), "file.jobs.ndjson")
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	if source, err := journal.SourceOf(path); err != nil || source != "rated-herd" {
		t.Errorf("SourceOf = %q, %v, want that of the payload, since there is no address", source, err)
	}
	asks, err := journal.ReadAsked(strings.NewReader(line), "rated-herd")
	if err != nil || len(asks) != 1 || asks[0].Task != "herd" {
		t.Errorf("ReadAsked = %+v, %v, want a job of the task herd", asks, err)
	}
	tasks, err := journal.ReadTasks(strings.NewReader(`{"name":"herd","kind":"http","rate":"888/m","max_concurrent":3}` + "\n" + `{"name":"plain"}` + "\n"))
	want := []check.Task{{Name: "herd", Rate: check.Rate{Count: 888, Per: time.Minute}, MaxConcurrent: 3}, {Name: "plain"}}
	if diff := cmp.Diff(want, tasks); err != nil || diff != "" {
		t.Errorf("ReadTasks = %v (-want +got):\n%s", err, diff)
	}
	if _, err := journal.ReadTasks(strings.NewReader(`{"name":"herd","rate":"fast"}` + "\n")); err == nil {
		t.Error("ReadTasks of a rate that is none = nil, want an error")
	}
}
