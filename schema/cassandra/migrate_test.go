package cassandra

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"carillon.dev/carillon/schema"
	"github.com/gocql/gocql"
)

// TestMigrateTwiceAtOnce migrates a new keyspace from two sides: one applies, both find everything
// there.
func TestMigrateTwiceAtOnce(t *testing.T) {
	cfg := testConfig(t)
	cfg.Keyspace = "carillon_test_migrate"
	admin, err := connect(t.Context(), cfg, "")
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() {
		drop(t, admin, cfg.Keyspace)
		_ = admin.Close()
	})
	drop(t, admin, cfg.Keyspace)

	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrNotMigrated) {
		t.Errorf("Open without a keyspace: got %v, want ErrNotMigrated", err)
	}
	if _, err := Migrate(t.Context(), cfg, MigrateOptions{}); err == nil || !strings.Contains(err.Error(), "replication") {
		t.Errorf("Migrate of a new keyspace without replication: got %v, want an error that says so", err)
	}
	for _, two := range []string{"dc1:1,dc2:1", "dc2:1"} {
		if _, err := Migrate(t.Context(), cfg, MigrateOptions{Replication: two}); err == nil || !strings.Contains(err.Error(), "data centre") {
			t.Errorf("Migrate to %s: got %v, want it refused for its data centres", two, err)
		}
	}
	opts := MigrateOptions{Replication: "1", Shards: 3, Retention: 48 * time.Hour}
	all, err := loadMigrations(migrationFiles)
	if err != nil {
		t.Fatal(err)
	}

	var plan strings.Builder
	dry := opts
	dry.DryRun, dry.Out = true, &plan
	did, err := Migrate(t.Context(), cfg, dry)
	if err != nil || !did.Keyspace || len(did.Applied) != len(all) || !did.Settings || did.Cursors != 3 {
		t.Errorf("Migrate, dry: got %+v, %v, want everything", did, err)
	}
	for _, want := range []string{"CREATE KEYSPACE", "'dc1': 1", "CREATE TABLE IF NOT EXISTS attempts", "TimeWindowCompactionStrategy"} {
		if !strings.Contains(plan.String(), want) {
			t.Errorf("Migrate, dry: its plan does not show %q", want)
		}
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrNotMigrated) {
		t.Errorf("Open after a dry run: got %v, want ErrNotMigrated", err)
	}

	before := schema.BucketOf(time.Now())
	var wg sync.WaitGroup
	var dids [2]Migrated
	var errs [2]error
	for i := range dids {
		ahead := cfg // the clock of whoever migrates does not matter
		ahead.Now = func() time.Time { return time.Now().Add(time.Hour) }
		wg.Go(func() { dids[i], errs[i] = Migrate(t.Context(), ahead, opts) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatalf("Migrate: %v", err)
	}
	if n := len(dids[0].Applied) + len(dids[1].Applied); n != len(all) {
		t.Errorf("applied: %v and %v, want each migration by one of them", dids[0].Applied, dids[1].Applied)
	}
	if n := dids[0].Cursors + dids[1].Cursors; n != 3 || dids[0].Settings == dids[1].Settings {
		t.Errorf("cursors and settings: got %+v and %+v, want 3 and one", dids[0], dids[1])
	}

	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer func() { _ = s.Close() }()
	settings, err := s.Settings(t.Context())
	if err != nil || settings.Shards != 3 || settings.Retention != 48*time.Hour || len(settings.History) != 0 {
		t.Errorf("Settings: got %+v, %v, want 3 shards and 48h", settings, err)
	}
	cursors, err := s.Cursors(t.Context())
	if err != nil || len(cursors) != 3 {
		t.Fatalf("Cursors: got %v, %v, want 3", cursors, err)
	}
	for i, c := range cursors {
		if c.Shard != schema.Shard(i) || c.Epoch != 1 || c.Dispatched != c.Settled || c.Dispatched < before-2 || c.Dispatched > schema.BucketOf(time.Now())-2 {
			t.Errorf("cursor %d: got %+v, want epoch 1 and two buckets before now", i, c)
		}
	}

	// Later and with other wishes: what stands stays, also cursors that lag behind.
	later := cfg
	later.Now = func() time.Time { return time.Now().Add(time.Hour) }
	opts.Shards, opts.Retention = 2, time.Hour
	if did, err := Migrate(t.Context(), later, opts); err != nil || did.Keyspace || len(did.Applied) != 0 || did.Settings || did.Cursors != 0 || did.InForce.Shards != 3 {
		t.Errorf("Migrate again: got %+v, %v, want nothing done", did, err)
	}
	if again, err := s.Cursors(t.Context()); err != nil || !slices.Equal(again, cursors) {
		t.Errorf("Cursors after it: got %v, %v, want %v", again, err, cursors)
	}

	tamper := func(text string, args ...any) {
		t.Helper()
		if err := s.session.Query(text, args...).Exec(); err != nil {
			t.Fatalf("tamper: %v", err)
		}
	}
	// Conditional, as the rows were written: a plain write could be older than theirs.
	tamper(`UPDATE migrations SET checksum = 'other' WHERE scope = 'schema' AND version = 1 IF EXISTS`)
	for what, f := range attempts(cfg, opts) {
		if err := f(t.Context()); !errors.Is(err, ErrChanged) {
			t.Errorf("%s with a changed migration: got %v, want ErrChanged", what, err)
		}
	}
	tamper(`UPDATE migrations SET checksum = ? WHERE scope = 'schema' AND version = 1 IF EXISTS`, known(t)[0].checksum)
	tamper(`INSERT INTO migrations (scope, version, name, checksum) VALUES ('schema', ?, 'next.additive.cql', 'x') IF NOT EXISTS`, len(all)+1)
	for what, f := range attempts(cfg, opts) {
		if err := f(t.Context()); err != nil {
			t.Errorf("%s with the next version's migration, which only adds: got %v, want nil", what, err)
		}
	}
	tamper(`INSERT INTO migrations (scope, version, name, checksum) VALUES ('schema', 99, '0099_future.cql', 'x') IF NOT EXISTS`)
	for what, f := range attempts(cfg, opts) {
		if err := f(t.Context()); !errors.Is(err, ErrNewer) || !strings.Contains(fmt.Sprint(err), "0099_future.cql") {
			t.Errorf("%s with a newer migration: got %v, want ErrNewer naming it", what, err)
		}
	}
}

// attempts are Open and Migrate as functions that can be tried alike.
func attempts(cfg Config, opts MigrateOptions) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Open": func(ctx context.Context) error {
			s, err := Open(ctx, cfg)
			if err == nil {
				err = s.Close()
			}
			return err
		},
		"Migrate": func(ctx context.Context) error { _, err := Migrate(ctx, cfg, opts); return err },
	}
}

