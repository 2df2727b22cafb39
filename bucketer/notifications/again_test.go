package notifications_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer"
	"carillon.dev/carillon/bucketer/notifications"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// callsOf returns how many messages go to each URL, and of how many failures they tell.
func (w *world) callsOf(t *testing.T) (calls map[string]int, failures int) {
	t.Helper()
	calls = make(map[string]int)
	for _, e := range w.runsOfMessages() {
		calls[e.Spec.Work.HTTP.URL]++
	}
	for _, m := range w.counts() {
		failures += m
	}
	return calls, failures
}

// TestARuleIsPutAgain: between the decision of a message and its runs the rule is put again. The
// message is sent, to the sinks that the rule has now, and told once.
func TestARuleIsPutAgain(t *testing.T) {
	to := func(urls ...string) []schema.NotificationSink {
		var sinks []schema.NotificationSink
		for _, url := range urls {
			sinks = append(sinks, schema.NotificationSink{Webhook: &schema.HTTPTarget{URL: url}})
		}
		return sinks
	}
	for name, c := range map[string]struct {
		put      func(r *schema.NotificationRule)
		takeover bool // another node sends it
		want     string
	}{
		"as it was":                       {func(*schema.NotificationRule) {}, false, "map[a:1] 3"},
		"with another sink":               {func(r *schema.NotificationRule) { r.Sinks = to("b") }, false, "map[b:1] 3"},
		"with one more":                   {func(r *schema.NotificationRule) { r.Sinks = to("a", "b") }, false, "map[a:1] 3"},
		"it takes something else":         {func(r *schema.NotificationRule) { r.Match.Job, r.Sinks = "x*", to("b", "c") }, false, "map[b:1] 3"},
		"with another sink, by another":   {func(r *schema.NotificationRule) { r.Sinks = to("b") }, true, "map[b:1] 3"},
		"it takes something else, by one": {func(r *schema.NotificationRule) { r.GroupBy, r.Sinks = []string{"task"}, to("b") }, true, "map[b:1] 3"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.put(func(r *schema.NotificationRule) { r.Sinks = to("a") })
				for i := range 3 { // before anybody reads: of one instant, some may have lower ids than what was read
					w.fail("a", schema.JobID{}, i)
				}
				owns := always()
				stop := w.notify(owns)
				w.Befall(func(_ context.Context, op string) schematest.Fault { return schematest.Fault{Fail: op == "PutEntries"} })
				time.Sleep(40*time.Second + 300*time.Millisecond) // it is decided, and not written; no turn begins now
				w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
				if c.takeover {
					stop()
				}
				w.put(func(r *schema.NotificationRule) {
					r.Sinks = to("a")
					c.put(r)
				})
				if c.takeover {
					stop = w.notify(owns)
				}
				time.Sleep(4 * time.Minute)
				stop()
				calls, failures := w.callsOf(t)
				if got := fmt.Sprint(calls, failures); got != c.want {
					t.Errorf("messages = %s, want %s", got, c.want)
				}
			})
		})
	}
}

// TestARuleGoesOn: a rule that is put again and takes what it took goes on: nothing is told twice,
// nor forgotten.
func TestARuleGoesOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first := w.put(nil)
		defer w.notify(always())()
		job := schema.JobID(schema.MakeEntryID(w.began, 1, 7))
		w.fail("a", job, 1)
		time.Sleep(time.Minute)
		w.fail("a", job, 2)
		time.Sleep(time.Minute)
		again := w.put(func(r *schema.NotificationRule) { r.Description = "it goes on" })
		if !again.Began().Equal(first.UpdatedAt) || !again.UpdatedAt.After(first.UpdatedAt) {
			t.Errorf("the rule began at %s, and was put at %s; want %s, and later", again.Began(), again.UpdatedAt, first.UpdatedAt)
		}
		time.Sleep(4 * time.Minute)
		w.history(job, schema.StateSucceeded)
		time.Sleep(6 * time.Minute)
		var got []string
		for _, m := range w.messages() {
			got = append(got, fmt.Sprintf("%s %d of %d", m.Type, m.Data.Count, m.Data.Total))
		}
		if want := "notification.firing 1 of 1, notification.firing 1 of 2, notification.resolved 0 of 2"; strings.Join(got, ", ") != want {
			t.Errorf("messages = %q, want %s", got, want)
		}
	})
}

