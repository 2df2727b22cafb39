package schematest

import (
	"context"
	"reflect"
	"time"

	"carillon.dev/carillon/schema"
)

// calls returns a call of every method of a store but Clocks and Close, which take no context.
func (b *bench) calls() map[string]func(ctx context.Context) error {
	p := b.partition()
	run, fresh := b.run(p), b.id(p, 1)
	place := b.jobPlace()
	job := b.job(b.jobID(place, 0), 1)
	b.create(job)
	id, other := job.ID, b.job(b.jobID(place, 1), 1)
	letter, key, op := b.letter(b.now, 0), b.apiKey("a"), b.operation(0)
	waiter, s, t := b.waiter(schema.LimitKey(b.tenant), p, 10, 0), b.store, b.tenant
	task := schema.TaskName{Tenant: t, Name: "t"}
	all := func(*schema.Attempt) bool { return true }
	return map[string]func(ctx context.Context) error{
		"PutEntries":  func(ctx context.Context) error { return s.PutEntries(ctx, []schema.Entry{b.entry(fresh, "")}) },
		"Entries":     of(func(ctx context.Context) (any, error) { return s.Entries(ctx, p, schema.IDRange{}, 1) }),
		"EntryIDs":    of(func(ctx context.Context) (any, error) { return s.EntryIDs(ctx, p, schema.IDRange{}, 1) }),
		"EntriesByID": of(func(ctx context.Context) (any, error) { return s.EntriesByID(ctx, p, []schema.EntryID{run}) }),
		"Payload":     of(func(ctx context.Context) (any, error) { return s.Payload(ctx, run) }),
		"CancelRun": of(func(ctx context.Context) (any, error) {
			return s.CancelRun(ctx, run, schema.EntryID{}, b.cancel("me"), b.later())
		}),
		"MoveRun": of(func(ctx context.Context) (any, error) { return s.MoveRun(ctx, run, schema.EntryID{}, fresh, b.later()) }),
		"Marks":   of(func(ctx context.Context) (any, error) { return s.Marks(ctx, run) }),
		"PutAttempts": func(ctx context.Context) error {
			return s.PutAttempts(ctx, []schema.Attempt{b.attempt(run, 1, 1, schema.Failed)})
		},
		"Attempts":     of(func(ctx context.Context) (any, error) { return s.Attempts(ctx, p, []schema.RunID{run}) }),
		"KeepAttempts": func(ctx context.Context) error { return s.KeepAttempts(ctx, run, b.later(), all) },
		"PutPart": func(ctx context.Context) error {
			return s.PutPart(ctx, run, schema.OutputPart, part(1, 1, 1, "x"), 1, b.later())
		},
		"Parts": of(func(ctx context.Context) (any, error) {
			return s.Parts(ctx, run, schema.OutputPart, schema.PartKey{}, 1)
		}),
		"LastPart": of(func(ctx context.Context) (any, error) {
			return s.LastPart(ctx, run, schema.OutputPart, schema.PartKey{})
		}),
		"SwapSession": func(ctx context.Context) error {
			return s.SwapSession(ctx, schema.Session{}, schema.Session{Executor: t, ID: "x", Expires: b.now})
		},
		"Session": of(func(ctx context.Context) (any, error) { return s.Session(ctx, t) }),
		"RegisterKey": func(ctx context.Context) error {
			_, _, err := s.RegisterKey(ctx, t, "key", b.record("hash"), b.later())
			return err
		},
		"RegisteredKey": of(func(ctx context.Context) (any, error) { return s.RegisteredKey(ctx, t, "key") }),
		"Cursors":       of(func(ctx context.Context) (any, error) { return s.Cursors(ctx) }),
		"Cursor":        of(func(ctx context.Context) (any, error) { return s.Cursor(ctx, 0) }),
		"AdvanceCursor": func(ctx context.Context) error {
			return s.AdvanceCursor(ctx, schema.Cursor{Shard: schema.MaxShards - 1, Epoch: -1})
		},
		"Settings":     of(func(ctx context.Context) (any, error) { return s.Settings(ctx) }),
		"PutTask":      func(ctx context.Context) error { return s.PutTask(ctx, b.task(t, "t", 0)) },
		"Task":         of(func(ctx context.Context) (any, error) { return s.Task(ctx, t, "t") }),
		"Tasks":        of(func(ctx context.Context) (any, error) { return s.Tasks(ctx, t, "", 1) }),
		"DeleteTask":   func(ctx context.Context) error { return s.DeleteTask(ctx, t, "t", b.now) },
		"PutRated":     func(ctx context.Context) error { return s.PutRated(ctx, task, true, b.now) },
		"RatedTasks":   of(func(ctx context.Context) (any, error) { return s.RatedTasks(ctx, task, 1) }),
		"CreateJob":    func(ctx context.Context) error { return s.CreateJob(ctx, other) },
		"CreateJobs":   func(ctx context.Context) error { return s.CreateJobs(ctx, []schema.Job{other}) },
		"SwapJob":      func(ctx context.Context) error { return s.SwapJob(ctx, 1, b.changed(job, 2, schema.JobPaused)) },
		"Job":          of(func(ctx context.Context) (any, error) { return s.Job(ctx, id) }),
		"Jobs":         of(func(ctx context.Context) (any, error) { return s.Jobs(ctx, place.shard, []schema.JobID{id}) }),
		"JobsOf":       of(func(ctx context.Context) (any, error) { return s.JobsOf(ctx, place.shard, schema.JobID{}, 1) }),
		"RegisterName": func(ctx context.Context) error { _, _, _, err := s.RegisterName(ctx, t, "n", id, b.now); return err },
		"TransferName": func(ctx context.Context) error { return s.TransferName(ctx, t, "n", id, schema.JobID{}, b.now) },
		"JobByName":    func(ctx context.Context) error { _, _, err := s.JobByName(ctx, t, "n"); return err },
		"ListJob":      func(ctx context.Context) error { return s.ListJob(ctx, t, id, time.Time{}) },
		"ListJobs":     func(ctx context.Context) error { return s.ListJobs(ctx, t, []schema.JobID{id}) },
		"JobIDs":       of(func(ctx context.Context) (any, error) { return s.JobIDs(ctx, t, schema.JobID{}, 1) }),
		"PutJobRuns": func(ctx context.Context) error {
			return s.PutJobRuns(ctx, []schema.JobRun{b.jobRun(id, place.at, schema.StateFailed, 0)})
		},
		"JobRuns": of(func(ctx context.Context) (any, error) { return s.JobRuns(ctx, id, 1, schema.RunID{}, 1) }),
		"Decide":  of(func(ctx context.Context) (any, error) { return s.Decide(ctx, t, "x", b.later()) }),
		"Decided": of(func(ctx context.Context) (any, error) { return s.Decided(ctx, t) }),
		"PutSubscription": func(ctx context.Context) error {
			return s.PutSubscription(ctx, schema.Subscription{Tenant: t, Event: "e", Subscriber: run, Written: b.now})
		},
		"DeleteSubscription": func(ctx context.Context) error {
			return s.DeleteSubscription(ctx, schema.Subscription{Tenant: t, Event: "e", Subscriber: run, Written: b.now})
		},
		"PutNotification": func(ctx context.Context) error {
			return s.PutNotification(ctx, schema.NotificationRule{Tenant: t, Name: "n", UpdatedAt: b.now})
		},
		"DeleteNotification": func(ctx context.Context) error { return s.DeleteNotification(ctx, t, "n", b.now) },
		"Notification":       of(func(ctx context.Context) (any, error) { return s.Notification(ctx, t, "n") }),
		"Notifications":      of(func(ctx context.Context) (any, error) { return s.Notifications(ctx, t, "", 1) }),
		"PutCalendar": func(ctx context.Context) error {
			return s.PutCalendar(ctx, schema.Calendar{Tenant: t, Name: "n", UpdatedAt: b.now})
		},
		"DeleteCalendar": func(ctx context.Context) error { return s.DeleteCalendar(ctx, t, "n", b.now) },
		"Calendar":       of(func(ctx context.Context) (any, error) { return s.Calendar(ctx, t, "n") }),
		"Calendars":      of(func(ctx context.Context) (any, error) { return s.Calendars(ctx, t, "", 1) }),
		"PutIncidents": func(ctx context.Context) error {
			return s.PutIncidents(ctx, []schema.Incident{{Tenant: t, ID: run, Expires: b.later()}})
		},
		"Incidents": of(func(ctx context.Context) (any, error) { return s.Incidents(ctx, t, 1, schema.EntryID{}, 1) }),
		"SwapNotificationGroup": func(ctx context.Context) error {
			return s.SwapNotificationGroup(ctx, 0, schema.NotificationGroup{Tenant: t, Name: "n/1", Revision: 1})
		},
		"DeleteNotificationGroup": func(ctx context.Context) error { return s.DeleteNotificationGroup(ctx, t, "n/1", 1) },
		"NotificationGroups":      of(func(ctx context.Context) (any, error) { return s.NotificationGroups(ctx, t, "", 1) }),
		"PutListening":            func(ctx context.Context) error { return s.PutListening(ctx, t, b.now) },
		"Listening":               of(func(ctx context.Context) (any, error) { return s.Listening(ctx, t, 1) }),
		"Subscribers":             of(func(ctx context.Context) (any, error) { return s.Subscribers(ctx, t, "e", schema.EntryID{}, 1) }),
		"SwapLease": of(func(ctx context.Context) (any, error) {
			return s.SwapLease(ctx, schema.Lease{}, schema.Lease{Key: t, Fence: 1}, b.later())
		}),
		"Lease":             of(func(ctx context.Context) (any, error) { return s.Lease(ctx, t) }),
		"PutWaiter":         func(ctx context.Context) error { return s.PutWaiter(ctx, waiter) },
		"Waiters":           of(func(ctx context.Context) (any, error) { return s.Waiters(ctx, waiter.Limit, schema.IDRange{}, 1) }),
		"DeleteWaiter":      func(ctx context.Context) error { return s.DeleteWaiter(ctx, waiter) },
		"LimitsWithWaiters": of(func(ctx context.Context) (any, error) { return s.LimitsWithWaiters(ctx, waiter.Shard, "", 1) }),
		"DeleteLimitMark":   func(ctx context.Context) error { return s.DeleteLimitMark(ctx, mark(waiter)) },
		"PutTenant":         func(ctx context.Context) error { return s.PutTenant(ctx, b.aTenant(t, 0)) },
		"Tenant":            of(func(ctx context.Context) (any, error) { return s.Tenant(ctx, t) }),
		"Tenants":           of(func(ctx context.Context) (any, error) { return s.Tenants(ctx, t, 1) }),
		"CreateAPIKey":      func(ctx context.Context) error { return s.CreateAPIKey(ctx, key) },
		"APIKey":            of(func(ctx context.Context) (any, error) { return s.APIKey(ctx, key.Hash) }),
		"APIKeys":           of(func(ctx context.Context) (any, error) { return s.APIKeys(ctx, t, "", 1) }),
		"DeleteAPIKey":      of(func(ctx context.Context) (any, error) { return s.DeleteAPIKey(ctx, t, "a", b.now) }),
		"TouchAPIKey":       func(ctx context.Context) error { return s.TouchAPIKey(ctx, key.Hash, b.now) },
		"SwapSigningKeys":   func(ctx context.Context) error { return s.SwapSigningKeys(ctx, t, 0, b.signing(1)) },
		"SigningKeys":       of(func(ctx context.Context) (any, error) { return s.SigningKeys(ctx, t) }),
		"SwapSecret":        func(ctx context.Context) error { return s.SwapSecret(ctx, 0, b.secret("a", 1)) },
		"DeleteSecret":      func(ctx context.Context) error { return s.DeleteSecret(ctx, t, "a", 1) },
		"Secret":            of(func(ctx context.Context) (any, error) { return s.Secret(ctx, t, "a") }),
		"Secrets":           of(func(ctx context.Context) (any, error) { return s.Secrets(ctx, t, "", 1) }),
		"TouchSecret":       func(ctx context.Context) error { return s.TouchSecret(ctx, t, "a", b.now) },
		"PutAudit":          func(ctx context.Context) error { return s.PutAudit(ctx, []schema.AuditEntry{b.auditEntry(1, 1, 1)}) },
		"Audit":             of(func(ctx context.Context) (any, error) { return s.Audit(ctx, t, 1, schema.AuditID{}, 1) }),
		"PutStats":          func(ctx context.Context) error { return s.PutStats(ctx, schema.MinuteStats{Minute: b.now, Node: t}) },
		"Stats":             of(func(ctx context.Context) (any, error) { return s.Stats(ctx, 1) }),
		"PutNameStats": func(ctx context.Context) error {
			return s.PutNameStats(ctx, schema.NameStats{Minute: b.now, Node: t, Kind: schema.ByTask})
		},
		"NameStats":       of(func(ctx context.Context) (any, error) { return s.NameStats(ctx, schema.ByTask, 1, b.now) }),
		"PutOperation":    func(ctx context.Context) error { return s.PutOperation(ctx, op) },
		"CancelOperation": func(ctx context.Context) error { return s.CancelOperation(ctx, t, op.ID, b.cancel("me")) },
		"Operation":       of(func(ctx context.Context) (any, error) { return s.Operation(ctx, t, op.ID) }),
		"Operations":      of(func(ctx context.Context) (any, error) { return s.Operations(ctx, t, op.ID, 1) }),
		"OpenOperations":  of(func(ctx context.Context) (any, error) { return s.OpenOperations(ctx, 1) }),
		"PutDeadLetters":  func(ctx context.Context) error { return s.PutDeadLetters(ctx, []schema.DeadLetter{letter}) },
		"DeadLetter":      of(func(ctx context.Context) (any, error) { return s.DeadLetter(ctx, t, letter.Run) }),
		"DeadLetters":     of(func(ctx context.Context) (any, error) { return s.DeadLetters(ctx, t, letter.Day(), schema.RunID{}, 1) }),
		"Resolutions": of(func(ctx context.Context) (any, error) {
			return s.Resolutions(ctx, t, letter.Day(), []schema.RunID{letter.Run})
		}),
		"PutResolution": func(ctx context.Context) error {
			return s.PutResolution(ctx, t, letter.Run, b.resolution(schema.ResolvedDiscarded, 0), b.later())
		},
		"NoteDeadLetters": func(ctx context.Context) error {
			return s.NoteDeadLetters(ctx, letter.Day(), schema.TenantDay{Tenant: t, Day: letter.Day()}, b.later())
		},
		"NotedDeadLetters": of(func(ctx context.Context) (any, error) {
			return s.NotedDeadLetters(ctx, letter.Day(), schema.TenantDay{}, 1)
		}),
		"CountDeadLetters": of(func(ctx context.Context) (any, error) {
			return s.CountDeadLetters(ctx, schema.TenantDay{Tenant: t, Day: letter.Day()}, 1)
		}),
		"Time": of(func(ctx context.Context) (any, error) { return s.Time(ctx) }),
	}
}

