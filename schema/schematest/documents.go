package schematest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// documents is a kind of administrative rows that are put, listed by name and, mostly, deleted.
type documents struct {
	kind string
	// put writes the document as of that many ms after the beginning of the test.
	put func(b *bench, scope, name string, age int) error
	// remove deletes it as of then; nil: no document of the kind is ever deleted.
	remove func(b *bench, scope, name string, age int) error
	// shown returns what is read of it; "": it is not there.
	shown func(b *bench, scope, name string) string
	// said returns what a put of that age must show.
	said func(b *bench, scope, name string, age int) string
	// listed returns the names in a scope, read in pages of limit.
	listed func(b *bench, scope string, limit int) []string
}

// documentKinds are the kinds. The scope of tenants is how their names begin.
var documentKinds = []documents{
	{
		kind: "tenants",
		put: func(b *bench, scope, name string, age int) error {
			return b.store.PutTenant(b.ctx, b.aTenant(scope+"."+name, age))
		},
		shown: func(b *bench, scope, name string) string {
			t, err := b.store.Tenant(b.ctx, scope+"."+name)
			return b.shown(t.Name, t, err)
		},
		said: func(b *bench, scope, name string, age int) string {
			t := b.aTenant(scope+"."+name, age)
			return b.shown(t.Name, t, nil)
		},
		listed: func(b *bench, scope string, limit int) []string {
			return pages(b, "Tenants", limit, func(last *string) (names []string, err error) {
				after := scope + "." + or(last, func(name *string) string { return *name })
				page, err := b.store.Tenants(b.ctx, after, limit)
				for _, t := range page {
					// others have tenants too
					if name, ok := strings.CutPrefix(t.Name, scope+"."); ok {
						names = append(names, name)
					}
				}
				return names, err
			})
		},
	},
	{
		kind: "tasks",
		put: func(b *bench, scope, name string, age int) error {
			return b.store.PutTask(b.ctx, b.task(scope, name, age))
		},
		remove: func(b *bench, scope, name string, age int) error {
			return b.store.DeleteTask(b.ctx, scope, name, b.at(age))
		},
		shown: func(b *bench, scope, name string) string {
			t, err := b.store.Task(b.ctx, scope, name)
			return b.shown(t.Tenant+"/"+t.Name, t, err)
		},
		said: func(b *bench, scope, name string, age int) string {
			return b.shown(scope+"/"+name, b.task(scope, name, age), nil)
		},
		listed: func(b *bench, scope string, limit int) []string {
			return pages(b, "Tasks", limit, func(last *string) (names []string, err error) {
				page, err := b.store.Tasks(b.ctx, scope, or(last, func(name *string) string { return *name }), limit)
				for _, t := range page {
					names = append(names, t.Name)
				}
				return names, err
			})
		},
	},
	{
		kind: "notifications",
		put: func(b *bench, scope, name string, age int) error {
			return b.store.PutNotification(b.ctx, b.notification(scope, name, age))
		},
		remove: func(b *bench, scope, name string, age int) error {
			return b.store.DeleteNotification(b.ctx, scope, name, b.at(age))
		},
		shown: func(b *bench, scope, name string) string {
			n, err := b.store.Notification(b.ctx, scope, name)
			return b.shown(n.Tenant+"/"+n.Name, n, err)
		},
		said: func(b *bench, scope, name string, age int) string {
			return b.shown(scope+"/"+name, b.notification(scope, name, age), nil)
		},
		listed: func(b *bench, scope string, limit int) []string {
			return pages(b, "Notifications", limit, func(last *string) (names []string, err error) {
				page, err := b.store.Notifications(b.ctx, scope, or(last, func(name *string) string { return *name }), limit)
				for _, n := range page {
					names = append(names, n.Name)
				}
				return names, err
			})
		},
	},
	{
		kind: "calendars",
		put: func(b *bench, scope, name string, age int) error {
			return b.store.PutCalendar(b.ctx, b.calendar(scope, name, age))
		},
		remove: func(b *bench, scope, name string, age int) error {
			return b.store.DeleteCalendar(b.ctx, scope, name, b.at(age))
		},
		shown: func(b *bench, scope, name string) string {
			c, err := b.store.Calendar(b.ctx, scope, name)
			return b.shown(c.Tenant+"/"+c.Name, c, err)
		},
		said: func(b *bench, scope, name string, age int) string {
			return b.shown(scope+"/"+name, b.calendar(scope, name, age), nil)
		},
		listed: func(b *bench, scope string, limit int) []string {
			return pages(b, "Calendars", limit, func(last *string) (names []string, err error) {
				page, err := b.store.Calendars(b.ctx, scope, or(last, func(name *string) string { return *name }), limit)
				for _, c := range page {
					names = append(names, c.Name)
				}
				return names, err
			})
		},
	},
	{
		kind: "tasks that have a rate",
		put: func(b *bench, scope, name string, age int) error {
			return b.store.PutRated(b.ctx, schema.TaskName{Tenant: scope, Name: name}, true, b.at(age))
		},
		remove: func(b *bench, scope, name string, age int) error {
			return b.store.PutRated(b.ctx, schema.TaskName{Tenant: scope, Name: name}, false, b.at(age))
		},
		shown: func(b *bench, scope, name string) string {
			if slices.Contains(b.rated(scope, 10), name) {
				return name
			}
			return ""
		},
		said:   func(_ *bench, _, name string, _ int) string { return name },
		listed: (*bench).rated,
	},
}