// TestManyAddRulesAtOnce: however many add at once, no more rules are left than there may be, and
// who adds one too many is told so.
func TestManyAddRulesAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for i := range schema.MaxNotifications - 2 {
			w.put(func(r *schema.NotificationRule) { r.Name = fmt.Sprint("n", i) })
		}
		var g sync.WaitGroup
		var added atomic.Int64
		for i := range 50 {
			g.Go(func() {
				_, created, err := w.e.PutNotification(t.Context(), schema.NotificationRule{Tenant: tenant, Name: fmt.Sprint("more", i)})
				switch {
				case err == nil && created:
					added.Add(1)
				case !errors.Is(err, notifications.ErrManyNotifications):
					t.Errorf("PutNotification = %v", err)
				}
			})
		}
		g.Wait()
		all, err := w.e.Notifications(t.Context(), tenant, "", 1000)
		if err != nil || len(all) != schema.MaxNotifications-2+int(added.Load()) || len(all) > schema.MaxNotifications {
			t.Errorf("%d rules, %v, of which %d were added at once; want at most %d", len(all), err, added.Load(), schema.MaxNotifications)
		}
	})
}

// unreadable is a store whose rows of groups with those names cannot be understood.
type unreadable struct {
	bucketer.Store
	bad map[string]bool
}

func (s unreadable) NotificationGroups(ctx context.Context, tenant, after string, limit int) ([]schema.NotificationGroup, error) {
	all, err := s.Store.NotificationGroups(ctx, tenant, after, limit)
	for i, g := range all {
		if s.bad[g.Name] {
			all[i] = schema.NotificationGroup{Tenant: g.Tenant, Name: g.Name, Fault: schema.ErrNotUnderstood}
		}
	}
	return all, err
}

// TestGroupsThatCannotBeUnderstood: the rows of a group and of the cursor are damaged. What happens
// afterwards is told, of that group and of others.
func TestGroupsThatCannotBeUnderstood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		stop := w.notify(always())
		w.fail("a", schema.JobID{}, 1)
		time.Sleep(20 * time.Minute)
		w.fail("a", schema.JobID{}, 2)
		time.Sleep(2 * time.Minute)
		stop()
		groups, err := w.Counts.NotificationGroups(t.Context(), tenant, "", 10)
		if err != nil || len(groups) != 2 {
			t.Fatalf("groups = %+v, %v; want the cursor and one", groups, err)
		}
		before := len(w.messages())
		store := unreadable{w.Store(), make(map[string]bool)}
		for _, g := range groups {
			store.bad[g.Name] = true
		}
		e := w.engine()
		n := notifications.New(notifications.Config{Bucketer: e.Bucketer, Store: store, Rules: e.NotificationRules(), Owns: func(schema.Shard) bool { return true }})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = n.Run(ctx) // returns nil
		}()
		time.Sleep(12 * time.Minute)
		w.fail("a", schema.JobID{}, 3)
		w.fail("b", schema.JobID{}, 4)
		time.Sleep(20 * time.Minute)
		cancel()
		<-done
		told := make(map[string]int)
		for _, m := range w.messages()[before:] {
			told[m.Data.Labels["job"]] += m.Data.Count
		}
		if told["b"] != 1 || told["a"] < 1 || told["a"] > 2 { // the second may be told again
			t.Errorf("failures that are told after the damage = %v, want one of b, and one of a, or two", told)
		}
		for name := range store.bad {
			left, err := w.Counts.NotificationGroups(t.Context(), tenant, "", 10)
			if err != nil || !strings.Contains(fmt.Sprint(left), name) {
				t.Errorf("the row %s is gone: %+v, %v; it may be of a newer version", name, left, err)
			}
		}
	})
}

// TestStates: it is told how a rule stands: what fires, the last message, and whether its sinks
// took it.
func TestStates(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		rule := w.put(func(r *schema.NotificationRule) {
			r.Sinks = append(r.Sinks, schema.NotificationSink{Slack: &schema.HTTPTarget{URL: "https://x.test/slack"}})
		})
		quiet := w.put(func(r *schema.NotificationRule) {
			r.Name, r.Match.Job, r.Mute = "quiet", "none", []schema.MuteTimeInterval{{Times: []schema.MuteTimes{{StartTime: "00:00", EndTime: "24:00"}}}}
		})
		state := func() map[string]notifications.RuleState {
			t.Helper()
			states, err := w.e.NotificationStates(t.Context(), tenant, []schema.NotificationRule{rule, quiet})
			if err != nil || len(states) != 2 {
				t.Fatalf("NotificationStates = %+v, %v", states, err)
			}
			return states
		}
		if got := fmt.Sprintf("%+v", state()); strings.Contains(got, "Firing:1") || !strings.Contains(got, "quiet:{Mute:true") || !strings.Contains(got, "n:{Mute:false") {
			t.Errorf("states of rules by which nothing was told = %s", got)
		}
		defer w.notify(always())()
		w.fail("a", schema.JobID{}, 1)
		time.Sleep(40 * time.Second)
		got := state()["n"]
		if got.Firing != 1 || got.LastAt.IsZero() || len(got.Deliveries) != 2 || got.Deliveries[0].State != schema.StatePending || got.Deliveries[1].Sink != "slack" {
			t.Fatalf("state = %+v, want a message to two sinks that is pending", got)
		}
		now := time.Now()
		for i, outcome := range []schema.Outcome{schema.Succeeded, schema.Failed} {
			rec := &schema.Record{Entry: got.Deliveries[i].Run, Outcome: outcome, Final: true, Started: now, Finished: now}
			row := schema.Attempt{Run: got.Deliveries[i].Run, Number: 1, Fence: 1, Record: rec, Written: now.UnixMicro(), Expires: now.Add(time.Hour)}
			if err := w.e.Record(t.Context(), []schema.Attempt{row}); err != nil {
				t.Fatal(err)
			}
		}
		if d := state()["n"].Deliveries; d[0].State != schema.StateSucceeded || d[1].State != schema.StateFailed {
			t.Errorf("deliveries = %+v, want one that was taken, and one that was not", d)
		}
	})
}

