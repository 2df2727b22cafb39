package cassandra

import (
	"math/rand/v2"
	"testing"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/deadletters"
	"carillon.dev/carillon/schema/schematest"
)

// TestContract: a real Cassandra keeps the contract.
func TestContract(t *testing.T) {
	s := openTest(t)
	schematest.Exercise(t, func(*testing.T) schema.Store { return s })
}

// TestContractOfABadDay: dead letters keep it where each day of them is spread.
func TestContractOfABadDay(t *testing.T) {
	c := openTest(t).core
	s := newStore(c)
	s.deadLetterStore = deadLetterStore{deadletters.New(deadletters.Config{Table: letterTable{c}, Damage: c.damage, MaxRow: maxRowBytes, Now: c.cfg.Now, SpreadAfter: 1})}
	schematest.ExerciseDeadLetters(t, func(*testing.T) schema.Store { return s })
}

// shared is a store that the end of a test does not close.
type shared struct{ *Store }

func (shared) Close() error { return nil }

// TestContractThroughFaults: so it does when calls linger, fail, lose their answers, are torn or
// come late, for whoever repeats what may be repeated.
func TestContractThroughFaults(t *testing.T) {
	s := openTest(t)
	odds := schematest.Odds{Delay: 0.1, Fail: 0.1, Lose: 0.2, Tear: 0.1, Late: 0.1}
	schematest.Exercise(t, func(t *testing.T) schema.Store {
		seed := rand.Uint64()
		t.Logf("seed of the faults: %d", seed)
		faulty := schematest.Faulty(shared{s}, schematest.Seeded(seed, odds))
		t.Cleanup(func() { _ = faulty.Close() }) // waits for the late writes
		return schematest.Retrying(faulty)
	})
}