// at is that many ms after the beginning of the test.
func (b *bench) at(age int) time.Time { return b.now.Add(time.Duration(age) * time.Millisecond) }

// shown returns all that is read of a document.
func (b *bench) shown(name string, document any, err error) string {
	b.Helper()
	if errors.Is(err, schema.ErrNotFound) {
		return ""
	}
	b.must(err, "a read")
	text, err := json.Marshal(document)
	b.must(err, "Marshal")
	return name + " " + string(text)
}

// aTenant makes a tenant as of that many ms after the beginning of the test.
func (b *bench) aTenant(name string, age int) schema.Tenant {
	return schema.Tenant{
		Name: name, Weight: age + 1, CreatedAt: b.now, UpdatedAt: b.at(age),
		Quotas: schema.Quotas{Jobs: 1, RunsPerMinute: 2, Concurrency: 5, ImportLinesPerSecond: 3, PayloadBytesPerMinute: 1 << 40}, Retention: age + 2,
	}
}

// task makes a task as of that many ms after the beginning of the test.
func (b *bench) task(tenant, name string, age int) schema.Task {
	return schema.Task{
		Tenant: tenant, Name: name, Description: "ü",
		Work:          schema.Work{NATS: &schema.NATSTarget{Subject: "subject"}, Timeout: schema.Duration(time.Minute)},
		PayloadSchema: []byte(`{"type":"object"}`), Rate: "1/s", MaxConcurrent: 3 + age,
		CreatedAt: b.now, UpdatedAt: b.at(age),
	}
}

func (b *bench) notification(tenant, name string, age int) schema.NotificationRule {
	return schema.NotificationRule{
		Tenant: tenant, Name: name, On: []schema.NotificationKind{schema.NotifyFailed}, GroupWait: schema.Duration(age) + 1,
		Match:   schema.NotificationMatch{Labels: map[string]string{"team": "d*"}, InARow: 3, LateBy: schema.Duration(time.Minute)},
		Sinks:   []schema.NotificationSink{{Slack: &schema.HTTPTarget{URL: "https://x.test/ü"}}, {Teams: &schema.HTTPTarget{URLSecret: "teams"}}},
		GroupBy: []string{"job"}, Mute: []schema.MuteTimeInterval{{Weekdays: []string{"sunday"}}},
		CreatedAt: b.now, UpdatedAt: b.at(age),
	}
}

func (b *bench) calendar(tenant, name string, age int) schema.Calendar {
	return schema.Calendar{
		Tenant: tenant, Name: name, Description: "ü", Dates: []string{"2026-12-25", "2026-12-26"}, CreatedAt: b.now, CreatedBy: "k", UpdatedAt: b.at(age),
	}
}

func (a *around) PutCalendar(ctx context.Context, c schema.Calendar) error {
	return put(ctx, a, "PutCalendar", func(ctx context.Context) error { return a.inner.PutCalendar(ctx, c) })
}