func known(t *testing.T) []migration {
	t.Helper()
	m, err := loadMigrations(migrationFiles)
	if err != nil {
		t.Fatalf("loadMigrations: %v", err)
	}
	return m
}

func drop(t *testing.T, s *Store, keyspace string) {
	t.Helper()
	if err := s.session.Query("DROP KEYSPACE IF EXISTS " + keyspace).WithContext(context.WithoutCancel(t.Context())).Exec(); err != nil {
		t.Errorf("drop keyspace %s: %v", keyspace, err)
	}
}

// TestMigrationLock: one holder at a time, and whoever lost it is told.
func TestMigrationLock(t *testing.T) {
	s := openTest(t)
	first, err := takeMigrationLock(t.Context(), s, unique("first"))
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error)
	cfg := testConfig(t)
	cfg.Logger = notify(func() { cancel() }) // it tells when it has found the lock taken
	waits, err := connect(t.Context(), cfg, cfg.Keyspace)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = waits.Close() }()
	go func() {
		_, err := takeMigrationLock(ctx, waits, unique("second"))
		cancelled <- err
	}()
	if err := <-cancelled; !errors.Is(err, context.Canceled) || !strings.Contains(fmt.Sprint(err), first.owner) {
		t.Errorf("second take: got %v, want to wait for %s until cancelled", err, first.owner)
	}
	if err := first.keep(t.Context()); err != nil {
		t.Errorf("keep: %v", err)
	}
	if err := first.drop(t.Context()); err != nil {
		t.Errorf("drop: %v", err)
	}
	if err := first.keep(t.Context()); !errors.Is(err, errLockLost) {
		t.Errorf("keep after drop: got %v, want errLockLost", err)
	}
	second, err := takeMigrationLock(t.Context(), s, unique("second"))
	if err != nil {
		t.Fatalf("take after drop: %v", err)
	}
	if err := first.drop(t.Context()); !errors.Is(err, errLockLost) {
		t.Errorf("drop of another's lock: got %v, want errLockLost", err)
	}
	if err := second.drop(t.Context()); err != nil {
		t.Errorf("drop: %v", err)
	}
}

