package schema_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// newEntry makes an entry at theRun's address.
func newEntry(t *testing.T, spec schema.Spec, payload []byte) schema.Entry {
	t.Helper()
	e, err := schema.NewEntry(theRun, spec, payload, begin.Add(time.Hour))
	if err != nil {
		t.Fatalf("NewEntry = %v", err)
	}
	return e
}

func TestEntryComesBackFromItsText(t *testing.T) {
	spec := schema.Spec{
		Tenant: "tenant", Kind: schema.KindRetry, Of: retry, Nominal: begin, Accepted: begin.UnixMicro(),
		Job: schema.JobOf(retry), JobName: "job", Generation: 7, Trigger: schema.TriggerManual, Origin: theRun,
		Attempt: 3, Priority: schema.Low,
		Work: &schema.Work{
			HTTP: &schema.HTTPTarget{URL: "https://example.com", Headers: map[string]string{"a": "b"}}, Timeout: schema.DefaultTimeout,
			Retry: &schema.Retry{MaxAttempts: 2, Initial: schema.Duration(time.Second)}, Guarantee: schema.AtMostOnce,
		},
		Misfire: &schema.Misfire{Policy: "skip", Deadline: schema.Duration(time.Hour)},
		Labels:  map[string]string{"team": "x"}, Until: begin.Add(time.Hour), Key: "key", BodyHash: "hash",
	}
	e := newEntry(t, spec, []byte("payload"))
	back := schema.LoadEntry(e.ID, e.Text(), e.Payload, schema.Marks{MovedTo: retry})
	if back.Fault != nil || !reflect.DeepEqual(back.Spec, e.Spec) || back.Marks.MovedTo != retry || string(back.Payload) != "payload" {
		t.Errorf("LoadEntry of %s = %+v, want %+v", e.Text(), back, e)
	}
	spec.PayloadSize = len("payload")
	if !reflect.DeepEqual(back.Spec, spec) {
		t.Errorf("spec = %+v, want %+v", back.Spec, spec)
	}
}

// The nominal time is kept in UTC, wherever the caller lives.
func TestNominalIsUTC(t *testing.T) {
	e := newEntry(t, schema.Spec{Nominal: begin.In(time.FixedZone("", 3600))}, nil)
	if e.Spec.Nominal != begin || !strings.Contains(string(e.Text()), `"nominal":"2030-01-01T00:00:00Z"`) {
		t.Errorf("nominal = %v in %s, want %v", e.Spec.Nominal, e.Text(), begin)
	}
}

// What is absent takes no bytes: a plain one-off entry is its tenant, times and task.
func TestTextHoldsOnlyWhatWasStated(t *testing.T) {
	e := newEntry(t, schema.Spec{Tenant: "t", Nominal: begin, Accepted: 5, Task: "k"}, nil)
	if want := `{"tenant":"t","nominal":"2030-01-01T00:00:00Z","accepted":5,"task":"k"}`; string(e.Text()) != want {
		t.Errorf("Text() = %s, want %s", e.Text(), want)
	}
}

// An older version stores and publishes a newer one's entry as it came.
func TestTextKeepsUnknownFields(t *testing.T) {
	text := []byte(`{ "tenant":"t", "new":{"a":[1]}, "nominal":"2030-01-01T00:00:00Z" }`)
	e := schema.LoadEntry(theRun, text, nil, schema.Marks{})
	if e.Fault != nil || e.Spec.Tenant != "t" || string(e.Text()) != string(text) {
		t.Errorf("LoadEntry = %+v with text %s, want the text as it came: %s", e, e.Text(), text)
	}
}

func TestFaultyTextHasNoSpec(t *testing.T) {
	for _, text := range []string{"", "{", `[]`, `{"tenant":"t","of":"x"}`, `{"tenant":"t","attempt":"1"}`, "\xff"} {
		e := schema.LoadEntry(theRun, []byte(text), nil, schema.Marks{})
		if e.Fault == nil || !reflect.DeepEqual(e.Spec, schema.Spec{}) || string(e.Text()) != text {
			t.Errorf("LoadEntry of %q = %+v, fault %v; want a fault and no spec", text, e.Spec, e.Fault)
		}
	}
}