// TestIncidentsShareAWrite: the incidents of records that are followed up together are one write. If
// it fails, each of these records is followed up again, and each incident is counted once.
func TestIncidentsShareAWrite(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		now := time.Now()
		var rows []schema.Attempt
		var finished []bucketer.Finished
		for i := range 30 {
			spec := schema.Spec{
				Tenant: tenant, JobName: fmt.Sprint("job", i%3), Nominal: now, Accepted: now.UnixMicro(),
				Work: &schema.Work{HTTP: &schema.HTTPTarget{URL: "http://x.test/"}},
			}
			e, err := schema.NewEntry(schema.MakeEntryID(now, 1, uint64(i)), spec, nil, now.Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			rec := schema.Record{
				Entry: e.ID, Outcome: schema.Failed, Final: true, Error: "refused", Started: now, Finished: now.Add(time.Millisecond).UTC(), Announce: true,
			}
			if i%5 == 0 {
				rec.Outcome, rec.Final = schema.Succeeded, false
			}
			row := schema.Attempt{Run: e.ID, Number: 1, Fence: 1, Record: &rec, Written: now.UnixMicro(), Expires: now.Add(time.Hour)}
			rows, finished = append(rows, row), append(finished, bucketer.Finished{Entry: e, Attempt: row})
		}
		if err := w.e.Record(t.Context(), rows); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name         string
			fault        schematest.Fault
			errors, held int
		}{
			{"a write that is not made", schematest.Fault{Fail: true}, 24, 0},
			{"half of it is made", schematest.Fault{Tear: true}, 24, 12},
			{"all is well", schematest.Fault{}, 0, 24},
		} {
			w.Befall(func(_ context.Context, op string) schematest.Fault {
				if op == "PutIncidents" {
					return c.fault
				}
				return schematest.Fault{}
			})
			w.Counts.Reset()
			faults := 0
			w.e.FollowUp(t.Context(), finished, func(_ int, err error) {
				if err != nil {
					faults++
				}
			})
			page, err := w.Counts.Incidents(t.Context(), tenant, schema.BucketOf(now), schema.EntryID{}, 100)
			if err != nil || faults != c.errors || len(page) != c.held || w.Counts.Tally("PutIncidents").Calls > 1 {
				t.Errorf("%s: %d records to be followed up again, %d incidents in %d writes, %v; want %d, %d in one at most",
					c.name, faults, len(page), w.Counts.Tally("PutIncidents").Calls, err, c.errors, c.held)
			}
		}
	})
}

// TestReadingRests: a minute with many incidents is read in pages, and between them nothing is read
// for three times as long as the one before took.
func TestReadingRests(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.put(nil)
		for i := range 1000 {
			w.fail("j", schema.JobID{}, i)
		}
		const took = 5 * time.Millisecond
		var mu sync.Mutex
		var began []time.Duration
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op == "Incidents" {
				mu.Lock()
				began = append(began, time.Since(w.began))
				mu.Unlock()
				time.Sleep(took)
			}
			return schematest.Fault{}
		})
		stop := w.notify(always())
		time.Sleep(4 * time.Second)
		stop()
		if len(began) < 4 {
			t.Fatalf("reads began at %v, want four pages of a minute", began)
		}
		for i := range 3 {
			if gap := began[i+1] - began[i]; gap != 4*took {
				t.Errorf("page %d began %s after the one before, want %s", i+2, gap, 4*took)
			}
		}
	})
}
