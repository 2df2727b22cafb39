package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	riverqueue "github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"carillon.dev/carillon/loadtest/peers/measure"
	"carillon.dev/carillon/loadtest/peers/server"
)

const (
	riverBatch     = 5000 // jobs of a COPY
	riverInserters = 2    // at the same time: there are two cores, and as many imports in Carillon's bench

	// What tuned means. The documentation names the number of workers and the time between fetches as what bounds
	// throughput, so the workers are many (they only wait for the sink) and fetches frequent. A
	// burn-down is as fast with 500 as with 5,000 workers, and no faster with fetches each 1 ms.
	riverWorkers  = 2000
	riverCooldown = 5 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
	riverConns    = 16

	// The default for workers: River has none, its documentation's examples have 100.
	riverExampleWorkers = 100

	riverStop = 30 * time.Second
)

// river is River on a PostgreSQL of its own.
//
// What its public interface does not let us set: the leader moves jobs from scheduled to available every 5 s, those
// of the next 5 s at once, in batches of 10,000 with pauses of 50 ms to 1 s between them.
type river struct {
	tuned   bool
	relaxed bool // synchronous_commit off
	log     *slog.Logger

	postgres *server.Postgres
	pool     *pgxpool.Pool
	inserter *riverqueue.Client[pgx.Tx]
	version  string
}

// riverArgs are the arguments of a run.
type riverArgs struct {
	measure.Job

	Pad string `json:"pad,omitempty"`
}

// Kind is how River finds the worker.
func (riverArgs) Kind() string { return "run" }

type riverWorker struct {
	riverqueue.WorkerDefaults[riverArgs]

	handle measure.Handler
}

// Work implements river.Worker.
func (w *riverWorker) Work(ctx context.Context, job *riverqueue.Job[riverArgs]) error {
	return w.handle(ctx, job.Args.Job)
}

func (r *river) postgresConfig() server.PostgresConfig {
	return server.PostgresConfig{Relaxed: r.relaxed}
}

// Name implements measure.Peer.
func (r *river) Name() string {
	switch {
	case r.relaxed:
		return "river-relaxed"
	case r.tuned:
		return "river"
	default:
		return "river-default"
	}
}

// Settings implements measure.Peer.
func (r *river) Settings() measure.Settings {
	s := measure.Settings{
		Durability: server.PostgresDurability(r.postgresConfig()),
		Versions:   map[string]string{"river": moduleVersion("github.com/riverqueue/river"), "postgres": r.version},
		Tuning:     map[string]string{"insert": fmt.Sprintf("InsertManyFast (COPY), %d jobs each, %d at a time", riverBatch, riverInserters)},
	}
	if r.tuned {
		s.Tuning["MaxWorkers"] = fmt.Sprint(riverWorkers)
		s.Tuning["FetchCooldown"] = riverCooldown.String()
		s.Tuning["FetchPollInterval"] = riverPoll.String()
	} else {
		s.Tuning["MaxWorkers"] = fmt.Sprint(riverExampleWorkers)
	}
	return s
}

// Start implements measure.Peer.
func (r *river) Start(ctx context.Context, dir string) (err error) {
	if r.postgres, err = server.StartPostgres(ctx, dir, r.postgresConfig()); err != nil {
		return err
	}
	r.version = r.postgres.Version(ctx)
	cfg, err := pgxpool.ParseConfig(r.postgres.URL())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	cfg.MaxConns = riverConns
	if r.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: r.log})
	if err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	if r.inserter, err = riverqueue.NewClient(riverpgxv5.New(r.pool), &riverqueue.Config{Logger: r.log}); err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	return nil
}

// Enqueue implements measure.Peer.
func (r *river) Enqueue(ctx context.Context, wave, n, payload int, at func(int) time.Time) error {
	pad := measure.Pad(payload)
	err := inParts(ctx, n, riverBatch, riverInserters, func(ctx context.Context, from, to int) error {
		batch := make([]riverqueue.InsertManyParams, 0, to-from)
		for i := from; i < to; i++ {
			p := riverqueue.InsertManyParams{Args: riverArgs{Job: measure.Job{Wave: wave, I: i}, Pad: pad}}
			if due := at(i); !due.IsZero() {
				p.InsertOpts = &riverqueue.InsertOpts{ScheduledAt: due}
			}
			batch = append(batch, p)
		}
		_, err := r.inserter.InsertManyFast(ctx, batch)
		return err
	})
	if err != nil {
		return err
	}
	// Autovacuum comes to it in its own time; until then the planner knows nothing of these rows.
	if _, err := r.pool.Exec(ctx, "VACUUM (ANALYZE) river_job"); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	return nil
}

// RunWorkers implements measure.Peer.
func (r *river) RunWorkers(ctx context.Context, handle measure.Handler) error {
	workers := riverqueue.NewWorkers()
	riverqueue.AddWorker(workers, &riverWorker{handle: handle})
	cfg := &riverqueue.Config{
		Queues:  map[string]riverqueue.QueueConfig{riverqueue.QueueDefault: {MaxWorkers: riverExampleWorkers}},
		Workers: workers, Logger: r.log,
	}
	if r.tuned {
		cfg.Queues[riverqueue.QueueDefault] = riverqueue.QueueConfig{MaxWorkers: riverWorkers}
		cfg.FetchCooldown, cfg.FetchPollInterval = riverCooldown, riverPoll
	}
	client, err := riverqueue.NewClient(riverpgxv5.New(r.pool), cfg)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	free := context.WithoutCancel(ctx)
	if err := client.Start(free); err != nil { // what runs may end when we are told to stop
		return fmt.Errorf("start client: %w", err)
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(free, riverStop)
	defer cancel()
	if err := client.Stop(stop); err != nil {
		return fmt.Errorf("stop client: %w", errors.Join(err, client.StopAndCancel(free)))
	}
	return nil
}

// Unfinished implements measure.Peer.
func (r *river) Unfinished(ctx context.Context) (n int, err error) {
	const count = "SELECT count(*) FROM river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled')"
	err = r.pool.QueryRow(ctx, count).Scan(&n)
	return n, err
}

// Servers implements measure.Peer.
func (r *river) Servers() map[string]int { return map[string]int{"postgres": r.postgres.PID()} }

// Stop implements measure.Peer.
func (r *river) Stop(ctx context.Context) error {
	if r.pool != nil {
		r.pool.Close()
	}
	if r.postgres == nil {
		return nil
	}
	return r.postgres.Stop(ctx)
}
