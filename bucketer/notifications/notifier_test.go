package notifications_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/bucketer/engine"
	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const tenant = "t"

// world is a store in memory, an Engine on it, and notifiers.
type world struct {
	*bucketertest.World
	e     *engine.Engine
	began time.Time
}

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: bucketertest.NewWorld(t, schema.Settings{Shards: 4}), began: time.Now()}
		w.e = w.engine()
		f(t, w)
	})
}

// engine returns an Engine of another node.
func (w *world) engine() *engine.Engine {
	w.T.Helper()
	e, err := engine.New(bucketer.Config{Store: w.Store(), Hints: w, Signals: w})
	if err == nil {
		err = errors.Join(e.Refresh(w.T.Context()), e.RefreshListening(w.T.Context()))
	}
	if err != nil {
		w.T.Fatal(err)
	}
	return e
}

// notify runs the notifier of another node, until the returned func is called. It owns all while
// owns says so.
func (w *world) notify(owns *atomic.Bool) (stop func()) {
	w.T.Helper()
	e := w.engine()
	n := notifications.New(notifications.Config{
		Bucketer: e.Bucketer, Store: w.Store(), Rules: e.NotificationRules(), Owns: func(schema.Shard) bool { return owns.Load() },
	})
	ctx, cancel := context.WithCancel(w.T.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = n.Run(ctx) // returns nil
	}()
	return func() { cancel(); <-done }
}

func always() *atomic.Bool {
	owns := new(atomic.Bool)
	owns.Store(true)
	return owns
}

// put puts a rule with a webhook, changed by f.
func (w *world) put(f func(r *schema.NotificationRule)) schema.NotificationRule {
	w.T.Helper()
	r := schema.NotificationRule{
		Tenant: tenant, Name: "n", On: []schema.NotificationKind{schema.NotifyFailed}, GroupBy: []string{"job"}, SendResolved: true,
		Sinks:     []schema.NotificationSink{{Webhook: &schema.HTTPTarget{URL: "https://x.test/hook"}}},
		GroupWait: schema.Duration(30 * time.Second), GroupInterval: schema.Duration(5 * time.Minute), RepeatInterval: schema.Duration(4 * time.Hour),
	}
	if f != nil {
		f(&r)
	}
	stored, _, err := w.e.PutNotification(w.T.Context(), r)
	if err == nil {
		err = w.e.RefreshListening(w.T.Context())
	}
	if err != nil {
		w.T.Fatalf("PutNotification = %v", err)
	}
	return stored
}

// fail writes an incident of now.
func (w *world) fail(job string, id schema.JobID, number int) {
	w.T.Helper()
	now := time.Now()
	n := schema.Incident{
		Tenant: tenant, ID: schema.MakeEntryID(now, 1, schema.HashOf(job, fmt.Sprint(number))), Kinds: []schema.NotificationKind{schema.NotifyFailed, schema.NotifyDead},
		Run: schema.MakeEntryID(now, 2, uint64(number)), Job: id, JobName: job, Error: "refused", Pattern: "refused", Expires: now.Add(schema.IncidentRetention),
	}
	if err := w.Counts.PutIncidents(w.T.Context(), []schema.Incident{n}); err != nil {
		w.T.Fatalf("PutIncidents = %v", err)
	}
}

// told is a message of a webhook.
type told struct {
	id   schema.EntryID
	at   time.Duration // since the test began
	Type string
	Data struct {
		Labels       map[string]string
		Group        string
		Count, Total int
		Number       int
		Title        string
		Runs         []struct{ Job, Error string }
	}
}

// runsOfMessages returns the runs that send messages, by their time.
func (w *world) runsOfMessages() (all []schema.Entry) {
	w.T.Helper()
	seen := make(map[schema.EntryID]bool)
	for _, e := range w.Entries(48 * time.Hour) {
		if e.Spec.Trigger == schema.TriggerNotification && e.Spec.Kind == schema.KindRun && !seen[e.ID] {
			seen[e.ID] = true
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b schema.Entry) int { return a.ID.Time().Compare(b.ID.Time()) })
	return all
}

// counts returns of how many failures each message tells.
func (w *world) counts() (counts []int) {
	w.T.Helper()
	for _, e := range w.runsOfMessages() {
		var m told
		if err := json.Unmarshal(e.Payload, &m); err != nil {
			w.T.Errorf("body of %s: %v", e.ID, err)
		}
		counts = append(counts, m.Data.Count)
	}
	return counts
}

