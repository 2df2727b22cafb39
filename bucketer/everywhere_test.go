package bucketer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
)

// others are the other regions. They hold what they were asked to hold.
type others struct {
	w *world

	mu             sync.Mutex
	refuses, fails bool // they are known not to answer; they do not answer
	asked          []schema.Copies
}

func (o *others) set(refuses, fails bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refuses, o.fails = refuses, fails
}

func (o *others) Ready() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuses {
		return &schema.NotEverywhereError{Regions: []string{"us"}}
	}
	return nil
}

// Confirm fails the test where a row is not there yet that is to be confirmed.
func (o *others) ConfirmClaim(ctx context.Context, key string) error {
	return o.Confirm(ctx, schema.Copies{Leases: []string{key}})
}

func (o *others) Confirm(ctx context.Context, rows schema.Copies) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range rows.Entries {
		if found, err := o.w.Counts.EntriesByID(ctx, id.Partition(), []schema.EntryID{id}); err != nil || len(found) != 1 {
			o.w.T.Errorf("%s is to be held everywhere, and here %d rows are, %v", id, len(found), err)
		}
	}
	for _, k := range rows.Keys {
		if _, err := o.w.Counts.RegisteredKey(ctx, k.Tenant, k.Name); err != nil {
			o.w.T.Errorf("key %s is to be held everywhere: %v", k.Name, err)
		}
	}
	if o.fails {
		return &schema.NotEverywhereError{Regions: []string{"us"}, Written: true, Err: schema.ErrUnavailable}
	}
	o.asked = append(o.asked, rows)
	return nil
}

// holds reports whether every region holds an entry, and a key if one is named.
func (o *others) holds(id schema.EntryID, key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	entry, named := false, key == ""
	for _, rows := range o.asked {
		for _, e := range rows.Entries {
			entry = entry || e == id
		}
		for _, k := range rows.Keys {
			named = named || k.Name == key
		}
	}
	return entry && named
}

func (o *others) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.asked)
}

// inRegions is inRegion with other regions.
func inRegions(t *testing.T, f func(t *testing.T, w *world, o *others)) {
	t.Helper()
	inRegion(t, func(t *testing.T, w *world, r *regions) {
		o := &others{w: w}
		r.Everywhere = o
		f(t, w, o)
	})
}

// everywhereJobs are jobs of durability everywhere, by what they are.
var everywhereJobs = map[string]func() Job{
	"unkeyed":    func() Job { return everywhere(callTo(time.Now().Add(time.Hour))) },
	"keyed":      func() Job { return everywhere(keyed("k", time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC))) },
	"keyed, now": func() Job { return everywhere(keyed("k", time.Time{})) },
}

func everywhere(j Job) Job {
	j.Durability = schema.DurableEverywhere
	return j
}

// TestAJobIsHeldEverywhere before it is answered, and so is its key. One of another durability asks
// nobody.
func TestAJobIsHeldEverywhere(t *testing.T) {
	for way, submit := range ways {
		for name, job := range everywhereJobs {
			t.Run(way+", "+name, func(t *testing.T) {
				inRegions(t, func(t *testing.T, w *world, o *others) {
					home := job()
					home.Durability, home.Key = schema.DurableHome, strings.Replace(home.Key, "k", "of home", 1)
					if receipt, err := submit(w, home); err != nil || o.count() != 0 || receipt.Everywhere {
						t.Errorf("durability home: %+v, %v, asked %d times; want nobody asked", receipt, err, o.count())
					}
					receipt, err := submit(w, job())
					key := ""
					if name == "keyed, now" {
						key = "k"
					}
					if err != nil || !receipt.Everywhere || !o.holds(receipt.Run, key) {
						t.Fatalf("durability everywhere: %+v, %v, held %+v; want that every region holds it", receipt, err, o.asked)
					}
					before := o.count()
					again, err := submit(w, job())
					if err != nil || again.Existing != (name != "unkeyed") || o.count() == before {
						t.Errorf("sent again: %+v, %v, asked %d times more; want that it is asked for again", again, err, o.count()-before)
					}
				})
			})
		}
	}
}

