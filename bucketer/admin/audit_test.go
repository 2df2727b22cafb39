package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// auditOn returns an Audit over a store in memory with faults by plan, and the store.
func auditOn(t *testing.T, plan schematest.Plan) (*Audit, *schematest.CountingStore) {
	t.Helper()
	store := bucketertest.OpenStore(t)
	if plan == nil {
		plan = func(context.Context, string) schematest.Fault { return schematest.Fault{} }
	}
	return NewAudit(schematest.Faulty(store, plan), time.Now, slog.New(slog.DiscardHandler), prometheus.NewRegistry()), store
}

// runs runs an Audit until stop is called, which waits for its end.
func runs(t *testing.T, a *Audit) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	})
}

func act(n int) AuditEvent {
	return AuditEvent{Tenant: "a", Actor: "me", Action: "update", Object: fmt.Sprint("task/", n)}
}

// numbers returns the numbers of the acts in the log of tenant a, oldest first, read page by page.
func numbers(t *testing.T, a *Audit) (ns []int) {
	t.Helper()
	q := AuditQuery{Tenant: "a", From: time.Now().AddDate(0, -1, 0), To: time.Now().AddDate(0, 0, 1), Object: "task/"}
	var pos *AuditPosition
	for {
		page, next, err := a.Entries(t.Context(), q, pos, 77)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			var n int
			if _, err := fmt.Sscanf(e.Object, "task/%d", &n); err != nil {
				t.Fatal(err)
			}
			ns = append([]int{n}, ns...)
		}
		if next == nil {
			return ns
		}
		pos = next
	}
}

func wantNumbers(t *testing.T, what string, got []int, want int) {
	t.Helper()
	for i, n := range got {
		if n != i {
			t.Errorf("%s: entry %d is that of act %d: they are not in order", what, i, n)
			return
		}
	}
	if len(got) != want {
		t.Errorf("%s: %d entries, want %d", what, len(got), want)
	}
}

// Acts are written in order and together, and what waits when the node stops is written.
func TestActsAreWrittenInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, store := auditOn(t, nil)
		stop := runs(t, a)
		for n := range 1000 {
			if n%100 == 99 {
				time.Sleep(time.Second)
			}
			a.Note(act(n))
		}
		stop()
		wantNumbers(t, "a thousand acts", numbers(t, a), 1000)
		if calls := store.Tally("PutAudit").Calls; calls > 40 {
			t.Errorf("they were written by %d calls, want few", calls)
		}
		if got := bucketertest.Value(t, a.written); got != 1000 {
			t.Errorf("counted as written: %v, want 1000", got)
		}
	})
}

// While the store is away acts wait; those that find no room are dropped, counted, and told of.
func TestActsWaitForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		away := true
		a, _ := auditOn(t, func(_ context.Context, op string) schematest.Fault {
			mu.Lock()
			defer mu.Unlock()
			return schematest.Fault{Fail: away && op == "PutAudit"}
		})
		stop := runs(t, a)
		a.Note(act(0))
		time.Sleep(time.Second) // it is taken, and tried
		synctest.Wait()
		for n := range auditWaiting + 100 {
			a.Note(act(1 + n))
		}
		if got := bucketertest.Value(t, a.dropped); got != 100 {
			t.Errorf("counted as dropped: %v, want 100", got)
		}
		mu.Lock()
		away = false
		mu.Unlock()
		time.Sleep(time.Minute)
		stop()
		wantNumbers(t, "after the store came back", numbers(t, a), 1+auditWaiting)
		day := schema.AuditDay(time.Now())
		lost, err := a.store.Audit(t.Context(), schema.SystemTenant, day, schema.AuditID{}, 10)
		if err != nil || len(lost) != 1 || !strings.HasPrefix(lost[0].Note, "100 entries") {
			t.Errorf("the log of the system says %+v, %v; want that 100 entries were lost", lost, err)
		}
	})
}

// A write of unknown outcome is repeated and leaves one entry; a stop does not wait for ever for a
// store that is away.
func TestActsOfUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		a, _ := auditOn(t, func(_ context.Context, op string) schematest.Fault {
			if op != "PutAudit" {
				return schematest.Fault{}
			}
			calls++
			return schematest.Fault{Lose: calls == 1, Fail: calls > 2}
		})
		stop := runs(t, a)
		a.Note(act(0))
		a.Note(act(1))
		time.Sleep(time.Minute)
		wantNumbers(t, "after a lost answer", numbers(t, a), 2)
		a.Note(act(2))
		begin := time.Now()
		stop()
		if took := time.Since(begin); took > auditLast+auditTry {
			t.Errorf("the stop took %v, want at most %v", took, auditLast+auditTry)
		}
		if got := bucketertest.Value(t, a.dropped); got != 1 {
			t.Errorf("counted as dropped: %v, want the last one", got)
		}
	})
}

