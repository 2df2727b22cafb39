package schematest

import (
	"errors"
	"fmt"
	"slices"

	"carillon.dev/carillon/schema"
)

// nobody is the number of no racer.
const nobody = -1

// contest is something that many try to get at once by conditional writes, and one gets.
type contest struct {
	name    string
	many    int  // how many try; 0: racers
	sure    bool // no outcome is unknown, and exactly one try succeeds
	told    bool // every racer is told who has it
	mayFail bool // an unknown outcome may leave nobody with it
	// begin sets up a round. try is what racer i does; it returns who has it, as far as it was
	// told. stands returns who has it in the end.
	begin func(b *bench, round int) (try func(i int) (holder int, err error), stands func() int)
}

// check has the contest fought in some rounds.
func (c *contest) check(b *bench) {
	many := max(c.many, racers)
	for round := range raceRounds {
		try, stands := c.begin(b, round)
		holders := make([]int, many)
		race(many, func(i int) {
			var err error
			holders[i], err = try(i)
			if err != nil && !errors.Is(err, schema.ErrConflict) && (c.sure || !errors.Is(err, schema.ErrUnknown)) {
				b.Errorf("racer %d was answered %v", i, err)
			}
		})
		holder, won := stands(), 0
		for i, h := range holders {
			if h == i {
				won++
			}
			if h != nobody && h != holder || h == nobody && c.told {
				b.Errorf("racer %d was told that %d has it, but %d has", i, h, holder)
			}
		}
		if holder == nobody && !c.mayFail || won > 1 || won == 0 && c.sure {
			b.Errorf("of %d racers %d won, and %d has it; want one winner", many, won, holder)
		}
	}
}

// won is who has it as far as racer i is told by a write that answers nothing else.
func won(i int, err error) (int, error) {
	if err != nil {
		return nobody, err
	}
	return i, nil
}

// repeat calls do while its outcome is unknown.
func (b *bench) repeat(do func() error) error {
	err := do()
	for errors.Is(err, schema.ErrUnknown) && b.ctx.Err() == nil {
		err = do()
	}
	return err
}

// jobIDs draws the id of a job for each racer.
func (b *bench) jobIDs() []schema.JobID {
	ids := make([]schema.JobID, racers)
	for i := range ids {
		ids[i] = b.jobID(b.jobPlace(), i)
	}
	return ids
}

