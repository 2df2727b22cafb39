package schematest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon.dev/carillon/schema"
)

// operation makes an operation at that many ms after the beginning of the test.
func (b *bench) operation(ms int) schema.Operation {
	at := b.now.Add(time.Duration(ms) * time.Millisecond)
	return schema.Operation{
		ID: schema.MakeOperationID(at, b.rnd.Uint64()), Tenant: b.tenant,
		Spec: schema.OperationSpec{
			Action: "cancel", By: "me", DryRun: true,
			Filter: schema.OperationFilter{
				State: "active", Label: "a=ü", NamePrefix: "n", From: b.now, To: b.now.Add(time.Hour), Task: "t",
				States: []string{"failed", "missed"}, Labels: []string{"b=ü", "c="}, Job: "j", Host: "h:1", Late: "0s", Key: "ü",
			},
			JobName: "nightly",
		},
		Progress: schema.Progress{At: "here", Matched: 4, Changed: 1, Unchanged: 1, Failed: 2, Faults: []string{"x", "y"}, Updated: at},
	}
}

func (b *bench) wantOperation(want schema.Operation) {
	b.Helper()
	got, err := b.store.Operation(b.ctx, want.Tenant, want.ID)
	b.must(err, "Operation")
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("Operation = %+v\nwant %+v", got, want)
	}
}

// wantMark checks who cancelled an operation of the test's tenant.
func (b *bench) wantMark(id schema.OperationID, want schema.Cancel) {
	b.Helper()
	got, err := b.store.Operation(b.ctx, b.tenant, id)
	b.must(err, "Operation")
	if got.Cancelled == nil || !got.Cancelled.At.Equal(want.At) || got.Cancelled.By != want.By || got.State() != schema.OperationCancelled {
		b.Errorf("Operation is %s, marked %+v; want %+v", got.State(), got.Cancelled, want)
	}
}

// wantOpen checks which operations of the test's tenant are open: others count too.
func (b *bench) wantOpen(want ...schema.Operation) {
	b.Helper()
	all, err := b.store.OpenOperations(b.ctx, 100_000)
	b.must(err, "OpenOperations")
	var got, ids []schema.OperationID
	for _, o := range all {
		if o.Tenant == b.tenant {
			got = append(got, o.ID)
		}
	}
	for _, op := range want {
		ids = append(ids, op.ID)
	}
	if !slices.Equal(got, ids) {
		b.Errorf("OpenOperations = %v, want %v", got, ids)
	}
}

// operations returns the ids of a tenant's operations, read in pages of limit.
func (b *bench) operations(tenant string, limit int) (ids []schema.OperationID) {
	b.Helper()
	ops := pages(b, "Operations", limit, func(last *schema.Operation) ([]schema.Operation, error) {
		return b.store.Operations(b.ctx, tenant, or(last, func(op *schema.Operation) schema.OperationID { return op.ID }), limit)
	})
	for i := range ops {
		ids = append(ids, ops[i].ID)
	}
	return ids
}

