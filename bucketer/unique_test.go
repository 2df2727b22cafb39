package bucketer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/bucketer/bucketertest"
	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// unique returns a job of a unique key, with a window of a minute.
func unique(key string, at time.Time) Job {
	job := callTo(at)
	job.BodyHash = ""
	job.Unique = &schema.Unique{By: []string{"payload"}, Window: schema.Duration(time.Minute), Key: key}
	return job
}

// both returns a job of a unique key and an idempotency key.
func both(key, idempotency, body string) Job {
	job := unique(key, time.Time{})
	job.Key, job.BodyHash = idempotency, body
	return job
}

// runsOf counts the runs that there are.
func runsOf(w *world) int { return bucketertest.Kinds(w.Entries(3 * time.Hour))[schema.KindRun] }

// made submits a job that must be new.
func made(t *testing.T, w *world, submit func(*world, Job) (Receipt, error), job Job) schema.RunID {
	t.Helper()
	r, err := submit(w, job)
	if err != nil || r.Existing || r.Unique || r.Run.IsZero() {
		t.Fatalf("Submit = %+v, %v; want a new job", r, err)
	}
	return r.Run
}

// there submits a job that must be the one there.
func there(t *testing.T, w *world, submit func(*world, Job) (Receipt, error), job Job, want schema.RunID) {
	t.Helper()
	r, err := submit(w, job)
	if err != nil || !r.Existing || !r.Unique || r.Run != want || r.Entry == nil || r.Entry.ID != want {
		t.Fatalf("Submit = %+v, %v; want the one that is there, %s", r, err, want)
	}
}

// Within the window of the first job of a unique key there is no other, whatever it says besides,
// and however that one ended. After it there is.
func TestUniqueJobIsTheOnlyOneOfItsWindow(t *testing.T) {
	for way, submit := range ways {
		t.Run(way, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				time.Sleep(17 * time.Second) // not at a multiple of the window
				first := made(t, w, submit, unique("k", time.Time{}))
				other := unique("k", time.Now().Add(2*time.Hour))
				other.Payload, other.BodyHash, other.Priority = []byte(`{"n":2}`), "another", schema.Low
				there(t, w, submit, other, first)
				w.cancel(first)
				other.Unique.Window = schema.Duration(time.Second) // the window is that of the first
				time.Sleep(time.Minute - time.Millisecond)
				there(t, w, submit, other, first)
				if n := runsOf(w); n != 1 {
					t.Errorf("%d runs, want one", n)
				}
				others := made(t, w, submit, unique("l", time.Time{}))
				elsewhere := unique("k", time.Time{})
				elsewhere.Tenant = "u"
				if id := made(t, w, submit, elsewhere); id == first || id == others {
					t.Errorf("the key of another tenant is run %s, which is another's", id)
				}
				time.Sleep(uniqueSlack + time.Millisecond)
				second := made(t, w, submit, unique("k", time.Time{}))
				there(t, w, submit, unique("k", time.Time{}), second)
				if n := runsOf(w); n != 4 {
					t.Errorf("%d runs, want four", n)
				}
			})
		})
	}
}

// A client that sends an idempotency key of its own with each request is told of the job that is
// there, and by the same key of the same one when the window is over, too.
func TestUniqueJobWithAnIdempotencyKey(t *testing.T) {
	for way, submit := range ways {
		t.Run(way, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				first := made(t, w, submit, both("k", "a", "body"))
				again := func(when string) {
					t.Helper()
					if r, err := submit(w, both("k", "a", "body")); err != nil || r != (Receipt{Run: first, Existing: true}) {
						t.Fatalf("the first request again, %s = %+v, %v; want the existing %s", when, r, err, first)
					}
					there(t, w, submit, both("k", "b", "body"), first)
				}
				again("within the window")
				time.Sleep(time.Minute + uniqueSlack)
				second := made(t, w, submit, unique("k", time.Time{}))
				again("after the window")
				there(t, w, submit, both("k", "c", "body"), second)
				for _, key := range []string{"a", "b"} {
					if _, err := submit(w, both("k", key, "another body")); !errors.Is(err, ErrKeyReused) {
						t.Errorf("key %s with another body = %v, want ErrKeyReused", key, err)
					}
				}
				if n := runsOf(w); n != 2 {
					t.Errorf("%d runs, want two", n)
				}
			})
		})
	}
}