// of leaves an answer out.
func of(call func(ctx context.Context) (any, error)) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		_, err := call(ctx)
		return err
	}
}

var callRules = []rule{
	{"a store knows the time", func(b *bench) { b.timeGoesOn("Time", b.store.Time) }},
	{"the clock of each host that serves the store can be asked", func(b *bench) {
		clocks := b.store.Clocks()
		if len(clocks) == 0 {
			b.Error("Clocks = none, want one for each host")
		}
		for _, c := range clocks {
			b.timeGoesOn("Time of "+c.Host, c.Time)
			ctx, cancel := context.WithCancel(b.ctx)
			cancel()
			if at, err := c.Time(ctx); err == nil {
				b.Errorf("Time of %q with a context that has ended = %v, want an error", c.Host, at)
			}
		}
	}},
	{"writing nothing does nothing", func(b *bench) {
		b.must(b.store.PutEntries(b.ctx, nil), "PutEntries of none")
		b.must(b.store.PutAttempts(b.ctx, nil), "PutAttempts of none")
		b.must(b.store.PutJobRuns(b.ctx, nil), "PutJobRuns of none")
		b.must(b.store.CreateJobs(b.ctx, nil), "CreateJobs of none")
		b.must(b.store.ListJobs(b.ctx, b.tenant, nil), "ListJobs of none")
		b.must(b.store.PutDeadLetters(b.ctx, nil), "PutDeadLetters of none")
	}},
	{"a limit of 0 returns nothing", func(b *bench) {
		p, day := b.partition(), schema.PeriodOf(b.now)
		run, limit := b.run(p), schema.LimitKey(b.tenant)
		b.putPart(run, schema.OutputPart, part(1, 1, 1, "x"))
		b.putWaiting(b.waiter(limit, p, 1, 0))
		b.must(b.store.PutOperation(b.ctx, b.operation(0)), "PutOperation")
		letter := b.letter(b.now, 0)
		b.putLetters(letter)
		job := b.job(b.jobID(b.jobPlace(), 0), 1)
		b.create(job)
		b.must(b.store.ListJob(b.ctx, b.tenant, job.ID, time.Time{}), "ListJob")
		line := b.jobRun(job.ID, b.now, schema.StateFailed, 0)
		b.must(b.store.PutJobRuns(b.ctx, []schema.JobRun{line}), "PutJobRuns")
		for name, read := range map[string]func() (any, error){
			"Parts":             func() (any, error) { return b.store.Parts(b.ctx, run, schema.OutputPart, schema.PartKey{}, 0) },
			"JobsOf":            func() (any, error) { return b.store.JobsOf(b.ctx, job.ID.Shard(), schema.JobID{}, 0) },
			"JobIDs":            func() (any, error) { return b.store.JobIDs(b.ctx, b.tenant, schema.JobID{}, 0) },
			"JobRuns":           func() (any, error) { return b.store.JobRuns(b.ctx, job.ID, line.Period(), schema.RunID{}, 0) },
			"Waiters":           func() (any, error) { return b.store.Waiters(b.ctx, limit, schema.IDRange{}, 0) },
			"LimitsWithWaiters": func() (any, error) { return b.store.LimitsWithWaiters(b.ctx, p.Shard, "", 0) },
			"Operations":        func() (any, error) { return b.store.Operations(b.ctx, b.tenant, schema.OperationID{}, 0) },
			"OpenOperations":    func() (any, error) { return b.store.OpenOperations(b.ctx, 0) },
			"DeadLetters":       func() (any, error) { return b.store.DeadLetters(b.ctx, b.tenant, day, schema.RunID{}, 0) },
			"NotedDeadLetters":  func() (any, error) { return b.store.NotedDeadLetters(b.ctx, day, schema.TenantDay{}, 0) },
		} {
			if got, err := read(); err != nil || reflect.ValueOf(got).Len() != 0 {
				b.Errorf("%s, limit 0 = %v, %v; want none", name, got, err)
			}
		}
	}},
	{"a call whose context has ended does nothing and answers ErrUnavailable", func(b *bench) {
		calls := b.calls()
		for m := range reflect.TypeFor[schema.Store]().Methods() {
			if _, ok := calls[m.Name]; !ok && m.Name != "Close" && m.Name != "Clocks" {
				b.Errorf("no call of %s is tried", m.Name)
			}
		}
		ctx, cancel := context.WithCancel(b.ctx)
		cancel()
		for name, call := range calls {
			b.wantErr(call(ctx), schema.ErrUnavailable, "%s", name)
		}
	}},
}

// timeGoesOn checks that a clock does not go back between two calls.
func (b *bench) timeGoesOn(name string, clock func(ctx context.Context) (time.Time, error)) {
	b.Helper()
	first, err := clock(b.ctx)
	b.must(err, "%s", name)
	second, err := clock(b.ctx)
	b.must(err, "%s", name)
	if second.Before(first) {
		b.Errorf("%s = %v, after %v", name, second, first)
	}
}