var operationRules = []rule{
	{"an operation is open until it is done, and its latest progress stands", func(b *bench) {
		first, second := b.operation(0), b.operation(1)
		_, err := b.store.Operation(b.ctx, b.tenant, first.ID)
		b.wantErr(err, schema.ErrNotFound, "Operation before it was put")
		b.wantOpen()
		b.must(b.store.PutOperation(b.ctx, second), "PutOperation")
		b.must(b.store.PutOperation(b.ctx, first), "PutOperation")
		b.wantOperation(first)
		b.wantOperation(second)
		b.wantOpen(first, second)
		_, err = b.store.Operation(b.ctx, b.tenant+"0", first.ID)
		b.wantErr(err, schema.ErrNotFound, "Operation of another tenant")

		later := first
		later.Progress.Updated, later.Progress.Matched, later.Progress.At = first.Progress.Updated.Add(time.Microsecond), 9, "there"
		b.must(b.store.PutOperation(b.ctx, later), "PutOperation, further on")
		b.must(b.store.PutOperation(b.ctx, first), "PutOperation, a late repetition")
		b.wantOperation(later)
		b.wantOpen(first, second)

		done := later
		done.Progress.Updated, done.Progress.Done = later.Progress.Updated.Add(time.Second), true
		b.must(b.store.PutOperation(b.ctx, done), "PutOperation, done")
		b.must(b.store.PutOperation(b.ctx, done), "PutOperation, done, again")
		b.must(b.store.PutOperation(b.ctx, later), "PutOperation, a late repetition")
		b.wantOperation(done)
		b.wantOpen(second)
	}},
	{"a mark stays beside what is written of the operation before and after it", func(b *bench) {
		op := b.operation(0)
		mark := schema.Cancel{At: b.now.UTC().Truncate(time.Millisecond), By: "müller"}
		b.must(b.store.PutOperation(b.ctx, op), "PutOperation")
		b.must(b.store.CancelOperation(b.ctx, b.tenant, op.ID, mark), "CancelOperation")
		b.must(b.store.CancelOperation(b.ctx, b.tenant, op.ID, mark), "CancelOperation again")
		b.wantMark(op.ID, mark)
		op.Progress.Updated, op.Progress.Matched = op.Progress.Updated.Add(time.Hour), 7
		b.must(b.store.PutOperation(b.ctx, op), "PutOperation of who has not seen the mark")
		b.wantMark(op.ID, mark)
		later := schema.Cancel{At: mark.At.Add(time.Second), By: "another"}
		b.must(b.store.CancelOperation(b.ctx, b.tenant, op.ID, later), "CancelOperation, later")
		b.must(b.store.CancelOperation(b.ctx, b.tenant, op.ID, mark), "CancelOperation, a late repetition")
		b.wantMark(op.ID, later)
		other := b.operation(1)
		b.must(b.store.CancelOperation(b.ctx, b.tenant, other.ID, mark), "CancelOperation of none")
		_, err := b.store.Operation(b.ctx, b.tenant, other.ID)
		b.wantErr(err, schema.ErrNotFound, "Operation that was cancelled and never put")
		b.wantOpen(op)
	}},
	{"as many as are asked for, oldest first", func(b *bench) {
		for i := range 3 {
			b.must(b.store.PutOperation(b.ctx, b.operation(i)), "PutOperation")
		}
		open, err := b.store.OpenOperations(b.ctx, 2)
		b.must(err, "OpenOperations")
		if len(open) != 2 || !slices.IsSortedFunc(open, func(x, y schema.OpenOperation) int { return schema.EntryID(x.ID).Compare(schema.EntryID(y.ID)) }) {
			b.Errorf("OpenOperations, limit 2 = %+v, want two, oldest first", open)
		}
	}},
	{"those of a tenant are listed newest first, done or not, page by page", func(b *bench) {
		var want []schema.OperationID
		var ops []schema.Operation
		for i := range 8 {
			op := b.operation(i / 2) // two of the same ms
			op.Progress.Done = i%3 == 0
			ops, want = append(ops, op), append(want, op.ID)
		}
		slices.SortFunc(want, func(x, y schema.OperationID) int { return schema.EntryID(y).Compare(schema.EntryID(x)) })
		for _, i := range b.rnd.Perm(len(ops)) {
			b.must(b.store.PutOperation(b.ctx, ops[i]), "PutOperation")
		}
		for _, tenant := range []string{b.tenant + "0", b.tenant + "-a"} {
			op := b.operation(3)
			op.Tenant = tenant
			b.must(b.store.PutOperation(b.ctx, op), "PutOperation of another tenant")
			if got := b.operations(tenant, 10); !slices.Equal(got, []schema.OperationID{op.ID}) {
				b.Errorf("Operations of %s = %v, want its one", tenant, got)
			}
		}
		mark := schema.Cancel{At: b.now.UTC().Truncate(time.Millisecond), By: "müller"}
		b.must(b.store.CancelOperation(b.ctx, b.tenant, b.operation(2).ID, mark), "CancelOperation of none")
		b.must(b.store.CancelOperation(b.ctx, b.tenant, ops[1].ID, mark), "CancelOperation")
		for _, limit := range []int{1, 3, 8, 9, 100} {
			if got := b.operations(b.tenant, limit); !slices.Equal(got, want) {
				b.Errorf("Operations, limit %d = %v, want %v", limit, got, want)
			}
		}
		ops[1].Cancelled = &mark
		got, err := b.store.Operations(b.ctx, b.tenant, schema.OperationID{}, 100)
		b.must(err, "Operations")
		for _, op := range got {
			i := slices.IndexFunc(ops, func(o schema.Operation) bool { return o.ID == op.ID })
			if i >= 0 && op.Cancelled != nil && ops[i].Cancelled != nil && op.Cancelled.At.Equal(mark.At) && op.Cancelled.By == mark.By {
				op.Cancelled = ops[i].Cancelled // the pointer is printed, not what it points to
			}
			if i < 0 || fmt.Sprint(op) != fmt.Sprint(ops[i]) {
				b.Errorf("Operations has %+v, want what was put", op)
			}
		}
		if got, err := b.store.Operations(b.ctx, b.tenant, want[len(want)-1], 10); err != nil || len(got) != 0 {
			b.Errorf("Operations before the oldest = %v, %v; want none", got, err)
		}
	}},
	{"one that came no further for too long has left", func(b *bench) {
		old := b.operation(0)
		old.Progress.Updated = b.now.Add(2*time.Second - schema.OperationRetention).Truncate(time.Microsecond)
		b.must(b.store.PutOperation(b.ctx, old), "PutOperation")
		b.eventually("the operation has left", func() bool {
			_, err := b.store.Operation(b.ctx, b.tenant, old.ID)
			return err != nil
		})
		_, err := b.store.Operation(b.ctx, b.tenant, old.ID)
		b.wantErr(err, schema.ErrNotFound, "Operation past its retention")
		b.wantOpen()
	}},
}

