package schematest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// Cell names a cell of a stored row. Of the fields below Column, those count that the table's key
// has.
type Cell struct {
	Table, Column string

	Tenant, Name string // also: executor, lease, node
	Run          schema.RunID
	Number       int
	Fence        schema.Fence
	Job          schema.JobID
	Operation    schema.OperationID
	Audit        schema.AuditID
	Hash         schema.KeyHash
	Minute       time.Time
	Kind         schema.StatsKind // of counts by name; "": of all runs together
}

// Damager is a store whose cells a test can overwrite, as another version or an accident would.
type Damager interface {
	schema.Store
	// Damage overwrites the cell, or skips the test where the store refuses such a text.
	Damage(t *testing.T, c Cell, text []byte)
}

// garbage are texts that no cell of ours holds.
var garbage = []struct{ name, text string }{
	{"half an object", `{"`},
	{"an array", `[1]`},
	{"another version's numbers", `{"outcome":5,"name":5,"weight":"5","role":5,"state":5,"at":5,"done":"5","due":"5","session":5,"attempts":"5","action":5,"keys":5,"fence":"5","work":5,"ending":5,"actor":5,"hash":5,"note":5,"spec":5,"shards":"5","on":5,"kinds":5,"rule":5}`},
	{"no text", "\xff\xfe"},
	{"null", `null`},
	{"nothing", ``},
}

// ExerciseDamage checks that a row that cannot be understood harms what it belongs to, and never
// the page that it lies in. Stores may share their rows, as in Exercise.
func ExerciseDamage(t *testing.T, open func(t *testing.T) Damager) {
	exerciseDamage(t, open, damageRules)
}

// ExerciseDeadLetterDamage is the part of it that is about dead letters.
func ExerciseDeadLetterDamage(t *testing.T, open func(t *testing.T) Damager) {
	exerciseDamage(t, open, []damageRule{deadLetterDamage})
}

func exerciseDamage(t *testing.T, open func(t *testing.T) Damager, rules []damageRule) {
	t.Helper()
	for _, r := range rules {
		for _, g := range garbage {
			t.Run(r.name+", "+g.name, func(t *testing.T) {
				store := open(t)
				b := newBench(t, store)
				r.check(b, func(c Cell) { store.Damage(t, c, []byte(g.text)) })
			})
		}
	}
}

// damageRule is one sentence about a row that cannot be understood.
type damageRule struct {
	name  string
	check func(b *bench, damage func(Cell))
}

var deadLetterDamage = damageRule{"a bad dead letter is listed with its fault, and one with a bad fate does not wait", func(b *bench, damage func(Cell)) {
	p := b.partition()
	var letters []schema.DeadLetter
	for i := range 3 {
		e := b.entry(b.id(p, i), "")
		letters = append(letters, schema.DeadLetter{Tenant: b.tenant, Run: e.ID, Entry: e, Attempts: 1, Last: schema.Record{Entry: e.ID, Outcome: schema.Failed, Final: true, Finished: b.now}, Written: b.now.UnixMicro(), Expires: b.now.Add(time.Hour)})
	}
	b.must(b.store.PutDeadLetters(b.ctx, letters), "PutDeadLetters")
	b.must(b.store.PutResolution(b.ctx, b.tenant, letters[2].Run, schema.Resolution{Kind: schema.ResolvedDiscarded, At: b.now}, b.now.Add(time.Hour)), "PutResolution")
	damage(Cell{Table: "dead_letters", Column: "last", Tenant: b.tenant, Run: letters[1].Run})
	damage(Cell{Table: "dead_letters", Column: "fate", Tenant: b.tenant, Run: letters[2].Run})
	got, err := b.store.DeadLetters(b.ctx, b.tenant, letters[0].Day(), schema.RunID{}, 10)
	if err != nil || len(got) != 3 {
		b.Fatalf("DeadLetters = %d, %v; want 3", len(got), err)
	}
	for _, l := range got {
		if l.Run == letters[1].Run && l.Fault == nil || l.Run == letters[0].Run && l.Fault != nil {
			b.Errorf("DeadLetters = %+v, fault %v", l, l.Fault)
		}
	}
	if one, err := b.store.DeadLetter(b.ctx, b.tenant, letters[1].Run); err != nil || !errors.Is(one.Fault, schema.ErrNotUnderstood) {
		b.Errorf("DeadLetter = %+v, %v; want its fault", one, err)
	}
	if _, err := b.store.Resolutions(b.ctx, b.tenant, letters[0].Day(), []schema.RunID{letters[0].Run, letters[2].Run}); err != nil {
		b.Errorf("Resolutions = %v", err)
	}
}}