// TestARegionDoesNotAnswer: what it is to hold is refused before anything is written, if that is
// known, and else of unknown outcome. Sent again with its key it is the same job.
func TestARegionDoesNotAnswer(t *testing.T) {
	for way, submit := range ways {
		for name, job := range everywhereJobs {
			t.Run(way+", "+name, func(t *testing.T) {
				inRegions(t, func(t *testing.T, w *world, o *others) {
					refused := func(when string, written bool) {
						t.Helper()
						before := writes(w)
						_, err := submit(w, job())
						var missing *schema.NotEverywhereError
						if !errors.As(err, &missing) || missing.Regions[0] != "us" || errors.Is(err, schema.ErrUnknown) != written || !written && writes(w) != before {
							t.Errorf("%s: %v after %d writes, want an error that names us, and that something was written: %t", when, err, writes(w)-before, written)
						}
					}
					o.set(true, true)
					refused("it is known not to answer", false)
					o.set(false, true)
					refused("it does not answer", true)
					refused("again", true)
					if _, err := submit(w, callTo(time.Now().Add(time.Hour))); err != nil {
						t.Errorf("durability home beside it: %v, want nil", err)
					}
					o.set(false, false)
					receipt, err := submit(w, job())
					if err != nil || receipt.Existing != (name != "unkeyed") || !o.holds(receipt.Run, "") {
						t.Errorf("it answers again: %+v, %v; want the same run if it has a key, held everywhere", receipt, err)
					}
				})
			})
		}
	}
}

// TestWhichDurabilityIsInForce: that of the job, or else of its tenant. Without regions everywhere
// is a fault, and what the tenant states is of no account.
func TestWhichDurabilityIsInForce(t *testing.T) {
	const no, home, all = schema.Durability(""), schema.DurableHome, schema.DurableEverywhere
	for _, row := range []struct{ job, tenant, want schema.Durability }{
		{no, no, no}, {no, home, no}, {no, all, all}, {home, all, home}, {home, no, home}, {all, no, all}, {all, home, all},
	} {
		r := &Regions{Everywhere: &others{}, Durability: func(_ context.Context, tenant string) (schema.Durability, error) { return row.tenant, nil }}
		if got, err := r.DurabilityOf(t.Context(), "t", row.job); err != nil || got != row.want {
			t.Errorf("job %q, tenant %q: %q, %v; want %q", row.job, row.tenant, got, err, row.want)
		}
	}
	for name, r := range map[string]*Regions{"no regions": nil, "a store without copies": {}} {
		var faults Faults
		if got, err := r.DurabilityOf(t.Context(), "t", all); !errors.As(err, &faults) || faults[0].Location != "body.durability" || !strings.Contains(faults[0].Message, "regions.homes") {
			t.Errorf("%s: everywhere is %q, %v; want a fault that names the setting", name, got, err)
		}
		for _, d := range []schema.Durability{no, home} {
			if got, err := r.DurabilityOf(t.Context(), "t", d); err != nil || got != d {
				t.Errorf("%s: %q is %q, %v; want the same", name, d, got, err)
			}
		}
	}
	for way, submit := range ways {
		inWorld(t, func(t *testing.T, w *world) {
			var faults Faults
			if _, err := submit(w, everywhere(callTo(time.Time{}))); !errors.As(err, &faults) || writes(w) != 0 {
				t.Errorf("%s, without regions: %v after %d writes, want a fault and none", way, err, writes(w))
			}
		})
	}
}

// TestOnlyRowsOfEverywhereSaySo: a row of durability home has the bytes that it had before there
// was another.
func TestOnlyRowsOfEverywhereSaySo(t *testing.T) {
	inRegions(t, func(t *testing.T, w *world, _ *others) {
		for d, want := range map[schema.Durability]bool{"": false, schema.DurableHome: false, schema.DurableEverywhere: true} {
			job := callTo(time.Now().Add(time.Hour))
			job.Durability = d
			id := w.submit(job)
			rows, err := w.Counts.EntriesByID(t.Context(), id.Partition(), []schema.EntryID{id})
			if err != nil || len(rows) != 1 {
				t.Fatalf("EntriesByID = %d rows, %v", len(rows), err)
			}
			if text := string(rows[0].Text()); strings.Contains(text, "everywhere") != want || strings.Contains(text, "durability") || rows[0].Spec.Everywhere != want {
				t.Errorf("durability %q: %s; want that it says everywhere: %t", d, text, want)
			}
		}
	})
}