// messages returns the messages that were sent, by their time.
func (w *world) messages() (all []told) {
	w.T.Helper()
	for _, e := range w.runsOfMessages() {
		m := told{id: e.ID, at: e.ID.Time().Sub(w.began)}
		if err := json.Unmarshal(e.Payload, &m); err != nil {
			w.T.Errorf("body of %s: %v", e.ID, err)
		}
		if e.Spec.Priority != schema.Low || e.Spec.Work.HTTP.URL != "https://x.test/hook" || e.Spec.Labels["notification"] != "n" || e.Spec.Labels["sink"] != "webhook" {
			w.T.Errorf("run of a message: %+v", e.Spec)
		}
		all = append(all, m)
	}
	return all
}

// TestAStorm: 100,000 failures (failures) in a minute, and the owner dies twice in the middle: once
// between the decision of a message and its runs. All are told, once, in few messages.
func TestAStorm(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		const seconds, jobs = 60, 3
		each := failures / seconds
		total := 0
		ownsA, ownsB := always(), new(atomic.Bool)
		stopA := w.notify(ownsA)
		defer w.notify(ownsB)()
		for s := range seconds {
			now := each
			if s == seconds-1 {
				now = failures - total
			}
			for i := range now {
				w.fail(fmt.Sprint("job-", i%jobs), schema.JobID{}, total+i)
			}
			total += now
			switch s {
			case 28: // the message of the first group is decided, and its run is not written
				w.Befall(func(_ context.Context, op string) schematest.Fault {
					return schematest.Fault{Fail: op == "PutEntries"}
				})
			case 37:
				stopA()
				w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
				ownsB.Store(true)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(40 * time.Minute)
		perGroup, counted := make(map[string]int), 0
		ids := make(map[schema.EntryID]bool)
		for _, m := range w.messages() {
			perGroup[m.Data.Labels["job"]]++
			counted += m.Data.Count
			ids[m.id] = true
			if m.Type != "notification.firing" || len(m.Data.Runs) > schema.MaxNotifiedRuns {
				t.Errorf("message = %+v", m)
			}
		}
		if counted != total {
			t.Errorf("messages tell of %d failures, want %d", counted, total)
		}
		if len(perGroup) != jobs || len(ids) != 2*jobs {
			t.Errorf("messages by group = %v with %d ids, want 1 + ⌈1m/5m⌉ = 2 for each of %d", perGroup, len(ids), jobs)
		}
		for job, n := range perGroup {
			if n != 2 {
				t.Errorf("%s: %d messages, want 2", job, n)
			}
		}
		groups, err := w.Counts.NotificationGroups(t.Context(), tenant, "", 10)
		if err != nil || len(groups) != 1 || groups[0].Name != schema.NotificationCursor {
			t.Errorf("groups that are left = %+v, %v; want the cursor alone", groups, err)
		}
	})
}

// TestTwoOwners: two nodes that take themselves for the owner all the time tell everything once.
func TestTwoOwners(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		defer w.notify(always())()
		time.Sleep(2 * time.Second)
		defer w.notify(always())()
		for i := range 1000 {
			w.fail("a", schema.JobID{}, i)
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Minute)
		counted := 0
		all := w.messages()
		for _, m := range all {
			counted += m.Data.Count
		}
		if counted != 1000 || len(all) != 5 { // at 30 s, and every 5 min until 16 min 40 s are told
			t.Errorf("%d messages tell of %d failures, want 5 and 1000: %+v", len(all), counted, all)
		}
	})
}

// history writes that a run of a job ended.
func (w *world) history(id schema.JobID, state schema.State) {
	w.T.Helper()
	now := time.Now().UTC()
	line := schema.JobRun{Job: id, Run: schema.MakeEntryID(now, 1, 1), State: state, Nominal: now, Started: now, Finished: now, Written: now.UnixMicro(), Expires: now.Add(time.Hour)}
	if err := w.Counts.PutJobRuns(w.T.Context(), []schema.JobRun{line}); err != nil {
		w.T.Fatal(err)
	}
}