var damageRules = []damageRule{
	{"a bad record or session is its attempt's fault", func(b *bench, damage func(Cell)) {
		p := b.partition()
		written := b.now.UnixMicro()
		bad, worse, good := b.id(p, 1), b.id(p, 2), b.id(p, 3)
		row := func(run schema.RunID, number int) schema.Attempt {
			return schema.Attempt{
				Run: run, Number: number, Fence: schema.Fence(number), Written: written, Expires: b.now.Add(time.Hour),
				Record:  &schema.Record{Outcome: schema.Succeeded, Started: b.now, Finished: b.now},
				Session: &schema.SessionRef{Executor: "e", ID: "s", Started: b.now},
			}
		}
		alone := row(worse, 1)
		alone.Record = nil
		b.must(b.store.PutAttempts(b.ctx, []schema.Attempt{row(bad, 1), alone, row(good, 1)}), "PutAttempts")
		damage(Cell{Table: "attempts", Column: "record", Run: bad, Number: 1, Fence: 1})
		damage(Cell{Table: "attempts", Column: "session", Run: worse, Number: 1, Fence: 1})
		damage(Cell{Table: "attempts", Column: "session", Run: good, Number: 1, Fence: 1})
		got, err := b.store.Attempts(b.ctx, p, []schema.RunID{bad, worse, good})
		if err != nil || len(got) != 3 {
			b.Fatalf("Attempts = %d rows, %v; want 3", len(got), err)
		}
		for _, a := range got {
			state := schema.Fold(schema.Marks{}, []schema.Attempt{a}, func(schema.SessionRef) bool { return false })
			switch a.Run {
			case good:
				if a.Fault != nil || a.Record == nil || state != schema.StateSucceeded {
					b.Errorf("with its record: %+v, %s; want it whole", a, state)
				}
			default:
				if !errors.Is(a.Fault, schema.ErrNotUnderstood) || a.Record != nil || a.Session != nil || state != schema.StateFailed {
					b.Errorf("without: %+v, %s; want a fault, and the run failed", a, state)
				}
			}
		}
	}},
	{"a bad attempt is kept with those that are picked", func(b *bench, damage func(Cell)) {
		p := b.partition()
		bad, goes := b.attempt(b.id(p, 1), 1, 7, schema.Lost), b.attempt(b.id(p, 1), 2, 8, schema.Lost)
		bad.Expires, goes.Expires = b.soon(), b.soon()
		b.putAttempts(bad, goes)
		damage(Cell{Table: "attempts", Column: "record", Run: bad.Run, Number: 1, Fence: 7})
		b.must(b.store.KeepAttempts(b.ctx, bad.Run, b.later(), func(*schema.Attempt) bool { return false }), "KeepAttempts")
		b.eventually("what is not kept expires", func() bool { return len(b.attempts(p, bad.Run)) == 1 })
		if got := b.attempts(p, bad.Run); len(got) != 1 || got[0].Number != 1 || got[0].Fault == nil {
			b.Errorf("Attempts = %+v, want the bad one alone, with its fault", got)
		}
	}},
	{"a bad cancel mark cancels", func(b *bench, damage func(Cell)) {
		p := b.partition()
		bad, good := b.entry(b.id(p, 1), ""), b.entry(b.id(p, 2), "")
		b.put(bad, good)
		mark := schema.Cancel{At: b.now, By: "x"}
		_, err := b.store.CancelRun(b.ctx, bad.ID, schema.EntryID{}, mark, bad.Expires)
		b.must(err, "CancelRun")
		damage(Cell{Table: "runs", Column: "cancelled", Run: bad.ID})
		got, err := b.store.Entries(b.ctx, p, schema.IDRange{}, 10)
		if err != nil || len(got) != 2 {
			b.Fatalf("Entries = %d, %v; want 2", len(got), err)
		}
		marks, err := b.store.Marks(b.ctx, bad.ID)
		if err != nil {
			b.Errorf("Marks = %v", err)
		}
		for _, e := range got {
			if e.ID == bad.ID && e.Marks.Cancelled == nil && marks.Cancelled == nil && e.Fault == nil {
				b.Errorf("Entries = %+v, want it cancelled", e)
			}
		}
	}},
	{"a bad entry is its own fault", func(b *bench, damage func(Cell)) {
		p := b.partition()
		bad, good := b.entry(b.id(p, 1), ""), b.entry(b.id(p, 2), "")
		b.put(bad, good)
		damage(Cell{Table: "runs", Column: "spec", Run: bad.ID})
		got, err := b.store.Entries(b.ctx, p, schema.IDRange{}, 10)
		if err != nil || len(got) != 2 {
			b.Fatalf("Entries = %d, %v; want 2", len(got), err)
		}
		for _, e := range got {
			if (e.Fault != nil) != (e.ID == bad.ID) {
				b.Errorf("Entries = %+v, fault %v", e, e.Fault)
			}
		}
	}},
	{"a bad task is listed with its fault, and can be put again", func(b *bench, damage func(Cell)) {
		at := b.now.Add(time.Second)
		for _, name := range []string{"a", "bad", "c"} {
			b.must(b.store.PutTask(b.ctx, schema.Task{Tenant: b.tenant, Name: name, UpdatedAt: b.now}), "PutTask")
		}
		damage(Cell{Table: "tasks", Column: "spec", Tenant: b.tenant, Name: "bad"})
		got, err := b.store.Tasks(b.ctx, b.tenant, "", 10)
		if err != nil || len(got) != 3 || got[0].Fault != nil || got[1].Fault == nil || got[1].Name != "bad" || got[2].Fault != nil {
			b.Errorf("Tasks = %+v, %v; want three, the second with a fault", got, err)
		}
		one, err := b.store.Task(b.ctx, b.tenant, "bad")
		if !errors.Is(err, schema.ErrNotUnderstood) || one.UpdatedAt.IsZero() {
			b.Errorf("Task = %+v, %v; want ErrNotUnderstood and when it was written", one, err)
		}
		if later := one.UpdatedAt.Add(time.Millisecond); later.After(at) {
			at = later
		}
		b.must(b.store.PutTask(b.ctx, schema.Task{Tenant: b.tenant, Name: "bad", Description: "mended", UpdatedAt: at}), "PutTask")
		if one, err := b.store.Task(b.ctx, b.tenant, "bad"); err != nil || one.Description != "mended" {
			b.Errorf("Task, put again = %+v, %v", one, err)
		}
	}},
	{"a bad tenant is listed with its fault", func(b *bench, damage func(Cell)) {
		for _, name := range []string{b.tenant + "-a", b.tenant + "-bad"} {
			b.must(b.store.PutTenant(b.ctx, schema.Tenant{Name: name, Weight: 2, UpdatedAt: b.now}), "PutTenant")
		}
		damage(Cell{Table: "tenants", Column: "spec", Name: b.tenant + "-bad"})
		got, err := b.store.Tenants(b.ctx, b.tenant, 2)
		if err != nil || len(got) != 2 || got[0].Fault != nil || got[1].Fault == nil || got[1].Name != b.tenant+"-bad" {
			b.Errorf("Tenants = %+v, %v; want two, the second with a fault", got, err)
		}
		if one, err := b.store.Tenant(b.ctx, b.tenant+"-bad"); err != nil || one.Fault == nil || one.UpdatedAt.IsZero() {
			b.Errorf("Tenant = %+v, %v; want its fault and when it was written", one, err)
		}
	}},
	{"a bad key is refused, listed with its fault, and can be revoked", func(b *bench, damage func(Cell)) {
		hash := schema.HashKey(b.tenant)
		b.must(b.store.CreateAPIKey(b.ctx, schema.APIKey{Hash: hash, Tenant: b.tenant, Name: "bad", Role: schema.Admin, CreatedAt: b.now}), "CreateAPIKey")
		damage(Cell{Table: "api_key_names", Column: "spec", Tenant: b.tenant, Name: "bad", Hash: hash})
		if got, err := b.store.APIKeys(b.ctx, b.tenant, "", 10); err != nil || len(got) != 1 || got[0].Fault == nil || got[0].Name != "bad" {
			b.Errorf("APIKeys = %+v, %v; want it with a fault", got, err)
		}
		if _, err := b.store.DeleteAPIKey(b.ctx, b.tenant, "bad", b.now.Add(time.Second)); err != nil {
			b.Errorf("DeleteAPIKey = %v", err)
		}
		_, err := b.store.APIKey(b.ctx, hash)
		b.wantErr(err, schema.ErrNotFound, "APIKey, revoked")

		other := schema.HashKey(b.tenant + "2")
		b.must(b.store.CreateAPIKey(b.ctx, schema.APIKey{Hash: other, Tenant: b.tenant, Name: "other", Role: schema.Admin, CreatedAt: b.now}), "CreateAPIKey")
		damage(Cell{Table: "api_keys", Column: "spec", Hash: other})
		_, err = b.store.APIKey(b.ctx, other)
		b.wantErr(err, schema.ErrNotFound, "APIKey that cannot be understood")
	}},
	{"what a bad session remembers stands until it is renewed", func(b *bench, damage func(Cell)) {
		executor := b.executor()
		is := schema.Session{Executor: executor, ID: "is", Expires: b.now.Add(10 * time.Second), Former: []schema.FormerSession{{ID: "was", Expires: b.now.Add(time.Second)}}}
		b.must(b.store.SwapSession(b.ctx, schema.Session{}, is), "SwapSession")
		damage(Cell{Table: "sessions", Column: "former", Name: executor})
		got, err := b.store.Session(b.ctx, executor)
		if err != nil || got.ID != "is" {
			b.Fatalf("Session = %+v, %v", got, err)
		}
		claim := schema.SessionRef{Executor: executor, ID: "another", Guarded: true}
		if got.Unclear != got.Supports(claim, b.now) {
			b.Errorf("Session = %+v: a claim of an earlier life stands: %v", got, got.Supports(claim, b.now))
		}
		next := schema.Session{Executor: executor, ID: "is", Expires: b.now.Add(20 * time.Second)}
		b.must(b.store.SwapSession(b.ctx, got, next), "SwapSession, renewed")
		b.wantSession(executor, next)
	}},
	{"what a bad session released is not released", func(b *bench, damage func(Cell)) {
		executor := b.executor()
		is := schema.Session{Executor: executor, ID: "is", Expires: b.now.Add(10 * time.Second), Released: map[string]int64{"eu": 7}}
		b.must(b.store.SwapSession(b.ctx, schema.Session{}, is), "SwapSession")
		damage(Cell{Table: "sessions", Column: "released", Name: executor})
		got, err := b.store.Session(b.ctx, executor)
		if err != nil || got.ID != "is" || !got.Supports(schema.SessionRef{Executor: executor, ID: "is", Home: "eu", Epoch: 7}, b.now) {
			b.Fatalf("Session = %+v, %v; want that a slot stands that was not released", got, err)
		}
		is.Expires = b.now.Add(20 * time.Second)
		b.must(b.store.SwapSession(b.ctx, got, is), "SwapSession, renewed")
		b.wantSession(executor, is)
	}},
	{"a bad lease is its own", func(b *bench, damage func(Cell)) {
		key := "test/" + b.tenant
		is := schema.Lease{Key: key, Fence: 5, Record: []byte(`{"attempt":1}`), Holder: &schema.SessionRef{Executor: "e", ID: "s", Started: b.now}}
		_, err := b.store.SwapLease(b.ctx, schema.Lease{}, is, b.now.Add(time.Hour))
		b.must(err, "SwapLease")
		damage(Cell{Table: "leases", Column: "session", Name: key})
		got, err := b.store.Lease(b.ctx, key)
		if !errors.Is(err, schema.ErrNotUnderstood) && (err != nil || got.Holder != nil) {
			b.Errorf("Lease = %+v, %v; want ErrNotUnderstood", got, err)
		}
	}},
	{"a bad line of history names its run", func(b *bench, damage func(Cell)) {
		job := schema.MakeJobID(b.now, 1, b.rnd.Uint64())
		p := b.partition()
		var lines []schema.JobRun
		for i := range 3 {
			lines = append(lines, schema.JobRun{Job: job, Run: b.id(p, i), State: schema.StateFailed, Written: b.now.UnixMicro(), Expires: b.now.Add(time.Hour)})
		}
		b.must(b.store.PutJobRuns(b.ctx, lines), "PutJobRuns")
		damage(Cell{Table: "job_runs", Column: "spec", Job: job, Run: lines[1].Run})
		got, err := b.store.JobRuns(b.ctx, job, lines[0].Period(), schema.RunID{}, 10)
		if err != nil || len(got) != 3 {
			b.Errorf("JobRuns = %+v, %v; want 3", got, err)
		}
	}},
	deadLetterDamage,
	{"bad counts are left out, and a bad audit entry says so", func(b *bench, damage func(Cell)) {
		minute := b.partition().Bucket.Start()
		for i := range 2 {
			b.must(b.store.PutStats(b.ctx, schema.MinuteStats{Minute: minute, Node: fmt.Sprintf("%s-%d", b.tenant, i), Due: 7, Written: b.now.UnixMicro()}), "PutStats")
		}
		damage(Cell{Table: "stats", Column: "counts", Minute: minute, Name: b.tenant + "-0"})
		all, err := b.store.Stats(b.ctx, schema.StatsHour(minute))
		if err != nil || len(all) < 1 {
			b.Errorf("Stats = %+v, %v; want the other's", all, err)
		}
		b.must(b.store.PutNameStats(b.ctx, b.nameStats(minute, "-bad", 1)), "PutNameStats")
		good := b.nameStats(minute, "-good", 2)
		b.must(b.store.PutNameStats(b.ctx, good), "PutNameStats")
		damage(Cell{Table: "stats", Column: "counts", Minute: minute, Name: b.tenant + "-bad", Kind: schema.ByTask})
		names, err := b.store.NameStats(b.ctx, schema.ByTask, schema.StatsHour(minute), minute)
		good.Written = 0
		if err != nil || !slices.ContainsFunc(names, func(n schema.NameStats) bool { return fmt.Sprint(n) == fmt.Sprint(good) }) {
			b.Errorf("NameStats = %+v, %v; want the other's", names, err)
		}
		var entries []schema.AuditEntry
		for i := range uint16(2) {
			entries = append(entries, schema.AuditEntry{ID: schema.MakeAuditID(b.now, i, b.rnd.Uint64()), Tenant: b.tenant, Actor: "me", Action: "update", Object: "task/t", Note: "n"})
		}
		b.must(b.store.PutAudit(b.ctx, entries), "PutAudit")
		damage(Cell{Table: "audit", Column: "detail", Tenant: b.tenant, Audit: entries[0].ID})
		got, err := b.store.Audit(b.ctx, b.tenant, schema.AuditDay(entries[0].ID.Time()), schema.AuditID{}, 10)
		if err != nil || len(got) != 2 {
			b.Fatalf("Audit = %+v, %v; want 2", got, err)
		}
		for _, e := range got {
			if (e.Note == schema.NoteUnreadable) != (e.ID == entries[0].ID) {
				b.Errorf("Audit = %+v", e)
			}
		}
	}},
	{"a bad operation is its own, listed with its fault, and still listed as open", func(b *bench, damage func(Cell)) {
		var ids []schema.OperationID
		for range 2 {
			op := schema.Operation{ID: schema.MakeOperationID(b.now, b.rnd.Uint64()), Tenant: b.tenant, Spec: schema.OperationSpec{Action: "cancel"}, Progress: schema.Progress{Updated: b.now}}
			b.must(b.store.PutOperation(b.ctx, op), "PutOperation")
			ids = append(ids, op.ID)
		}
		damage(Cell{Table: "operations", Column: "progress", Tenant: b.tenant, Operation: ids[0]})
		_, err := b.store.Operation(b.ctx, b.tenant, ids[0])
		b.wantErr(err, schema.ErrNotUnderstood, "Operation")
		if _, err := b.store.Operation(b.ctx, b.tenant, ids[1]); err != nil {
			b.Errorf("Operation, the other = %v", err)
		}
		got, err := b.store.Operations(b.ctx, b.tenant, schema.OperationID{}, 10)
		if err != nil || len(got) != 2 {
			b.Fatalf("Operations = %+v, %v; want both", got, err)
		}
		for _, op := range got {
			if bad := op.ID == ids[0]; errors.Is(op.Fault, schema.ErrNotUnderstood) != bad || op.Tenant != b.tenant {
				b.Errorf("Operations has %+v, want a fault if it is %s", op, ids[0])
			}
		}
	}},
	{"a bad secret is its own, and listed with its fault", func(b *bench, damage func(Cell)) {
		for _, name := range []string{"a", "bad", "c"} {
			b.must(b.store.SwapSecret(b.ctx, 0, b.secret(name, 1)), "SwapSecret")
		}
		damage(Cell{Table: "secrets", Column: "spec", Tenant: b.tenant, Name: "bad"})
		_, err := b.store.Secret(b.ctx, b.tenant, "bad")
		b.wantErr(err, schema.ErrNotUnderstood, "Secret")
		b.wantSecret(b.secret("a", 1))
		got, err := b.store.Secrets(b.ctx, b.tenant, "", 10)
		if err != nil || len(got) != 3 || got[0].Fault != nil || !errors.Is(got[1].Fault, schema.ErrNotUnderstood) || got[1].Name != "bad" || got[2].Fault != nil {
			b.Errorf("Secrets = %+v, %v; want three, the second with a fault", got, err)
		}
	}},
	{"bad signing keys are their tenant's", func(b *bench, damage func(Cell)) {
		b.must(b.store.SwapSigningKeys(b.ctx, b.tenant, 0, schema.SigningKeys{Revision: 1}), "SwapSigningKeys")
		damage(Cell{Table: "signing_keys", Column: "spec", Tenant: b.tenant})
		_, err := b.store.SigningKeys(b.ctx, b.tenant)
		b.wantErr(err, schema.ErrNotUnderstood, "SigningKeys")
	}},
	{"a bad rule for notifications is listed with its fault, and can be put again and deleted", func(b *bench, damage func(Cell)) {
		rule := func(name string, at time.Time) schema.NotificationRule {
			return schema.NotificationRule{Tenant: b.tenant, Name: name, On: []schema.NotificationKind{schema.NotifyFailed}, CreatedAt: b.now, UpdatedAt: at}
		}
		for _, name := range []string{"a", "bad", "c", "worse"} {
			b.must(b.store.PutNotification(b.ctx, rule(name, b.now)), "PutNotification")
		}
		damage(Cell{Table: "notifications", Column: "spec", Tenant: b.tenant, Name: "bad"})
		damage(Cell{Table: "notifications", Column: "spec", Tenant: b.tenant, Name: "worse"})
		got, err := b.store.Notifications(b.ctx, b.tenant, "", 10)
		if err != nil || len(got) != 4 {
			b.Fatalf("Notifications = %+v, %v; want 4", got, err)
		}
		for i, name := range []string{"a", "bad", "c", "worse"} {
			if isBad := i%2 == 1; got[i].Name != name || got[i].Tenant != b.tenant || errors.Is(got[i].Fault, schema.ErrNotUnderstood) != isBad || len(got[i].On) > 0 == isBad {
				b.Errorf("Notifications: %s = %+v, fault %v", name, got[i], got[i].Fault)
			}
		}
		one, err := b.store.Notification(b.ctx, b.tenant, "bad")
		if !errors.Is(err, schema.ErrNotUnderstood) || one.UpdatedAt.IsZero() {
			b.Errorf("Notification = %+v, %v; want ErrNotUnderstood and when it was written", one, err)
		}
		b.must(b.store.PutNotification(b.ctx, rule("bad", one.UpdatedAt.Add(time.Second))), "PutNotification")
		if one, err := b.store.Notification(b.ctx, b.tenant, "bad"); err != nil || len(one.On) != 1 {
			b.Errorf("Notification, put again = %+v, %v", one, err)
		}
		b.must(b.store.DeleteNotification(b.ctx, b.tenant, "worse", got[3].UpdatedAt.Add(time.Second)), "DeleteNotification")
		_, err = b.store.Notification(b.ctx, b.tenant, "worse")
		b.wantErr(err, schema.ErrNotFound, "Notification, deleted")
	}},
	{"a bad incident is listed with its fault", func(b *bench, damage func(Cell)) {
		p := b.partition()
		var bad schema.EntryID
		for i := range 3 {
			n := schema.Incident{Tenant: b.tenant, ID: b.id(p, i), Kinds: []schema.NotificationKind{schema.NotifyFailed}, Run: b.id(p, 10+i), Expires: b.now.Add(time.Hour)}
			b.must(b.store.PutIncidents(b.ctx, []schema.Incident{n}), "PutIncidents")
			if i == 1 {
				bad = n.ID
			}
		}
		damage(Cell{Table: "incidents", Column: "spec", Tenant: b.tenant, Run: bad})
		got, err := b.store.Incidents(b.ctx, b.tenant, p.Bucket, schema.EntryID{}, 10)
		if err != nil || len(got) != 3 {
			b.Fatalf("Incidents = %+v, %v; want 3", got, err)
		}
		for _, n := range got {
			if isBad := n.ID == bad; errors.Is(n.Fault, schema.ErrNotUnderstood) != isBad || n.Tenant != b.tenant || !isBad && len(n.Kinds) != 1 {
				b.Errorf("Incidents: %s = %+v, fault %v", n.ID, n, n.Fault)
			}
		}
	}},
	{"a bad group of notifications is listed with its fault, and can be removed", func(b *bench, damage func(Cell)) {
		for _, name := range []string{"a", "bad", "c"} {
			b.must(b.store.SwapNotificationGroup(b.ctx, 0, schema.NotificationGroup{Tenant: b.tenant, Name: name, Revision: 7, Rule: "n", Untold: 3}), "SwapNotificationGroup")
		}
		damage(Cell{Table: "notification_groups", Column: "spec", Tenant: b.tenant, Name: "bad"})
		got, err := b.store.NotificationGroups(b.ctx, b.tenant, "", 10)
		if err != nil || len(got) != 3 {
			b.Fatalf("NotificationGroups = %+v, %v; want 3", got, err)
		}
		for _, g := range got {
			if isBad := g.Name == "bad"; errors.Is(g.Fault, schema.ErrNotUnderstood) != isBad || !isBad && (g.Untold != 3 || g.Revision != 7) {
				b.Errorf("NotificationGroups: %s = %+v, fault %v", g.Name, g, g.Fault)
			}
		}
	}},
}