// Whatever step a node crashes before, or whose answer is lost: the request sent again, and any
// other of its unique key, are the one job.
func TestUniqueJobAfterACrash(t *testing.T) {
	fails, loses := schematest.Fault{Fail: true}, schematest.Fault{Lose: true}
	for name, row := range map[string]struct {
		job    Job
		op     string
		of     int // which of its calls
		fault  schematest.Fault
		before bool // it is before the unique key
	}{
		"before the unique key":          {unique("k", time.Time{}), "RegisterKey", 1, fails, true},
		"the unique key's answer":        {unique("k", time.Time{}), "RegisterKey", 1, loses, false},
		"before the row":                 {unique("k", time.Time{}), "PutEntries", 1, fails, false},
		"the row's answer":               {unique("k", time.Time{}), "PutEntries", 1, loses, false},
		"keyed: before the unique key":   {both("k", "a", "body"), "RegisterKey", 1, fails, true},
		"keyed: before its key":          {both("k", "a", "body"), "RegisterKey", 2, fails, false},
		"keyed: its key's answer":        {both("k", "a", "body"), "RegisterKey", 2, loses, false},
		"keyed: before the row":          {both("k", "a", "body"), "PutEntries", 1, fails, false},
		"keyed: its key cannot be asked": {both("k", "a", "body"), "RegisteredKey", 1, fails, true},
	} {
		for way, submit := range ways {
			t.Run(name+", "+way, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					calls := 0
					var mu sync.Mutex
					w.Befall(func(_ context.Context, op string) schematest.Fault {
						mu.Lock()
						defer mu.Unlock()
						if op != row.op {
							return schematest.Fault{}
						}
						if calls++; calls == row.of {
							return row.fault
						}
						return schematest.Fault{}
					})
					if _, err := submit(w, row.job); !errors.Is(err, schema.ErrUnavailable) && !errors.Is(err, schema.ErrUnknown) {
						t.Fatalf("Submit = %v, want an error of the store", err)
					}
					w.Befall(func(context.Context, string) schematest.Fault { return schematest.Fault{} })
					time.Sleep(10 * time.Second) // it is late by then
					other, err := submit(w, both("k", "other", "another"))
					if err != nil || other.Existing == row.before {
						t.Fatalf("another request = %+v, %v; want it existing: %t", other, err, !row.before)
					}
					r, err := submit(w, row.job)
					if err != nil || !r.Existing || r.Run != other.Run {
						t.Fatalf("the request again = %+v, %v; want the existing %s", r, err, other.Run)
					}
					if n := runsOf(w); n != 1 {
						t.Errorf("%d runs, want one", n)
					}
					if _, ok := w.Row(other.Run); !ok {
						t.Errorf("no row of %s, want it written", other.Run)
					}
				})
			})
		}
	}
}

// A node crashes before the idempotency key of a unique job; another request has the job written;
// then the window ends. The first request sent again is that job.
func TestUniqueJobThatAnotherRequestWrote(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		calls := 0
		w.Befall(func(_ context.Context, op string) schematest.Fault {
			if op == "RegisterKey" {
				calls++
			}
			return schematest.Fault{Fail: op == "RegisterKey" && calls == 2}
		})
		if _, err := w.Submit(t.Context(), both("k", "a", "body")); !errors.Is(err, schema.ErrUnavailable) {
			t.Fatalf("Submit = %v, want ErrUnavailable", err)
		}
		other, err := w.Submit(t.Context(), unique("k", time.Time{}))
		if err != nil || !other.Unique {
			t.Fatalf("another request = %+v, %v; want it there", other, err)
		}
		time.Sleep(time.Minute + uniqueSlack)
		r, err := w.Submit(t.Context(), both("k", "a", "body"))
		if err != nil || r != (Receipt{Run: other.Run, Existing: true}) || runsOf(w) != 1 {
			t.Errorf("the first request again = %+v, %v, %d runs; want %s, and one run", r, err, runsOf(w), other.Run)
		}
	})
}