var contests = []contest{
	{name: "marks of a run", begin: func(b *bench, _ int) (func(int) (int, error), func() int) {
		p := b.partition()
		id := b.run(p)
		entry := func(i int) schema.EntryID { return schema.MakeEntryID(p.Bucket.Start(), p.Shard, uint64(i)) } // #nosec G115 -- small
		return func(i int) (int, error) {
				var err error
				if i%2 == 0 {
					_, err = b.store.CancelRun(b.ctx, id, schema.EntryID{}, b.cancel(fmt.Sprint(i)), b.later())
				} else {
					_, err = b.store.MoveRun(b.ctx, id, schema.EntryID{}, entry(i), b.later())
				}
				return won(i, err)
			}, func() int {
				marks, err := b.store.Marks(b.ctx, id)
				b.must(err, "Marks")
				for i := range racers {
					cancelled := marks.Cancelled != nil && marks.Cancelled.By == fmt.Sprint(i)
					if cancelled && marks.MovedTo.IsZero() || marks.Cancelled == nil && marks.MovedTo == entry(i) {
						return i
					}
				}
				return nobody
			}
	}},
	{name: "a session", begin: func(b *bench, _ int) (func(int) (int, error), func() int) {
		executor := b.executor()
		return func(i int) (int, error) {
				is := schema.Session{Executor: executor, ID: fmt.Sprint(i), Expires: b.now}
				return won(i, b.store.SwapSession(b.ctx, schema.Session{}, is))
			}, func() int {
				stands, err := b.store.Session(b.ctx, executor)
				b.must(err, "Session")
				return b.number(stands.ID)
			}
	}},
	{name: "an idempotency key", sure: true, told: true, begin: func(b *bench, round int) (func(int) (int, error), func() int) {
		key, records := fmt.Sprint("key ", round), make([]schema.KeyRecord, racers)
		for i := range records {
			records[i] = b.record(fmt.Sprint(i))
		}
		register := func(i int) (int, error) {
			stands, mine, err := b.store.RegisterKey(b.ctx, b.tenant, key, records[i], b.later())
			if err != nil {
				return nobody, err
			}
			holder := b.number(stands.BodyHash)
			if mine != (holder == i) {
				b.Errorf("RegisterKey %d = %+v, mine %v", i, stands, mine)
			}
			return holder, nil
		}
		return register, func() int {
			holder, err := register(0)
			b.must(err, "RegisterKey")
			return holder
		}
	}},
	{name: "the change of a job", begin: func(b *bench, _ int) (func(int) (int, error), func() int) {
		first := b.job(b.jobID(b.jobPlace(), 0), 1)
		b.create(first)
		var changes []schema.Job
		for i := range racers {
			changes = append(changes, b.changed(first, int64(10+i), schema.JobActive))
		}
		return func(i int) (int, error) { return won(i, b.store.SwapJob(b.ctx, 1, changes[i])) },
			func() int { return b.generationOf(first.ID) }
	}},
	{name: "the making of a job on condition", begin: func(b *bench, _ int) (func(int) (int, error), func() int) {
		id := b.jobID(b.jobPlace(), 0)
		return func(i int) (int, error) { return won(i, b.store.SwapJob(b.ctx, 0, b.job(id, int64(10+i)))) },
			func() int { return b.generationOf(id) }
	}},
	{name: "the name of a job", sure: true, told: true, begin: func(b *bench, round int) (func(int) (int, error), func() int) {
		name, ids := fmt.Sprint("n", round), b.jobIDs()
		return func(i int) (int, error) {
			holder := nobody
			err := b.repeat(func() error {
				id, _, mine, err := b.store.RegisterName(b.ctx, b.tenant, name, ids[i], b.now)
				if holder = slices.Index(ids, id); err == nil && mine != (holder == i) {
					b.Errorf("RegisterName %d = %s, mine %v, asked for %s", i, id, mine, ids[i])
				}
				return err
			})
			return holder, err
		}, func() int { return b.holderOf(name, ids) }
	}},
	{name: "the name of another job", begin: func(b *bench, round int) (func(int) (int, error), func() int) {
		name, gone, ids := fmt.Sprint("n", round), b.jobID(b.jobPlace(), 0), b.jobIDs()
		b.registers(b.tenant, name, gone, b.now, b.now)
		return func(i int) (int, error) {
				return won(i, b.store.TransferName(b.ctx, b.tenant, name, gone, ids[i], b.now))
			},
			func() int { return b.holderOf(name, ids) }
	}},
	{name: "a decision", many: 16, sure: true, told: true, begin: func(b *bench, round int) (func(int) (int, error), func() int) {
		key := fmt.Sprintf("%s/%d", b.tenant, round)
		decide := func(i int) (int, error) {
			var text string
			err := b.repeat(func() (err error) {
				text, err = b.store.Decide(b.ctx, key, fmt.Sprint(i), b.later())
				return err
			})
			return b.number(text), err
		}
		return decide, func() int {
			holder, err := decide(0)
			b.must(err, "Decide")
			return holder
		}
	}},
	{name: "a lease", sure: true, told: true, begin: func(b *bench, round int) (func(int) (int, error), func() int) {
		key := fmt.Sprintf("%s/%d", b.tenant, round)
		was := schema.Lease{}
		if round%2 == 1 {
			was = schema.Lease{Key: key, Fence: 1}
			_, err := b.store.SwapLease(b.ctx, schema.Lease{}, was, b.later())
			b.must(err, "SwapLease")
		}
		lease := func(i int) schema.Lease {
			holder := &schema.SessionRef{Executor: fmt.Sprint("racer ", i), ID: text(i), Started: b.now}
			return schema.Lease{Key: key, Fence: 2, Holder: holder}
		}
		holderOf := func(l schema.Lease) int {
			for i := range racers {
				if l.Same(lease(i)) {
					return i
				}
			}
			return nobody
		}
		return func(i int) (int, error) {
				stands, err := b.store.SwapLease(b.ctx, was, lease(i), b.later())
				if errors.Is(err, schema.ErrUnknown) { // the lease tells
					if stands, err = b.store.Lease(b.ctx, key); err == nil && stands.Same(was) {
						stands, err = b.store.SwapLease(b.ctx, was, lease(i), b.later())
					}
				}
				return holderOf(stands), err
			}, func() int {
				stands, err := b.store.Lease(b.ctx, key)
				b.must(err, "Lease")
				return holderOf(stands)
			}
	}},
	{name: "the name of an API key", mayFail: true, begin: func(b *bench, round int) (func(int) (int, error), func() int) {
		keys := make([]schema.APIKey, racers)
		for i := range keys {
			keys[i] = b.apiKey(fmt.Sprint("n", round))
		}
		return func(i int) (int, error) { return won(i, b.store.CreateAPIKey(b.ctx, keys[i])) }, func() int {
			valid := nobody
			for i, k := range keys {
				if _, err := b.store.APIKey(b.ctx, k.Hash); err != nil {
					continue
				}
				if valid != nobody {
					b.Errorf("keys %d and %d are valid, and have one name", valid, i)
				}
				valid = i
			}
			return valid
		}
	}},
	{name: "a secret", many: 8, sure: true, begin: func(b *bench, round int) (func(int) (int, error), func() int) {
		name, was := fmt.Sprint("n", round), int64(0)
		if round%2 == 1 {
			was = 50
			b.must(b.store.SwapSecret(b.ctx, 0, b.secret(name, was)), "SwapSecret")
		}
		return func(i int) (int, error) { return won(i, b.store.SwapSecret(b.ctx, was, b.secret(name, int64(100+i)))) }, func() int {
			stands, err := b.store.Secret(b.ctx, b.tenant, name)
			b.must(err, "Secret")
			return int(stands.Revision - 100)
		}
	}},
	{name: "signing keys", many: 8, sure: true, begin: func(b *bench, round int) (func(int) (int, error), func() int) {
		tenant := fmt.Sprint(b.tenant, "-", round)
		return func(i int) (int, error) {
				return won(i, b.store.SwapSigningKeys(b.ctx, tenant, 0, b.signing(int64(100+i), fmt.Sprint("k", i))))
			}, func() int {
				stands, err := b.store.SigningKeys(b.ctx, tenant)
				b.must(err, "SigningKeys")
				b.wantSigning(tenant, b.signing(stands.Revision, fmt.Sprint("k", stands.Revision-100)))
				return int(stands.Revision - 100)
			}
	}},
}

// number returns the racer whose number the text is.
func (b *bench) number(text string) int {
	b.Helper()
	for i := range 16 {
		if text == fmt.Sprint(i) {
			return i
		}
	}
	return nobody
}

// generationOf returns the racer whose generation of a job is in force.
func (b *bench) generationOf(id schema.JobID) int {
	b.Helper()
	j, err := b.store.Job(b.ctx, id)
	b.must(err, "Job")
	return int(j.Current.Number - 10)
}

// holderOf returns the racer whose job has a name.
func (b *bench) holderOf(name string, ids []schema.JobID) int {
	b.Helper()
	holder, _, err := b.store.JobByName(b.ctx, b.tenant, name)
	b.must(err, "JobByName")
	return slices.Index(ids, holder)
}

var raceRules = func() (rules []rule) {
	for i := range contests {
		rules = append(rules, rule{contests[i].name, contests[i].check})
	}
	return rules
}()