func FuzzLoadEntry(f *testing.F) {
	f.Add([]byte(`{"tenant":"t","nominal":"2030-01-01T00:00:00Z","accepted":1,"of":"00000000-0000-8000-8000-000000000000"}`), []byte("p"))
	f.Add([]byte(`{"work":{"timeout":"1m","retry":{"factor":1e308}},"payload_size":70000}`), []byte{})
	f.Add([]byte("{"), []byte(nil))
	f.Fuzz(func(t *testing.T, text, payload []byte) {
		e := schema.LoadEntry(theRun, text, payload, schema.Marks{})
		if string(e.Text()) != string(text) || string(e.Payload) != string(payload) {
			t.Errorf("LoadEntry changed the text or the payload: %q, %q", e.Text(), e.Payload)
		}
		if e.Spec.AttemptNumber() < 1 || e.Size() < len(text) {
			t.Errorf("AttemptNumber() = %d, Size() = %d", e.Spec.AttemptNumber(), e.Size())
		}
		_, _ = e.LargePayload()
		_, _ = e.Run(), e.Spec.Start(e.ID)
		if e.Fault != nil {
			return
		}
		again, err := json.Marshal(&e.Spec)
		if err != nil {
			return // a time beyond the year 9999 can be read and not written
		}
		if back := schema.LoadEntry(theRun, again, nil, schema.Marks{}); back.Fault != nil {
			t.Errorf("the spec of %q, written as %q, has the fault %v", text, again, back.Fault)
		}
	})
}

func TestRunOfAnEntry(t *testing.T) {
	if e := newEntry(t, schema.Spec{}, nil); e.Run() != theRun {
		t.Errorf("Run() = %s, want the entry itself", e.Run())
	}
	if e := newEntry(t, schema.Spec{Of: retry}, nil); e.Run() != retry {
		t.Errorf("Run() = %s, want %s", e.Run(), retry)
	}
}

func TestLatenessCountsFromDueOrAcceptance(t *testing.T) {
	for _, c := range []struct {
		name           string
		accepted, want time.Time
	}{
		{"accepted before it was due", begin.Add(-time.Hour), begin},
		{"accepted when it was due", begin, begin},
		{"accepted late", begin.Add(time.Hour), begin.Add(time.Hour)},
	} {
		spec := schema.Spec{Accepted: c.accepted.UnixMicro()}
		if got := spec.Start(theRun); !got.Equal(c.want) {
			t.Errorf("%s: Start = %v, want %v", c.name, got, c.want)
		}
		if e := (schema.Entry{ID: theRun, Spec: spec}); !e.LatenessFrom().Equal(c.want) || !e.RequestedAt().Equal(begin) {
			t.Errorf("%s: LateFrom = %v, Asked = %v, want %v and %v", c.name, e.LatenessFrom(), e.RequestedAt(), c.want, begin)
		}
	}
}

// TestWhoStandsInIsAsLateAsWhomItStandsInFor: a run that was put off was asked for when it was; its
// retry when that is due.
func TestWhoStandsInIsAsLateAsWhomItStandsInFor(t *testing.T) {
	later := begin.Add(time.Minute)
	id := schema.MakeEntryID(later, theRun.Shard(), 7)
	for _, c := range []struct {
		kind schema.Kind
		of   schema.EntryID // that it stands in for
		want time.Time
	}{
		{schema.KindDeferral, theRun, begin},
		{schema.KindWatch, theRun, begin},
		{schema.KindRetry, schema.EntryID{}, later},
		{schema.KindReschedule, schema.EntryID{}, later},
	} {
		e := schema.Entry{ID: id, Spec: schema.Spec{Kind: c.kind, Of: theRun, For: c.of, Accepted: begin.Add(time.Second).UnixMicro()}}
		if !e.RequestedAt().Equal(c.want) || !e.LatenessFrom().Equal(c.want) {
			t.Errorf("%s: Asked = %v, LateFrom = %v, want %v", c.kind, e.RequestedAt(), e.LatenessFrom(), c.want)
		}
	}
}

// A misfire deadline of a one-off run counts from one instant, whichever entry starts the run.
func TestWhatAMisfireDeadlineCountsFrom(t *testing.T) {
	due, later := begin.Add(time.Second), begin.Add(time.Hour)
	at := func(t time.Time) schema.EntryID { return schema.MakeEntryID(t, 3, 4) }
	job := schema.MakeJobID(begin, 3, 5)
	for _, row := range []struct {
		name string
		id   schema.EntryID
		spec schema.Spec
		want time.Time
	}{
		{"the run", at(due), schema.Spec{Accepted: begin.UnixMicro()}, due},
		{"a run that was accepted later", at(due), schema.Spec{Accepted: later.UnixMicro()}, later},
		{"a run of a job, whatever its generation", at(due), schema.Spec{Accepted: later.UnixMicro(), Job: job}, due},
		{"a late entry", at(later), schema.Spec{Kind: schema.KindLate, Of: at(due), For: at(due)}, later},
		{"a reschedule", at(later), schema.Spec{Kind: schema.KindReschedule, Of: at(due)}, later},
		{"a change of what is overdue", at(later), schema.Spec{Kind: schema.KindReschedule, Of: at(due), DeadlineFrom: due.UnixMilli()}, due},
		{"a deferral", at(later), schema.Spec{Kind: schema.KindDeferral, Of: at(due), For: at(due), DeadlineFrom: due.UnixMilli()}, due},
		{"a deferral of an older version", at(later), schema.Spec{Kind: schema.KindDeferral, Of: at(due), For: at(due)}, later},
		{"a deferral of a run of a job", at(later), schema.Spec{Kind: schema.KindDeferral, Of: at(due), For: at(due), Job: job}, due},
		{"a retry", at(later), schema.Spec{Kind: schema.KindRetry, Of: at(due), Attempt: 2}, later},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.spec.Nominal = begin
			e, err := schema.NewEntry(row.id, row.spec, nil, later)
			if err != nil {
				t.Fatal(err)
			}
			e = schema.LoadEntry(e.ID, e.Text(), nil, schema.Marks{})
			if got := e.MisfireFrom(); !got.Equal(row.want) || got.Location() != time.UTC {
				t.Errorf("MisfireFrom of %s = %v, want %v", e.Text(), got, row.want)
			}
		})
	}
}