// TestTablesAreAllThere: every table of DESIGN 4 exists, and no name had to be quoted to be
// created.
func TestTablesAreAllThere(t *testing.T) {
	s := openTest(t)
	var got []string
	iter := s.session.Query(`SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?`, testKeyspace).Consistency(gocql.One).Iter()
	for name := ""; iter.Scan(&name); {
		got = append(got, name)
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(`api_key_names api_keys attempts audit calendars cursors dead_letter_days dead_letters dependents imports incidents job_index job_names job_runs jobs joins keys leases listening_tenants
		migration_lock migrations notification_groups notifications operations payloads rated_tasks regions run_outputs runs secrets sessions settings signing_keys stats subscriptions tasks tenants waited_for waiting`)
	if !slices.Equal(got, want) {
		t.Errorf("tables: got %v, want %v", got, want)
	}
}

// TestEveryStatementPrepares: also those that no test executes fit the tables.
func TestEveryStatementPrepares(t *testing.T) {
	s, regions := openTest(t), openEpochs(t)
	for st, name := range names {
		session := s.session
		if strings.Contains(strings.Join(regionTables, "\n"), "%s."+st.table()+" ") {
			session = regions.session
		}
		b := session.NewBatch(gocql.UnloggedBatch).WithContext(t.Context())
		b.Query(string(st), make([]any, 16)...) // values enough for any partition key
		_, err := b.GetRoutingKey()
		var request gocql.RequestError
		if errors.As(err, &request) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoadMigrations(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, test := range []struct {
		name  string
		files fstest.MapFS
		want  []string // statements of all
		fault string
	}{
		{"none", fstest.MapFS{}, nil, ""},
		{
			"comments and several lines",
			fstest.MapFS{"migrations/0001_a.cql": file("-- first\nCREATE TABLE a (\n  b int, -- a column; of a\n  PRIMARY KEY (b)\n);\n\nDROP x;\nlast")},
			[]string{"CREATE TABLE a (\n  b int,\n  PRIMARY KEY (b)\n)", "DROP x", "last"},
			"",
		},
		{
			"in the order of numbers",
			fstest.MapFS{"migrations/0002_b.cql": file("two;"), "migrations/0001_z.cql": file("one;")},
			[]string{"one", "two"},
			"",
		},
		{"a gap", fstest.MapFS{"migrations/0001_a.cql": file("x;"), "migrations/0003_b.cql": file("y;")}, nil, "number 2 was expected"},
		{"a number twice", fstest.MapFS{"migrations/0001_a.cql": file("x;"), "migrations/0001_b.cql": file("y;")}, nil, "number 2 was expected"},
		{
			"one that only adds",
			fstest.MapFS{"migrations/0001_a.additive.cql": file("CREATE TABLE IF NOT EXISTS a (\n b int PRIMARY KEY);\nALTER TABLE a ADD IF NOT EXISTS c text;")},
			[]string{"CREATE TABLE IF NOT EXISTS a (\n b int PRIMARY KEY)", "ALTER TABLE a ADD IF NOT EXISTS c text"},
			"",
		},
		{"one that drops, and says it only adds", fstest.MapFS{"migrations/0001_a.additive.cql": file("ALTER TABLE a DROP c;")}, nil, "only adds"},
		{"no number", fstest.MapFS{"migrations/a.cql": file("x;")}, nil, "number 1 was expected"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := loadMigrations(test.files)
			if test.fault != "" {
				if err == nil || !strings.Contains(err.Error(), test.fault) {
					t.Fatalf("loadMigrations: got %v, want %q", err, test.fault)
				}
				return
			}
			var statements []string
			for _, m := range got {
				statements = append(statements, m.statements...)
			}
			if err != nil || !slices.Equal(statements, test.want) {
				t.Errorf("loadMigrations: got %q, %v, want %q", statements, err, test.want)
			}
		})
	}
}

// TestOurMigrations: the numbers of this version's are unique and without gaps, which two branches
// that meet may break.
func TestOurMigrations(t *testing.T) {
	all := known(t)
	if len(all) == 0 || all[len(all)-1].version != len(all) {
		t.Errorf("this version has %d migrations, the last of them %+v, want one for each number", len(all), all)
	}
	for _, m := range all {
		if len(m.statements) == 0 {
			t.Errorf("migration %s has no statement", m.name)
		}
	}
}

func TestSessionErrors(t *testing.T) {
	for _, test := range []struct {
		name, text string
		refused    bool
	}{
		{"nobody there", "gocql: unable to create session: unable to discover protocol version: dial tcp 127.0.0.1:9042: connect: connection refused", false},
		{"nobody who knows the password", "Unable to perform authentication: Cannot achieve consistency level LOCAL_ONE", false},
		{"wrong password", "Provided username cassandra and/or password are incorrect", true},
		{"no password", "gocql: no response to connection startup: authentication required", true},
		{"another authority", "tls: failed to verify certificate: x509: certificate signed by unknown authority", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := sessionError(errors.New(test.text))
			if errors.Is(err, ErrRefused) != test.refused || errors.Is(err, schema.ErrUnavailable) == test.refused || !strings.Contains(err.Error(), test.text) {
				t.Errorf("sessionError(%q) = %v, want ErrRefused: %v, else ErrUnavailable", test.text, err, test.refused)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	two := []migration{{version: 1, name: "one", checksum: "a"}, {version: 2, name: "two", checksum: "b"}}
	both := func(more ...applied) []applied {
		return append([]applied{{version: 1, checksum: "a"}, {version: 2, checksum: "b"}}, more...)
	}
	for _, test := range []struct {
		name string
		done []applied
		want []string
		err  error
	}{
		{"nothing applied", nil, []string{"one", "two"}, nil},
		{"one applied", []applied{{version: 1, checksum: "a"}}, []string{"two"}, nil},
		{"all applied", []applied{{version: 1, checksum: "a"}, {version: 2, checksum: "b"}}, nil, nil},
		{"changed", []applied{{version: 1, checksum: "c"}}, []string{"two"}, ErrChanged},
		{"newer", both(applied{version: 3, name: "0003_x.cql"}), nil, ErrNewer},
		{"the next one, which only adds", both(applied{version: 3, name: "0003_x.additive.cql"}), nil, nil},
		{"two that only add", both(applied{version: 3, name: "0003_x.additive.cql"}, applied{version: 4, name: "0004_y.additive.cql"}), nil, ErrNewer},
		{"the one after the next, which only adds", both(applied{version: 4, name: "0004_y.additive.cql"}), nil, ErrNewer},
		{"changed, and the next one", []applied{{version: 1, checksum: "c"}, {version: 3, name: "0003_x.additive.cql"}}, []string{"two"}, ErrChanged},
	} {
		t.Run(test.name, func(t *testing.T) {
			open, ahead, err := missing(two, test.done)
			if want := len(test.done) > 2; err == nil && (ahead != "") != want {
				t.Errorf("missing: runs beside %q, want it named: %v", ahead, want)
			}
			var got []string
			for _, m := range open {
				got = append(got, m.name)
			}
			if !errors.Is(err, test.err) || !slices.Equal(got, test.want) {
				t.Errorf("missing: got %v, %v, want %v, %v", got, err, test.want, test.err)
			}
		})
	}
}

func TestReplication(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"1", "{'class': 'NetworkTopologyStrategy', 'here': 1}"},
		{"here:3", "{'class': 'NetworkTopologyStrategy', 'here': 3}"},
		{"here:3, there:2", ""},
		{"there:3", ""},
		{"0", ""},
		{"", ""},
		{"dc1", ""},
		{"here:3,here:3", ""},
		{"d'c:3", ""},
		{"here:3,", ""},
	} {
		got, err := replication(test.text, "here")
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("replication(%q): got %q, %v, want %q", test.text, got, err, test.want)
		}
	}
}

// TestReplicationOfRegions: a number of copies is that in each data centre.
func TestReplicationOfRegions(t *testing.T) {
	got, err := replication("3", "here", "there", "here")
	if want := "{'class': 'NetworkTopologyStrategy', 'here': 3, 'there': 3}"; got != want || err != nil {
		t.Errorf("replication(3): got %q, %v, want %q", got, err, want)
	}
	if got, err := replication("here:3", "here", "there", "here"); err == nil {
		t.Errorf("replication(here:3): got %q, want an error: the other region would have none", got)
	}
}

func TestMigrateOptionsAreChecked(t *testing.T) {
	_, err := Migrate(t.Context(), Config{}, MigrateOptions{Shards: 5000, Retention: time.Second, Replication: "x", Out: io.Discard})
	for _, want := range []string{"shards", "retention", "replication", "hosts"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Migrate: got %v, want a fault of %s", err, want)
		}
	}
}
