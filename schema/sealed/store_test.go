package sealed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/embedded"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testKeys hide text, and open it at its place alone. They are no encryption: what admin.Keyring
// does is tested there.
type testKeys struct {
	name  string
	known []string // names of the keys that open, besides name
}

var errNoKey = errors.New("no key")

func (k testKeys) FirstKey() string { return k.name }

func (k testKeys) SealRow(text []byte, place string) ([]byte, error) {
	if k.name == "" {
		return nil, errNoKey
	}
	hidden := bytes.Clone(text)
	for i := range hidden {
		hidden[i] ^= 0x5a
	}
	return schema.Sealed{Key: k.name, Nonce: make([]byte, 12), Text: append(hidden, tag(k.name, place)...)}.Append(nil), nil
}

func (k testKeys) OpenRow(sealed []byte, place string) ([]byte, error) {
	s, err := schema.ParseSealed(sealed)
	if err != nil {
		return nil, err
	}
	text, ok := bytes.CutSuffix(s.Text, tag(s.Key, place))
	if !ok || s.Key != k.name && !slices.Contains(k.known, s.Key) {
		return nil, fmt.Errorf("%w: key %q", schema.ErrSealed, s.Key)
	}
	text = bytes.Clone(text)
	for i := range text {
		text[i] ^= 0x5a
	}
	return text, nil
}

func tag(name, place string) []byte {
	sum := sha256.Sum256([]byte(name + "\x00" + place))
	return sum[:16]
}

func all(context.Context, string) (bool, error) { return true, nil }