func TestLargePayload(t *testing.T) {
	large := make([]byte, schema.InlinePayload+1)
	for _, c := range []struct {
		name    string
		spec    schema.Spec
		payload []byte
		at      schema.EntryID
		size    int
	}{
		{name: "none"},
		{name: "as large as fits the row", payload: large[1:], size: schema.InlinePayload},
		{name: "larger", payload: large, at: theRun, size: schema.InlinePayload + 1},
		{name: "that of another entry", spec: schema.Spec{PayloadAt: retry, PayloadSize: 9000}, at: retry, size: 9000},
	} {
		e := newEntry(t, c.spec, c.payload)
		at, ok := e.LargePayload()
		if ok == c.at.IsZero() || at != c.at || e.Spec.PayloadSize != c.size {
			t.Errorf("%s: LargePayload = %s, %v of %d bytes; want %s of %d", c.name, at, ok, e.Spec.PayloadSize, c.at, c.size)
		}
		back := schema.LoadEntry(e.ID, e.Text(), nil, schema.Marks{})
		if again, _ := back.LargePayload(); again != at {
			t.Errorf("%s: LargePayload of the entry read = %s, want %s", c.name, again, at)
		}
	}
}

func TestAttemptNumberIsAtLeastOne(t *testing.T) {
	for in, want := range map[int]int{-1: 1, 0: 1, 1: 1, 7: 7} {
		if got := (&schema.Spec{Attempt: in}).AttemptNumber(); got != want {
			t.Errorf("AttemptNumber of %d = %d, want %d", in, got, want)
		}
	}
}

func TestCellsComeBack(t *testing.T) {
	record := &schema.Record{
		Entry: theRun, Executor: "ex", Region: "eu", Started: begin, Finished: begin.Add(time.Second), Outcome: schema.TimedOut,
		Error: "e", Status: 504, Output: "o", Redispatched: true, Final: true, Next: retry, To: retry, Reason: "r",
	}
	text, err := schema.EncodeRecord(record)
	if err != nil {
		t.Fatalf("EncodeRecord = %v", err)
	}
	if got, err := schema.DecodeRecord(text); err != nil || !reflect.DeepEqual(got, record) {
		t.Errorf("DecodeRecord(%s) = %+v, %v; want %+v", text, got, err, record)
	}
	session := &schema.SessionRef{Executor: "ex", ID: "id", Started: begin, Entry: theRun}
	if text, err = schema.EncodeSessionRef(session); err != nil {
		t.Fatalf("EncodeSessionRef = %v", err)
	}
	if got, err := schema.DecodeSessionRef(text); err != nil || *got != *session {
		t.Errorf("DecodeSessionRef(%s) = %+v, %v; want %+v", text, got, err, session)
	}
	if got, err := schema.DecodeRecord([]byte("{")); err == nil || got != nil {
		t.Errorf("DecodeRecord of half a record = %+v, %v; want an error", got, err)
	}
	if got, err := schema.DecodeSessionRef([]byte(`{"session":1}`)); err == nil || got != nil {
		t.Errorf("DecodeSessionRef of a faulty one = %+v, %v; want an error", got, err)
	}
	// The common record is short: a run costs few bytes.
	short, err := schema.EncodeRecord(&schema.Record{Entry: theRun, Executor: "e", Started: begin, Finished: begin, Outcome: schema.Succeeded})
	if err != nil || strings.Contains(string(short), "next") || strings.Contains(string(short), "final") || strings.Contains(string(short), `"to"`) {
		t.Errorf("EncodeRecord of a plain success = %s, %v; want no empty fields", short, err)
	}
}