// incident returns one of that ms after the beginning of the minute of the test.
func (b *bench) incident(tenant string, ms int, hash uint64) schema.Incident {
	at := b.now.Truncate(time.Minute).Add(time.Duration(ms) * time.Millisecond)
	return schema.Incident{
		Tenant: tenant, ID: schema.MakeEntryID(at, 7, hash), Kinds: []schema.NotificationKind{schema.NotifyDead}, Run: schema.MakeEntryID(at, 3, hash),
		JobName: "j", Labels: map[string]string{"a": "b"}, Error: "ü", Status: 500, InARow: 2, Late: schema.Duration(90 * time.Second),
	}
}

// group returns one of that revision.
func (b *bench) group(name string, revision int64) schema.NotificationGroup {
	return schema.NotificationGroup{
		Tenant: b.tenant, Name: name, Revision: revision, Rule: "n", Values: []schema.NotificationValue{{Name: "job", Value: "j"}},
		Counted: map[schema.Bucket]int64{5: revision}, Untold: revision, Flush: 2, Since: b.now, Examples: []schema.NotifiedRun{{Run: schema.MakeEntryID(b.now, 1, 2), At: b.now}},
	}
}

// wantGroups checks the tenant's groups.
func (b *bench) wantGroups(limit int, want ...schema.NotificationGroup) {
	b.Helper()
	got := pages(b, "NotificationGroups", limit, func(last *schema.NotificationGroup) ([]schema.NotificationGroup, error) {
		return b.store.NotificationGroups(b.ctx, b.tenant, or(last, func(g *schema.NotificationGroup) string { return g.Name }), limit)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("NotificationGroups, limit %d (-want +got):\n%s", limit, diff)
	}
}

var notificationRules = []rule{
	{"incidents of a minute come in the order of their ids, each once, page by page", func(b *bench) {
		var want []schema.Incident
		for i := range 10 {
			want = append(want, b.incident(b.tenant, i, uint64(i)))
		}
		for _, i := range append(b.rnd.Perm(len(want)), 3, 4) { // two of them again
			n := want[i]
			n.Expires = b.later()
			b.must(b.store.PutIncidents(b.ctx, []schema.Incident{n}), "PutIncidents")
		}
		others := []schema.Incident{b.incident(b.tenant, 60_000, 1), b.incident(b.tenant, -1, 1), b.incident(b.tenant+"0", 5, 1)}
		for i := range others {
			others[i].Expires = b.later()
		}
		b.must(b.store.PutIncidents(b.ctx, others), "PutIncidents")
		b.must(b.store.PutIncidents(b.ctx, nil), "PutIncidents of none")
		for _, limit := range []int{1, 3, 10, 11} {
			got := pages(b, "Incidents", limit, func(last *schema.Incident) ([]schema.Incident, error) {
				return b.store.Incidents(b.ctx, b.tenant, schema.BucketOf(b.now), or(last, func(n *schema.Incident) schema.EntryID { return n.ID }), limit)
			})
			if diff := cmp.Diff(want, got); diff != "" {
				b.Errorf("Incidents, limit %d (-want +got):\n%s", limit, diff)
			}
		}
	}},
	{"a group is replaced as read, and removed as read", func(b *bench) {
		one, two, other, anew := b.group("n/1", 10), b.group("n/1", 12), b.group("n/1", 11), b.group("n/1", 20)
		second := b.group("n/2", 1)
		b.must(b.store.SwapNotificationGroup(b.ctx, 0, second), "SwapNotificationGroup")
		for _, step := range []struct {
			name   string
			was    int64
			is     schema.NotificationGroup // revision 0: it is removed
			want   error
			stands int64
		}{
			{"replace what never was", 9, one, schema.ErrConflict, 0},
			{"make it", 0, one, nil, 10},
			{"make it again", 0, one, nil, 10},
			{"make it after another", 0, other, schema.ErrConflict, 10},
			{"replace it", 10, two, nil, 12},
			{"replace it again", 10, two, nil, 12},
			{"replace what is no more", 10, other, schema.ErrConflict, 12},
			{"remove what is no more", 10, schema.NotificationGroup{}, schema.ErrConflict, 12},
			{"remove it", 12, schema.NotificationGroup{}, nil, 0},
			{"remove it again", 12, schema.NotificationGroup{}, nil, 0},
			{"make it anew", 0, anew, nil, 20},
		} {
			var err error
			if step.is.Revision == 0 {
				err = b.store.DeleteNotificationGroup(b.ctx, b.tenant, "n/1", step.was)
			} else {
				err = b.store.SwapNotificationGroup(b.ctx, step.was, step.is)
			}
			if !errors.Is(err, step.want) || step.want == nil && err != nil {
				b.Errorf("%s: got %v, want %v", step.name, err, step.want)
			}
			if step.stands == 0 {
				b.wantGroups(10, second)
			} else {
				b.wantGroups(1, b.group("n/1", step.stands), second)
			}
		}
		if err := b.store.SwapNotificationGroup(b.ctx, 20, b.group("n/1", 20)); err == nil {
			b.Error("SwapNotificationGroup to the same revision = nil, want an error")
		}
	}},
}

func (a *around) PutNotification(ctx context.Context, r schema.NotificationRule) error {
	return put(ctx, a, "PutNotification", func(ctx context.Context) error { return a.inner.PutNotification(ctx, r) })
}

func (a *around) DeleteNotification(ctx context.Context, tenant, name string, at time.Time) error {
	return put(ctx, a, "DeleteNotification", func(ctx context.Context) error { return a.inner.DeleteNotification(ctx, tenant, name, at) })
}

func (a *around) Notification(ctx context.Context, tenant, name string) (schema.NotificationRule, error) {
	return read(ctx, a, "Notification", 1, func(ctx context.Context) (schema.NotificationRule, error) {
		return a.inner.Notification(ctx, tenant, name)
	})
}

func (a *around) Notifications(ctx context.Context, tenant, after string, limit int) ([]schema.NotificationRule, error) {
	return read(ctx, a, "Notifications", limit, func(ctx context.Context) ([]schema.NotificationRule, error) {
		return a.inner.Notifications(ctx, tenant, after, limit)
	})
}

func (a *around) PutIncidents(ctx context.Context, incidents []schema.Incident) error {
	return putBatch(ctx, a, "PutIncidents", incidents, a.inner.PutIncidents)
}

func (a *around) Incidents(ctx context.Context, tenant string, minute schema.Bucket, after schema.EntryID, limit int) ([]schema.Incident, error) {
	return read(ctx, a, "Incidents", limit, func(ctx context.Context) ([]schema.Incident, error) {
		return a.inner.Incidents(ctx, tenant, minute, after, limit)
	})
}

func (a *around) SwapNotificationGroup(ctx context.Context, was int64, is schema.NotificationGroup) error {
	return swapOnly(ctx, a, "SwapNotificationGroup", func(ctx context.Context) error { return a.inner.SwapNotificationGroup(ctx, was, is) })
}

func (a *around) DeleteNotificationGroup(ctx context.Context, tenant, name string, was int64) error {
	return swapOnly(ctx, a, "DeleteNotificationGroup", func(ctx context.Context) error {
		return a.inner.DeleteNotificationGroup(ctx, tenant, name, was)
	})
}

func (a *around) NotificationGroups(ctx context.Context, tenant, after string, limit int) ([]schema.NotificationGroup, error) {
	return read(ctx, a, "NotificationGroups", limit, func(ctx context.Context) ([]schema.NotificationGroup, error) {
		return a.inner.NotificationGroups(ctx, tenant, after, limit)
	})
}

func (r *retrying) SwapNotificationGroup(ctx context.Context, was int64, is schema.NotificationGroup) error {
	if err := is.Follows(was); err != nil {
		return err // as in SwapSigningKeys
	}
	return decide(ctx, func() error { return r.around.SwapNotificationGroup(ctx, was, is) }, func() (mine, again bool, err error) {
		all, err := r.NotificationGroups(ctx, is.Tenant, "", schema.MaxNotificationGroups)
		stands := int64(0)
		for _, g := range all {
			if g.Name == is.Name {
				stands = g.Revision
			}
		}
		return stands == is.Revision, stands == was, err
	})
}

func (r *retrying) DeleteNotificationGroup(ctx context.Context, tenant, name string, was int64) error {
	return decide(ctx, func() error { return r.around.DeleteNotificationGroup(ctx, tenant, name, was) }, askAgain)
}