func TestObjectsInTheLogAreBounded(t *testing.T) {
	for _, test := range []struct {
		name string
		v    any
		want string // "" = a text that is cut
	}{
		{"nothing", nil, "<none>"},
		{"small", map[string]int{"a": 1}, `{"a":1}`},
		{"large", strings.Repeat("ü\"", 1<<16), ""},
		{"not JSON", func() {}, `"not to be written: json: unsupported type: func()"`},
	} {
		got := bounded(test.v)
		switch {
		case test.want == "<none>" && got != nil, test.want != "" && test.want != "<none>" && string(got) != test.want:
			t.Errorf("%s: bounded = %s, want %s", test.name, got, test.want)
		case test.want == "":
			var text string
			if err := json.Unmarshal(got, &text); err != nil || len(got) > 4*auditText || !strings.HasSuffix(text, "…") {
				t.Errorf("%s: bounded = %d bytes, %v; want a text that is cut", test.name, len(got), err)
			}
		}
	}
}

func TestTheLogIsSearched(t *testing.T) {
	a, store := auditOn(t, nil)
	to := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var entries []schema.AuditEntry
	for i := range 300 { // one every seven hours, back from to
		at := to.Add(-time.Duration(i+1) * 7 * time.Hour)
		entries = append(entries, schema.AuditEntry{
			ID: schema.MakeAuditID(at, 0, schema.RandomHash()), Tenant: "a", Actor: fmt.Sprint("actor", i%3), Action: "update",
			Object: fmt.Sprintf("%s/%d", []string{"task", "job"}[i%2], i),
		})
	}
	for i := 0; i < len(entries); i += 50 {
		if err := store.PutAudit(t.Context(), entries[i:i+50]); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		q    AuditQuery
		want int
	}{
		{"all", AuditQuery{From: to.AddDate(0, 0, -100), To: to}, 300},
		{"from is included", AuditQuery{From: to.Add(-70 * time.Hour), To: to}, 10},
		{"to is not", AuditQuery{From: to.Add(-70 * time.Hour), To: to.Add(-7 * time.Hour)}, 9},
		{"an actor", AuditQuery{From: to.AddDate(0, 0, -100), To: to, Actor: "actor1"}, 100},
		{"a kind", AuditQuery{From: to.AddDate(0, 0, -100), To: to, Object: "task/"}, 150},
		{"an object", AuditQuery{From: to.AddDate(0, 0, -100), To: to, Object: "task/4"}, 1},
		{"a beginning is no object", AuditQuery{From: to.AddDate(0, 0, -100), To: to, Object: "task"}, 0},
		{"both", AuditQuery{From: to.AddDate(0, 0, -100), To: to, Object: "task/", Actor: "actor0"}, 50},
		{"another time", AuditQuery{From: to, To: to.AddDate(0, 0, 100)}, 0},
		{"another tenant", AuditQuery{Tenant: "b", From: to.AddDate(0, 0, -100), To: to}, 0},
	} {
		if test.q.Tenant == "" {
			test.q.Tenant = "a"
		}
		for _, limit := range []int{1, 7, 1000} {
			var pos *AuditPosition
			var last schema.AuditEntry
			got, pages := 0, 0
			for {
				pages++
				store.Reset()
				page, next, err := a.Entries(t.Context(), test.q, pos, limit)
				if err != nil {
					t.Fatalf("%s: Entries = %v", test.name, err)
				}
				if calls := store.Tally("Audit").Calls; calls > auditDays+1 {
					t.Errorf("%s: a page read %d days", test.name, calls)
				}
				for _, e := range page {
					if got > 0 && e.ID.Compare(last.ID) >= 0 {
						t.Errorf("%s: %v comes after %v: want the newest first", test.name, e.At, last.At)
					}
					last = e
					got++
				}
				if next == nil || pages > 400 {
					break
				}
				pos = next
			}
			if got != test.want {
				t.Errorf("%s, limit %d: %d entries, want %d", test.name, limit, got, test.want)
			}
		}
	}
}