// Many requests of one unique key at once are one job.
func TestUniqueJobsAtOnce(t *testing.T) {
	for name, job := range map[string]func(i int) Job{
		"without keys":   func(int) Job { return unique("k", time.Time{}) },
		"each with one":  func(i int) Job { return both("k", string(rune('a'+i)), "body") },
		"all with one":   func(int) Job { return both("k", "same", "body") },
		"lines, each at": func(i int) Job { return unique("k", time.Now().Add(time.Duration(i)*time.Minute)) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.Befall(schematest.Seeded(1, schematest.Odds{Delay: 1, MaxDelay: 2 * time.Second}))
				jobs := make([]Job, 20)
				for i := range jobs {
					jobs[i] = job(i)
				}
				got := make([]answer, len(jobs))
				var wg sync.WaitGroup
				for i := range 10 {
					wg.Go(func() { got[i].Receipt, got[i].err = w.Submit(t.Context(), jobs[i]) })
				}
				wg.Go(func() { copy(got[10:], w.batch(jobs[10:]...)) })
				wg.Wait()
				created := 0
				for i, a := range got {
					if a.err != nil || a.Run != got[0].Run {
						t.Errorf("job %d = %+v, want run %s", i, a, got[0].Run)
					}
					if !a.Existing {
						created++
					}
				}
				if n := runsOf(w); n != 1 || created != 1 {
					t.Errorf("%d runs, %d said to be new; want one", n, created)
				}
			})
		})
	}
}

// A job that is refused for lack of room, or by its home, registers no unique key.
func TestUniqueJobThatIsRefused(t *testing.T) {
	inRegion(t, func(t *testing.T, w *world, r *regions) {
		for way, submit := range ways {
			r.eu.Store(false)
			r.us.Store(true)
			var home *schema.NotServedError
			if _, err := submit(w, unique(way, time.Time{})); !errors.As(err, &home) || home.Home != "eu" || writes(w) != 0 {
				t.Errorf("%s: %v after %d writes, want a NotServedError of the tenant's home, and none", way, err, writes(w))
			}
		}
	})
}

// The other regions hold the unique key and the idempotency key of a job of durability everywhere.
func TestUniqueKeyIsHeldEverywhere(t *testing.T) {
	inRegions(t, func(t *testing.T, w *world, o *others) {
		job := everywhere(both("k", "a", "body"))
		id := made(t, w, ways["alone"], job)
		for _, key := range []string{"a", uniqueKey(job.Unique)} {
			if !o.holds(id, key) {
				t.Errorf("key %q is not held everywhere: %+v", strings.TrimSpace(key), o.asked)
			}
		}
		before := o.count()
		there(t, w, ways["alone"], everywhere(unique("k", time.Time{})), id)
		if o.count() == before {
			t.Error("a job that is there was answered before it was asked for everywhere")
		}
	})
}

// A row of a job that is not unique has the bytes that it had before any was.
func TestOnlyRowsOfUniqueJobsSaySo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for want, job := range map[bool]Job{false: callTo(time.Now().Add(time.Hour)), true: unique("k", time.Now().Add(time.Hour))} {
			row, ok := w.Row(w.submit(job))
			if !ok || strings.Contains(string(row.Text()), "unique") != want || (row.Spec.Unique != nil) != want {
				t.Errorf("%s; want that it says unique: %t", row.Text(), want)
			}
		}
	})
}