func (a *around) DeleteCalendar(ctx context.Context, tenant, name string, at time.Time) error {
	return put(ctx, a, "DeleteCalendar", func(ctx context.Context) error { return a.inner.DeleteCalendar(ctx, tenant, name, at) })
}

func (a *around) Calendar(ctx context.Context, tenant, name string) (schema.Calendar, error) {
	return read(ctx, a, "Calendar", 1, func(ctx context.Context) (schema.Calendar, error) { return a.inner.Calendar(ctx, tenant, name) })
}

func (a *around) Calendars(ctx context.Context, tenant, after string, limit int) ([]schema.Calendar, error) {
	return read(ctx, a, "Calendars", limit, func(ctx context.Context) ([]schema.Calendar, error) {
		return a.inner.Calendars(ctx, tenant, after, limit)
	})
}

// rated returns the names of the tenant's tasks that may have a rate.
func (b *bench) rated(tenant string, limit int) (names []string) {
	b.Helper()
	tasks := pages(b, "RatedTasks", limit, func(last *schema.TaskName) ([]schema.TaskName, error) {
		after := schema.TaskName{Tenant: tenant}
		if last != nil {
			after = *last
		}
		page, err := b.store.RatedTasks(b.ctx, after, limit)
		if i := slices.IndexFunc(page, func(t schema.TaskName) bool { return t.Tenant != tenant }); i >= 0 {
			page = page[:i] // others' follow
		}
		return page, err
	})
	for _, t := range tasks {
		names = append(names, t.Name)
	}
	return names
}

// eachKind makes a rule of each kind.
func eachKind(name string, check func(b *bench, d *documents)) (rules []rule) {
	for i := range documentKinds {
		d := &documentKinds[i]
		rules = append(rules, rule{d.kind + ": " + name, func(b *bench) { check(b, d) }})
	}
	return rules
}

var documentRules = slices.Concat(
	eachKind("of puts and deletions the latest stands, in whichever order they come", func(b *bench, d *documents) {
		latest := -1 // of the puts and deletions so far; of the same instant a deletion stands
		stands := ""
		for _, step := range []struct {
			remove bool
			age    int
		}{
			{true, 0}, // of what is not there
			{false, 2},
			{false, 2}, // a repetition
			{true, 1},
			{false, 3},
			{false, 2}, // a late repetition
			{true, 3},
			{true, 3},
			{false, 1},
			{false, 5},
			{true, 4},
			{true, 6},
			{false, 7},
		} {
			switch {
			case step.remove && d.remove == nil:
				continue
			case step.remove:
				b.must(d.remove(b, b.tenant, "t", step.age), "deletion of age %d", step.age)
				if step.age >= latest {
					latest, stands = step.age, ""
				}
			default:
				b.must(d.put(b, b.tenant, "t", step.age), "put of age %d", step.age)
				if step.age > latest {
					latest, stands = step.age, d.said(b, b.tenant, "t", step.age)
				}
			}
			if got := d.shown(b, b.tenant, "t"); got != stands {
				b.Errorf("after %+v: read %q, want %q", step, got, stands)
			}
		}
	}),
	eachKind("they are listed by name, page by page, within their scope", func(b *bench, d *documents) {
		names := []string{"a", "a-b", "a.b", "aa", "b", "b0", "c"}
		scopes := []string{b.tenant, b.tenant + "-a", b.tenant + "0"}
		for _, scope := range scopes {
			for _, i := range b.rnd.Perm(len(names)) {
				b.must(d.put(b, scope, names[i], 0), "put")
			}
		}
		if d.remove != nil {
			b.must(d.put(b, b.tenant, "gone", 0), "put")
			b.must(d.remove(b, b.tenant, "gone", 1), "deletion")
		}
		for _, scope := range scopes {
			for _, limit := range []int{1, 3, 7, 8, 100} {
				if got := d.listed(b, scope, limit); !slices.Equal(got, names) {
					b.Errorf("listed in %s, limit %d = %q, want %q", scope, limit, got, names)
				}
			}
		}
	}),
)