func openEmbedded(t *testing.T) *embedded.Store {
	t.Helper()
	s, err := embedded.Open(embedded.Config{})
	if err != nil {
		t.Fatalf("Open = %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return s
}

// TestContract: whoever works on a store that seals everything sees no difference.
func TestContract(t *testing.T) {
	schematest.Exercise(t, func(t *testing.T) schema.Store {
		s := New(openEmbedded(t), testKeys{name: "k1"}, nil)
		s.Follow(all)
		return s
	})
}

const marker = "moon-marker"

// world is a store with two tenants, of which "secret" asks for encryption.
type world struct {
	raw schema.Store
	*Store
	keys testKeys
	run  schema.RunID
	now  time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{raw: openEmbedded(t), keys: testKeys{name: "k1"}, now: time.Now().UTC().Truncate(time.Millisecond)}
	w.run = schema.MakeEntryID(w.now, 1, 1)
	w.Store = New(w.raw, w.keys, nil)
	w.Follow(func(_ context.Context, tenant string) (bool, error) { return tenant == "secret", nil })
	return w
}

// with returns the store as a node with other keys has it.
func (w *world) with(k testKeys) *Store {
	s := New(w.raw, k, nil)
	s.Follow(all)
	return s
}

func (w *world) entry(t *testing.T, tenant string, id schema.EntryID, payload string) schema.Entry {
	t.Helper()
	e, err := schema.NewEntry(id, schema.Spec{Tenant: tenant, Nominal: w.now, Accepted: w.now.UnixMicro()}, []byte(payload), w.now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// holds reports whether v, written out, holds the marker.
func holds(t *testing.T, v any) bool {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	return bytes.Contains(text, []byte(marker)) || strings.Contains(fmt.Sprintf("%+v", v), marker)
}

// TestPayloads: payloads of a tenant that asks for it are sealed, inline or large, and open again;
// those of another are what they are.
func TestPayloads(t *testing.T) {
	w := newWorld(t)
	for i, size := range []int{20, schema.InlinePayload - 20, schema.InlinePayload, schema.InlinePayload + 1, schema.MaxPayload} {
		payload := `"` + marker + strings.Repeat("x", size-len(marker)-2) + `"`
		id := schema.MakeEntryID(w.now, 1, uint64(i)+10)
		e := w.entry(t, "secret", id, payload)
		must(t, w.PutEntries(t.Context(), []schema.Entry{e}))
		if string(e.Payload) != payload {
			t.Errorf("%d bytes: PutEntries has changed its argument", size)
		}
		read := func(s schema.Store) []byte {
			got, err := s.EntriesByID(t.Context(), id.Partition(), []schema.EntryID{id})
			must(t, err)
			if at, large := got[0].LargePayload(); large {
				payload, err := s.Payload(t.Context(), at)
				must(t, err)
				return payload
			}
			return got[0].Payload
		}
		if got := read(w.raw); !schema.IsSealed(got) || bytes.Contains(got, []byte(marker)) {
			t.Errorf("%d bytes are stored as %.40q…, want them sealed", size, got)
		}
		if got := read(w.Carried()); size <= schema.InlinePayload && !schema.IsSealed(got) {
			t.Errorf("%d bytes are carried as %.40q…, want them sealed", size, got)
		}
		if got := read(w.Store); string(got) != payload {
			t.Errorf("%d bytes are read as %.40q…, want what was written", size, got)
		}
		if got := read(w.with(testKeys{name: "k2", known: []string{"k1"}})); string(got) != payload {
			t.Errorf("%d bytes are read with a newer key first as %.40q…, want what was written", size, got)
		}
		if got := read(w.with(testKeys{name: "k2"})); !schema.IsSealed(got) {
			t.Errorf("%d bytes are read without their key as %.40q…, want them sealed", size, got)
		}
	}
	plain := w.entry(t, "plain", w.run, `"`+marker+`"`)
	must(t, w.PutEntries(t.Context(), []schema.Entry{plain}))
	if got, err := w.raw.EntriesByID(t.Context(), w.run.Partition(), []schema.EntryID{w.run}); err != nil || string(got[0].Payload) != string(plain.Payload) {
		t.Errorf("the payload of another tenant is stored as %q, %v", got[0].Payload, err)
	}
}

// TestPayloadOpensForItsRunAlone: one that is moved to another run's row does not open.
func TestPayloadOpensForItsRunAlone(t *testing.T) {
	w := newWorld(t)
	stored, err := w.Seal(t.Context(), []schema.Entry{w.entry(t, "secret", w.run, `"`+marker+`"`)})
	must(t, err)
	other := w.entry(t, "secret", schema.MakeEntryID(w.now, 1, 2), "1")
	other.Payload = stored[0].Payload
	if got, err := w.OpenPayload(&other); !errors.Is(err, schema.ErrSealed) {
		t.Errorf("OpenPayload of another run = %q, %v; want ErrSealed", got, err)
	}
	retry := other
	retry.Spec.Of = w.run
	if got, err := w.OpenPayload(&retry); err != nil || !holds(t, string(got)) {
		t.Errorf("OpenPayload of a retry of the run = %q, %v; want the payload", got, err)
	}
}

// TestRecords: error, output and progress of an attempt are sealed, and open again; without the key
// the record says so, and is not lost by being written again.
func TestRecords(t *testing.T) {
	w := newWorld(t)
	rec := schema.Record{
		Entry: w.run, Finished: w.now, Outcome: schema.Failed, Error: marker, Output: marker, Status: 500, Final: true,
		Progress: &schema.RunProgress{Done: 1, Text: marker, At: w.now},
	}
	a := schema.Attempt{Run: w.run, Number: 1, Fence: 1, Record: &rec, Written: w.now.UnixMicro(), Expires: w.now.Add(time.Hour), Tenant: "secret"}
	must(t, w.PutAttempts(t.Context(), []schema.Attempt{a}))
	if rec.Error != marker || rec.Progress.Text != marker {
		t.Error("PutAttempts has changed its argument")
	}
	read := func(s schema.Store) *schema.Record {
		got, err := s.Attempts(t.Context(), w.run.Partition(), []schema.RunID{w.run})
		must(t, err)
		return got[0].Record
	}
	if got := read(w.raw); holds(t, got) || got.Status != 500 || !got.Final {
		t.Errorf("the record is stored as %+v, want it without what was sealed", got)
	}
	if got := read(w.Store); !reflect.DeepEqual(*got, rec) {
		t.Errorf("the record is read as %+v, want %+v", got, rec)
	}
	without := w.with(testKeys{name: "k2"})
	got := read(without)
	if !strings.Contains(got.Error, `key "k1"`) || got.Sealed == "" || got.Output != "" {
		t.Errorf("the record is read without its key as %+v, want that it says so", got)
	}
	a.Record = got
	must(t, without.PutAttempts(t.Context(), []schema.Attempt{a}))
	if got := read(w.Store); got.Error != marker || got.Output != marker {
		t.Errorf("the record, written again by a node without its key, is read as %+v", got)
	}
	held := w.SealAttempt(t.Context(), schema.Attempt{Run: w.run, Number: 1, Record: &rec, Tenant: "secret"})
	lease, err := schema.Lease{Key: schema.RunLease(w.run), Fence: 1}.Ended(held)
	if must(t, err); bytes.Contains(lease.Record, []byte(marker)) {
		t.Errorf("a lease says %s", lease.Record)
	}
}

// TestWithoutAKey: what cannot be sealed is not written clear. An outcome is kept all the same.
func TestWithoutAKey(t *testing.T) {
	w := newWorld(t)
	s := w.with(testKeys{})
	if err := s.PutEntries(t.Context(), []schema.Entry{w.entry(t, "secret", w.run, `"`+marker+`"`)}); !errors.Is(err, errNoKey) {
		t.Errorf("PutEntries = %v, want that of the keys", err)
	}
	rec := schema.Record{Entry: w.run, Finished: w.now, Outcome: schema.Failed, Error: marker, Output: marker}
	must(t, s.PutAttempts(t.Context(), []schema.Attempt{{Run: w.run, Number: 1, Fence: 1, Record: &rec, Written: 1, Expires: w.now.Add(time.Hour), Tenant: "secret"}}))
	got, err := w.raw.Attempts(t.Context(), w.run.Partition(), []schema.RunID{w.run})
	must(t, err)
	if r := got[0].Record; holds(t, r) || r.Outcome != schema.Failed || r.Error == "" {
		t.Errorf("the record is stored as %+v, want the outcome, and why nothing else is kept", r)
	}
	// where it is not known whether the tenant asks: sealed if there is a key
	unknown := func(context.Context, string) (bool, error) { return false, schema.ErrUnavailable }
	w.Follow(unknown)
	if got, err := w.SealOne(t.Context(), ptr(w.entry(t, "plain", w.run, `"`+marker+`"`))); err != nil || !schema.IsSealed(got) {
		t.Errorf("SealOne while the tenant cannot be read = %q, %v; want it sealed", got, err)
	}
	s.Follow(unknown)
	if got, err := s.SealOne(t.Context(), ptr(w.entry(t, "plain", w.run, `"`+marker+`"`))); err != nil || got != nil {
		t.Errorf("SealOne while the tenant cannot be read, and there is no key = %q, %v; want it as it is", got, err)
	}
}

func ptr[T any](v T) *T { return &v }

// TestParts: parts are sealed; an output of another tenant that begins as if it were is what it is.
func TestParts(t *testing.T) {
	w := newWorld(t)
	sealed, err := w.keys.SealRow([]byte(marker), "elsewhere")
	must(t, err)
	for i, c := range []struct{ tenant, data string }{
		{"secret", strings.Repeat(marker, schema.PartSize/len(marker))},
		{"plain", marker},
		{"plain", string(sealed)},
		{"secret", "\x00cs\x01 and more"},
		{"plain", string(verbatim) + marker},
	} {
		p := schema.Part{PartKey: schema.PartKey{Attempt: i + 1, Fence: 1, Number: 1}, Data: []byte(c.data), Tenant: c.tenant}
		must(t, w.PutPart(t.Context(), w.run, schema.OutputPart, p, w.now.UnixMicro(), w.now.Add(time.Hour)))
		got, err := w.LastPart(t.Context(), w.run, schema.OutputPart, p.PartKey)
		if err != nil || string(got.Data) != c.data {
			t.Errorf("part %d of %s is read as %.40q…, %v", i, c.tenant, got.Data, err)
		}
		raw, err := w.raw.LastPart(t.Context(), w.run, schema.OutputPart, p.PartKey)
		if must(t, err); c.tenant == "secret" && holds(t, string(raw.Data)) {
			t.Errorf("part %d of %s is stored as %.40q…", i, c.tenant, raw.Data)
		}
	}
	if parts, err := w.with(testKeys{name: "k2"}).Parts(t.Context(), w.run, schema.OutputPart, schema.PartKey{}, 9); !errors.Is(err, schema.ErrSealed) || len(parts) != 0 {
		t.Errorf("Parts without the key = %d of them, %v; want ErrSealed", len(parts), err)
	}
}

// TestJobs: payload and definition of a job are sealed in both its generations, and what others
// share is not changed.
func TestJobs(t *testing.T) {
	w := newWorld(t)
	id := schema.MakeJobID(w.now, 1, 7)
	spec := schema.JobSpec{
		Tenant: "secret", Name: "n", Payload: json.RawMessage(`"` + marker + `"`),
		Workflow: &schema.JobWorkflow{Definition: []byte(marker)}, Created: w.now, Updated: w.now,
	}
	job := schema.Job{ID: id, Current: schema.Generation{Number: 1, State: schema.JobActive, Spec: spec}}
	must(t, w.CreateJob(t.Context(), job))
	next := schema.Job{ID: id, Current: schema.Generation{Number: 2, State: schema.JobActive, Spec: spec}, Before: &job.Current, Cut: w.now}
	must(t, w.SwapJob(t.Context(), 1, next))
	if spec.Workflow.Definition == nil || next.Before.Spec.Payload == nil {
		t.Error("the job that was written has changed")
	}
	raw, err := w.raw.Job(t.Context(), id)
	if must(t, err); holds(t, raw) || raw.Before == nil || holds(t, raw.Before) || holds(t, raw.Current.Spec.Workflow) {
		t.Errorf("the job is stored as %+v", raw)
	}
	for range 2 { // also what is remembered opens
		jobs, err := w.Jobs(t.Context(), id.Shard(), []schema.JobID{id})
		must(t, err)
		one, err := w.Job(t.Context(), id)
		must(t, err)
		for _, got := range []schema.Job{jobs[0], one} {
			if !reflect.DeepEqual(got.Current.Spec, spec) || got.Before == nil || !reflect.DeepEqual(got.Before.Spec, spec) {
				t.Errorf("the job is read as %+v, before it %+v", got.Current.Spec, got.Before)
			}
		}
	}
	without := w.with(testKeys{name: "k2"})
	if _, err := without.Job(t.Context(), id); !errors.Is(err, schema.ErrSealed) {
		t.Errorf("Job without its key = %v, want ErrSealed", err)
	}
	if jobs, err := without.Jobs(t.Context(), id.Shard(), []schema.JobID{id}); err != nil || !errors.Is(jobs[0].Current.Fault, schema.ErrSealed) {
		t.Errorf("Jobs without the key = %+v, %v; want a fault", jobs, err)
	}
}

// TestJobsMadeTogether: jobs that are written as one batch are sealed as each alone is.
func TestJobsMadeTogether(t *testing.T) {
	w := newWorld(t)
	var jobs []schema.Job
	for i := range 3 {
		jobs = append(jobs, schema.Job{
			ID: schema.MakeJobID(w.now, 1, uint64(7+i)), // #nosec G115 -- small
			Current: schema.Generation{Number: 1, State: schema.JobActive, Spec: schema.JobSpec{
				Tenant: "secret", Payload: json.RawMessage(`"` + marker + `"`), Created: w.now, Updated: w.now,
			}},
		})
	}
	must(t, w.CreateJobs(t.Context(), jobs))
	for i := range jobs {
		raw, err := w.raw.Job(t.Context(), jobs[i].ID)
		if must(t, err); holds(t, raw) {
			t.Errorf("the job is stored as %+v", raw)
		}
		got, err := w.Job(t.Context(), jobs[i].ID)
		if must(t, err); !reflect.DeepEqual(got.Current.Spec, jobs[i].Current.Spec) {
			t.Errorf("the job is read as %+v", got.Current.Spec)
		}
	}
}

// TestEveryCallWasLookedAt: a call that comes to the store is sealed here, or was found to hold
// nothing that is.
func TestEveryCallWasLookedAt(t *testing.T) {
	clear := strings.Fields(`APIKey APIKeys AdvanceCursor Audit Calendar Calendars CancelOperation CancelRun Clocks Close CountDeadLetters
		CreateAPIKey Cursor Cursors Decide Decided DeleteAPIKey DeleteCalendar DeleteLimitMark DeleteNotification DeleteNotificationGroup
		DeleteSecret DeleteSubscription DeleteTask DeleteWaiter EntryIDs JobByName JobIDs JobRuns KeepAttempts Lease LimitsWithWaiters ListJob
		ListJobs Listening Marks MoveRun NameStats NoteDeadLetters NotedDeadLetters Notification Notifications OpenOperations Operation Operations
		PutAudit PutCalendar PutJobRuns PutListening PutNameStats PutNotification PutOperation PutRated PutResolution PutStats PutSubscription
		PutTask PutTenant PutWaiter RatedTasks RegisterName Resolutions Secret Secrets Session Settings SigningKeys Stats Subscribers SwapLease
		SwapSecret SwapSession SwapSigningKeys Task Tasks Tenant Tenants Time TouchAPIKey TouchSecret TransferName Waiters`)
	sealed := strings.Fields(`Attempts CreateJob CreateJobs DeadLetter DeadLetters Entries EntriesByID Incidents Job Jobs JobsOf LastPart
		NotificationGroups Parts Payload PutAttempts PutDeadLetters PutEntries PutIncidents PutPart RegisterKey RegisteredKey SwapJob
		SwapNotificationGroup`)
	calls := reflect.TypeFor[schema.Store]()
	for i := range calls.NumMethod() {
		name := calls.Method(i).Name
		own := false
		for _, rows := range []any{entryRows{}, runRows{}, jobRows{}, noticeRows{}} {
			_, has := reflect.TypeOf(rows).MethodByName(name)
			own = own || has
		}
		if own != slices.Contains(sealed, name) || own == slices.Contains(clear, name) {
			t.Errorf("%s: sealed here: %t; decide what it is, and say so in this test", name, own)
		}
	}
}

// TestKeysAndLettersAndNotices: the rest of what is sealed opens again, and is not stored clear.
func TestKeysAndLettersAndNotices(t *testing.T) {
	w := newWorld(t)
	e := w.entry(t, "secret", w.run, `"`+marker+strings.Repeat("x", schema.InlinePayload)+`"`)
	claim := schema.KeyRecord{BodyHash: "h", Entry: w.run, Text: []byte(`{"tenant":"secret","payload":"` + marker + `"}`), Payload: e.Payload, Expires: w.now.Add(time.Hour)}
	for i := range 2 {
		got, mine, err := w.RegisterKey(t.Context(), "secret", "key", claim, w.now.Add(time.Hour))
		if err != nil || !mine || string(got.Text) != string(claim.Text) || string(got.Payload) != string(claim.Payload) {
			t.Errorf("RegisterKey, time %d = %+v, %t, %v", i+1, got, mine, err)
		}
	}
	raw, err := w.raw.RegisteredKey(t.Context(), "secret", "key")
	if must(t, err); holds(t, string(raw.Text)) || holds(t, string(raw.Payload)) || !json.Valid(raw.Text) {
		t.Errorf("the key is stored as %q, %q", raw.Text, raw.Payload)
	}

	rec := schema.Record{Entry: w.run, Finished: w.now, Outcome: schema.Failed, Error: marker, Output: marker, Final: true}
	l := schema.DeadLetter{
		Tenant: "secret", Run: w.run, Entry: e, Attempts: 2, Last: rec, Written: w.now.UnixMicro(), Expires: w.now.Add(time.Hour),
		Earlier: []schema.Attempt{{Run: w.run, Number: 1, Fence: 1, Record: &schema.Record{Entry: w.run, Outcome: schema.Failed, Error: marker}}},
	}
	must(t, w.PutDeadLetters(t.Context(), []schema.DeadLetter{l}))
	stored, err := w.raw.DeadLetter(t.Context(), "secret", w.run)
	if must(t, err); holds(t, stored.Last) || holds(t, stored.Earlier[0].Record) || holds(t, string(stored.Entry.Payload)) {
		t.Errorf("the dead letter is stored as %+v", stored)
	}
	got, err := w.DeadLetter(t.Context(), "secret", w.run)
	if err != nil || got.Last.Error != marker || got.Earlier[0].Record.Error != marker || string(got.Entry.Payload) != string(e.Payload) {
		t.Errorf("the dead letter is read as %+v, %v", got, err)
	}
	got, err = w.with(testKeys{name: "k2"}).DeadLetter(t.Context(), "secret", w.run)
	if err != nil || !errors.Is(got.Fault, schema.ErrSealed) || got.Entry.Payload != nil {
		t.Errorf("the dead letter is read without its key as %+v, %v; want a fault", got, err)
	}

	n := schema.Incident{Tenant: "secret", ID: w.run, Run: w.run, Error: marker, Pattern: marker, Expires: w.now.Add(time.Hour)}
	must(t, w.PutIncidents(t.Context(), []schema.Incident{n}))
	incidents := func(s schema.Store) schema.Incident {
		all, err := s.Incidents(t.Context(), "secret", w.run.Bucket(), schema.EntryID{}, 9)
		must(t, err)
		return all[0]
	}
	if got := incidents(w.raw); holds(t, got) {
		t.Errorf("the incident is stored as %+v", got)
	}
	if got := incidents(w.Store); got.Error != marker || got.Pattern != marker {
		t.Errorf("the incident is read as %+v", got)
	}
	g := schema.NotificationGroup{
		Tenant: "secret", Name: "rule/1", Revision: 1, Rule: "rule", Examples: []schema.NotifiedRun{{Run: w.run, Error: marker}},
		Values: []schema.NotificationValue{{Name: "error_pattern", Value: marker}},
	}
	must(t, w.SwapNotificationGroup(t.Context(), 0, g))
	groups := func(s schema.Store) schema.NotificationGroup {
		all, err := s.NotificationGroups(t.Context(), "secret", "", 9)
		must(t, err)
		return all[0]
	}
	if got := groups(w.raw); holds(t, got) {
		t.Errorf("the group is stored as %+v", got)
	}
	if got := groups(w.Store); got.Examples[0].Error != marker || got.Values[0].Value != marker {
		t.Errorf("the group is read as %+v", got)
	}
}

// hints notes what it is handed.
type hints struct {
	entries atomic.Pointer[[]schema.Entry]
}

func (h *hints) Near(_ schema.Shard, entries []schema.Entry) { h.entries.Store(&entries) }

// TestHints: nodes tell one another of entries as they are stored.
func TestHints(t *testing.T) {
	w := newWorld(t)
	var told hints
	Hints{&told, w.Store}.Near(1, []schema.Entry{w.entry(t, "secret", w.run, `"`+marker+`"`), w.entry(t, "plain", w.run, "1")})
	got := *told.entries.Load()
	if len(got) != 2 || !schema.IsSealed(got[0].Payload) || string(got[1].Payload) != "1" {
		t.Errorf("Near hands over %q and %q, want the first sealed", got[0].Payload, got[1].Payload)
	}
}

// TestPlainTenantsCostNothing: for tenants that do not ask for it nothing is allocated.
func TestPlainTenantsCostNothing(t *testing.T) {
	w := newWorld(t)
	e := w.entry(t, "plain", w.run, `"`+marker+`"`)
	entries := []schema.Entry{e, e}
	rec := schema.Record{Entry: w.run, Outcome: schema.Failed, Error: marker}
	a := schema.Attempt{Run: w.run, Record: &rec, Tenant: "plain"}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		stored, err := w.Seal(ctx, entries)
		one, oneErr := w.SealOne(ctx, &entries[0])
		if err != nil || oneErr != nil || one != nil || &stored[0] != &entries[0] || w.SealAttempt(ctx, a).Record != &rec {
			t.Error("something of a plain tenant was changed")
		}
		w.box.open(&entries[1])
		w.box.openRecord(w.run, 0, &rec)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// TestOlderKeysAreNamed: the log says once which older key is still needed, and which is missing.
func TestOlderKeysAreNamed(t *testing.T) {
	w := newWorld(t)
	stored, err := w.Seal(t.Context(), []schema.Entry{w.entry(t, "secret", w.run, `"`+marker+`"`)})
	must(t, err)
	var log bytes.Buffer
	to := slog.New(slog.NewTextHandler(&log, nil))
	for _, k := range []testKeys{{name: "k1"}, {name: "k2", known: []string{"k1"}}, {name: "k2"}} {
		s := New(w.raw, k, to)
		for range 3 {
			if _, err := s.OpenPayload(&stored[0]); err != nil && k.known != nil {
				t.Errorf("OpenPayload = %v", err)
			}
		}
	}
	text := log.String()
	if strings.Count(text, "key=k1") != 2 || strings.Count(text, "still needed") != 1 || strings.Count(text, "cannot be opened") == 0 || strings.Contains(text, marker) {
		t.Errorf("the log says:\n%swant the older key once, and the missing one once", text)
	}
}