func TestRepeatAndResolve(t *testing.T) {
	const m = time.Minute
	type want struct {
		at    time.Duration
		state string
		count int
	}
	for name, c := range map[string]struct {
		rule func(r *schema.NotificationRule)
		want []want
	}{
		"all of it": {nil, []want{{m / 2, "firing", 2}, {240*m + m/2, "firing", 0}, {300*m + m/2, "resolved", 0}, {331 * m, "firing", 1}}},
		"no word when all is well": {
			func(r *schema.NotificationRule) { r.SendResolved = false }, []want{{m / 2, "firing", 2}, {240*m + m/2, "firing", 0}, {331 * m, "firing", 1}},
		},
		"only that all is well again": {
			func(r *schema.NotificationRule) { r.On = []schema.NotificationKind{schema.NotifyRecovered} }, []want{{300*m + m/2, "resolved", 0}},
		},
		"it does not fit": {func(r *schema.NotificationRule) { r.Match.Job = "b*" }, nil},
		"mute for an hour": {
			func(r *schema.NotificationRule) { // the clock of a bubble begins at midnight, UTC
				r.Mute = []schema.MuteTimeInterval{{Times: []schema.MuteTimes{{StartTime: "00:00", EndTime: "01:00"}}}}
			},
			[]want{{60 * m, "firing", 2}, {300 * m, "resolved", 0}, {331 * m, "firing", 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.put(c.rule)
				defer w.notify(always())()
				job := schema.JobID(schema.MakeEntryID(w.began, 1, 7))
				w.fail("a", job, 1)
				time.Sleep(time.Second)
				w.fail("a", job, 2)
				time.Sleep(299*m - time.Second)
				w.history(job, schema.StateSucceeded)
				time.Sleep(31*m + m/2)
				w.fail("a", job, 3)
				time.Sleep(3 * m)
				all := w.messages()
				if len(all) != len(c.want) {
					t.Fatalf("%d messages, want %d: %+v", len(all), len(c.want), all)
				}
				for i, want := range c.want {
					got := all[i]
					if late := got.at - want.at; late < 0 || late > 10*time.Second || got.Type != "notification."+want.state || got.Data.Count != want.count {
						t.Errorf("message %d = %s, %s, count %d; want %+v", i, got.at, got.Type, got.Data.Count, want)
					}
				}
			})
		})
	}
}

// TestManyGroups: what finds no place is told together, and counted.
func TestManyGroups(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		const more = 50
		for i := range schema.MaxNotificationGroups + more {
			w.fail(fmt.Sprint("job-", i), schema.JobID{}, i)
		}
		defer w.notify(always())()
		time.Sleep(3 * time.Minute)
		counted, star := 0, 0
		all := w.messages()
		for _, m := range all {
			counted += m.Data.Count
			if m.Data.Labels["*"] == "*" {
				star += m.Data.Count
			}
		}
		if len(all) != schema.MaxNotificationGroups+1 || counted != schema.MaxNotificationGroups+more || star != more {
			t.Errorf("%d messages tell of %d, %d of them as *; want %d, %d, %d", len(all), counted, star,
				schema.MaxNotificationGroups+1, schema.MaxNotificationGroups+more, more)
		}
	})
}

// TestIncidentsOfRecords: which records are incidents, each once, and that a message is none.
func TestIncidentsOfRecords(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		incidents := func() (n int) {
			for m := schema.BucketOf(w.began); m <= schema.BucketOf(time.Now().Add(time.Minute)); m++ {
				page, err := w.Counts.Incidents(t.Context(), tenant, m, schema.EntryID{}, 100)
				if err != nil {
					t.Fatal(err)
				}
				n += len(page)
			}
			return n
		}
		ends := func(spec schema.Spec, rec schema.Record) {
			now := time.Now()
			spec.Tenant, spec.Nominal, spec.Accepted = tenant, now, now.UnixMicro()
			spec.Work = &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}}
			e, err := schema.NewEntry(schema.MakeEntryID(now, 1, schema.RandomHash()), spec, nil, now.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			rec.Entry, rec.Started, rec.Finished, rec.Announce = e.ID, now, now.Add(time.Millisecond).UTC(), w.e.Announces(tenant)
			row := schema.Attempt{Run: e.ID, Number: 1, Fence: 1, Record: &rec, Written: now.UnixMicro(), Expires: now.Add(time.Hour)}
			if err := w.e.Record(t.Context(), []schema.Attempt{row}); err != nil {
				t.Fatal(err)
			}
			for range 2 { // whoever finds the record does it again
				w.e.FollowUp(t.Context(), []bucketer.Finished{{Entry: e, Attempt: row}}, func(_ int, err error) {
					if err != nil {
						t.Errorf("FollowUp = %v", err)
					}
				})
			}
		}
		ruined := schema.Record{Outcome: schema.Failed, Final: true, Error: "refused", Status: 400}
		ends(schema.Spec{JobName: "a"}, ruined)
		if n := incidents(); n != 0 {
			t.Fatalf("%d incidents of a tenant without rules", n)
		}
		w.put(func(r *schema.NotificationRule) { r.Match.Job = "a*" })
		for _, c := range []struct {
			name string
			spec schema.Spec
			rec  schema.Record
			want int
		}{
			{"a failure", schema.Spec{JobName: "ab"}, ruined, 1},
			{"of another job", schema.Spec{JobName: "b"}, ruined, 1},
			{"a success", schema.Spec{JobName: "a"}, schema.Record{Outcome: schema.Succeeded}, 1},
			{"a message", schema.Spec{JobName: "a", Trigger: schema.TriggerNotification}, ruined, 1},
			{"one more", schema.Spec{JobName: "a"}, ruined, 2},
		} {
			ends(c.spec, c.rec)
			if n := incidents(); n != c.want {
				t.Errorf("%s: %d incidents, want %d", c.name, n, c.want)
			}
		}
	})
}

func TestRulesAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range schema.MaxNotifications {
			w.put(func(r *schema.NotificationRule) { r.Name = fmt.Sprint("n", i) })
		}
		_, _, err := w.e.PutNotification(t.Context(), schema.NotificationRule{Tenant: tenant, Name: "more"})
		if !errors.Is(err, notifications.ErrManyNotifications) {
			t.Errorf("PutNotification of one too many = %v", err)
		}
		w.put(func(r *schema.NotificationRule) { r.Name = "n5" })
		if _, err := w.e.DeleteNotification(t.Context(), tenant, "n5"); err != nil {
			t.Error(err)
		}
		if _, err := w.e.DeleteNotification(t.Context(), tenant, "n5"); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("DeleteNotification again = %v", err)
		}
		w.put(func(r *schema.NotificationRule) { r.Name = "more" })
	})
}

// TestEmails: the mails of a group are a thread until all is well; then another one begins.
func TestEmails(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		to := &schema.EmailTarget{To: []string{"a@x.test"}}
		w.put(func(r *schema.NotificationRule) {
			r.Sinks = []schema.NotificationSink{{Email: to}, {Email: to}}
		})
		defer w.notify(always())()
		job := schema.JobID(schema.MakeEntryID(w.began, 1, 7))
		w.fail("a", job, 1)
		time.Sleep(time.Minute)
		w.fail("a", job, 2)
		time.Sleep(6 * time.Minute)
		w.history(job, schema.StateSucceeded)
		time.Sleep(6 * time.Minute)
		w.fail("a", job, 3)
		time.Sleep(time.Minute)
		var said []string
		threads := make(map[string]int)
		for _, e := range w.runsOfMessages() {
			var mail schema.Email
			if err := json.Unmarshal(e.Payload, &mail); err != nil || e.Spec.Work.Email == nil || e.Spec.Work.HTTP != nil || e.Spec.Labels["sink"] != "email" {
				t.Fatalf("the run of a mail = %+v, %v", e.Spec, err)
			}
			said = append(said, fmt.Sprintf("%s %t", mail.Subject, mail.First))
			threads[mail.Thread]++
		}
		want := []string{"1 × n: a true", "1 × n: a true", "1 × n: a false", "1 × n: a false", "Resolved n: a false", "Resolved n: a false", "1 × n: a true", "1 × n: a true"}
		if !slices.Equal(said, want) {
			t.Errorf("mails = %q, want %q", said, want)
		}
		sizes := slices.Sorted(maps.Values(threads))
		if !slices.Equal(sizes, []int{1, 1, 3, 3}) {
			t.Errorf("threads = %v, want two of three mails, and two that begin", threads)
		}
	})
}

func TestATest(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		ids, err := w.e.TestNotification(t.Context(), tenant, "n")
		all := w.messages()
		if err != nil || len(ids) != 1 || len(all) != 1 || all[0].id != ids[0] || all[0].Type != "notification.test" || !strings.HasPrefix(all[0].Data.Title, "Test of n") {
			t.Errorf("TestNotification = %v, %v; messages %+v", ids, err, all)
		}
	})
}
