package cassandra

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"carillon.dev/carillon/schema"
	"carillon.dev/carillon/schema/schematest"
)

// openEpochs returns a store of epochs on a real Cassandra of one data centre, closed at the test's
// end.
func openEpochs(t *testing.T) *EpochStore {
	t.Helper()
	cfg := testConfig(t)
	const keyspace = testKeyspace + "_regions"
	m := migrator{cfg: cfg.withDefaults(), opts: MigrateOptions{
		Out: io.Discard, Regions: &Regions{Keyspace: keyspace, Copies: map[string]int{DefaultDatacenter: 1}, Homes: []string{"eu", "us"}},
	}}
	m.cfg.Timeout = ddlTimeout
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := m.migrateRegions(ctx); err != nil {
		t.Fatalf("migrateRegions: %v", err)
	}
	cfg.Keyspace = keyspace
	s, err := OpenEpochs(ctx, cfg)
	if err != nil {
		t.Fatalf("OpenEpochs: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() }) // never fails
	return s
}

// TestEpochContract: a real Cassandra keeps the contract of schema.EpochStore.
func TestEpochContract(t *testing.T) {
	s := openEpochs(t)
	schematest.ExerciseEpochs(t, func(*testing.T) schema.EpochStore { return s })
}

// TestAMigrationWritesFirstEpochs: each home is served by the region of its name, and whoever
// migrates again changes nothing.
func TestAMigrationWritesFirstEpochs(t *testing.T) {
	for range 2 {
		got, err := openEpochs(t).Epochs(t.Context(), []string{"eu", "us"})
		if err != nil || len(got) != 2 {
			t.Fatalf("Epochs = %+v, %v, want 2", got, err)
		}
		for i, home := range []string{"eu", "us"} {
			if got[i].Number != 1 || got[i].Region != home {
				t.Errorf("Epochs[%d] = %+v, want epoch 1 in region %s", i, got[i], home)
			}
		}
	}
}

func TestRegionsOfAMigrationAreChecked(t *testing.T) {
	good := Regions{Copies: map[string]int{"eu": 3, "us-1": 3, "witness": 1}, Homes: []string{"eu", "us"}}
	if err := good.validate(); err != nil {
		t.Errorf("validate of %+v = %v, want nil", good, err)
	}
	if got, want := good.replication(), "{'class': 'NetworkTopologyStrategy', 'eu': 3, 'us-1': 3, 'witness': 1}"; got != want {
		t.Errorf("replication = %s, want %s", got, want)
	}
	if err := (*Regions)(nil).validate(); err != nil {
		t.Errorf("validate of none = %v, want nil", err)
	}
	bad := Regions{Keyspace: "No'", Copies: map[string]int{"e'u": 10}}
	err := bad.validate()
	for _, fault := range []string{"is not a small letter", "1 data centres", "10 copies", "no homes"} {
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("validate of %+v = %v, want it to name %q", bad, err, fault)
		}
	}
}