// subscription makes a subscription as of that many ms after the beginning of the test.
func (b *bench) subscription(event string, of schema.EntryID, age int) schema.Subscription {
	return schema.Subscription{Tenant: b.tenant, Event: event, Subscriber: of, Written: b.at(age)}
}

// subscribers returns who is to hear of an event, read in pages of limit.
func (b *bench) subscribers(event string, limit int) []schema.EntryID {
	b.Helper()
	return pages(b, "Subscribers", limit, func(last *schema.EntryID) ([]schema.EntryID, error) {
		return b.store.Subscribers(b.ctx, b.tenant, event, or(last, func(id *schema.EntryID) schema.EntryID { return *id }), limit)
	})
}

// jobsAndSteps returns n ids of jobs and of steps, in order.
func (b *bench) jobsAndSteps(n int) []schema.EntryID {
	var ids []schema.EntryID
	place, p := b.jobPlace(), b.partition()
	for i := range n {
		ids = append(ids, schema.EntryID(b.jobID(place, i)), schema.MakeStepID(b.id(p, i), i, 0))
	}
	slices.SortFunc(ids, schema.EntryID.Compare)
	return ids
}

var subscriptionRules = []rule{
	{"jobs come before steps, each in the order of their ids, page by page", func(b *bench) {
		ids := b.jobsAndSteps(10)
		for _, i := range b.rnd.Perm(len(ids)) {
			b.must(b.store.PutSubscription(b.ctx, b.subscription("e", ids[i], 0)), "PutSubscription")
		}
		b.must(b.store.PutSubscription(b.ctx, b.subscription("e2", ids[0], 0)), "PutSubscription to another event")
		for _, limit := range []int{1, 7, 20, 21, 100} {
			if got := b.subscribers("e", limit); !slices.Equal(got, ids) {
				b.Errorf("subscribers, limit %d = %v, want %v", limit, got, ids)
			}
		}
		if got := b.subscribers("none", 5); len(got) > 0 {
			b.Errorf("subscribers of what nobody subscribed to = %v", got)
		}
	}},
	{"of a put and a deletion the later stands, of the same instant the deletion", func(b *bench) {
		of := b.jobsAndSteps(1)[0]
		for _, step := range []struct {
			remove bool
			age    int
			there  bool
		}{
			{true, 0, false}, {false, 2, true}, {true, 1, true}, {true, 2, false}, {false, 2, false}, {false, 3, true}, {true, 5, false}, {false, 4, false},
		} {
			change := b.store.PutSubscription
			if step.remove {
				change = b.store.DeleteSubscription
			}
			b.must(change(b.ctx, b.subscription("e", of, step.age)), "change")
			if got := len(b.subscribers("e", 5)) == 1; got != step.there {
				b.Errorf("after %+v: it is there: %v", step, got)
			}
		}
	}},
	{"tenants that listen are listed", func(b *bench) {
		for _, name := range []string{".b", ".a", ".b"} {
			b.must(b.store.PutListening(b.ctx, b.tenant+name, b.now), "PutListening")
		}
		for _, limit := range []int{1, 2, 100} {
			var ours []string
			for _, name := range pages(b, "Listening", limit, func(last *string) ([]string, error) {
				return b.store.Listening(b.ctx, or(last, func(name *string) string { return *name }), limit)
			}) {
				if strings.HasPrefix(name, b.tenant+".") { // others listen too
					ours = append(ours, name)
				}
			}
			if !slices.Equal(ours, []string{b.tenant + ".a", b.tenant + ".b"}) {
				b.Errorf("Listening, limit %d = %v", limit, ours)
			}
		}
	}},
	{"one expires", func(b *bench) {
		ids := b.jobsAndSteps(1)
		s := b.subscription("e", ids[1], 0)
		s.Expires = b.soon()
		b.must(b.store.PutSubscription(b.ctx, s), "PutSubscription")
		s.Subscriber, s.Expires = ids[0], time.Time{}
		b.must(b.store.PutSubscription(b.ctx, s), "PutSubscription")
		b.eventually("it expires", func() bool { return slices.Equal(b.subscribers("e", 5), ids[:1]) })
	}},
}
