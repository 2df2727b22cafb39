// Package outbox creates jobs in the caller's database transaction: a job that is enqueued exists
// if and only if the transaction commits, and is then moved to Carillon, where it is created once.
//
//	ob, err := outbox.New(outbox.Config{})                      // the table carillon_outbox
//	_, err = db.ExecContext(ctx, ob.DDL())                      // once, or in your migrations
//
//	tx, err := db.BeginTx(ctx, nil)
//	…                                                           // the order is written
//	key, err := ob.Enqueue(ctx, tx, client.NewJob(client.Task("ship")).Payload(order))
//	err = tx.Commit()
//
//	go ob.Mover(db, c, outbox.MoverConfig{}).Run(ctx)           // in one process, or in many
//
// The database is PostgreSQL 11 or later, by any driver of database/sql. Who uses another library
// for a transaction executes what Statement returns.
//
// # Invariants
//
//  1. A row has one key and one instant, drawn when it is enqueued. An import line with a key and
//     an instant is one job however often it is sent, for as long as Carillon keeps the run.
//  2. A row leaves the table only after Carillon has acknowledged its job.
//  3. A row whose job Carillon refuses for good (422, say) stays, with the reason in refused, and
//     is not sent again until that is set to NULL.
//
// So only jobs are taken that run once, at an instant: Enqueue refuses schedules by cron and every,
// on, after and names. Without an instant a job is due when it is enqueued.
//
// # If it crashes
//
//	after it has locked rows        the locks end with the connection; another mover takes the rows
//	after Carillon created jobs,    the rows are still there. They are sent again, and Carillon
//	before the rows are deleted     answers that the jobs exist
//	after the rows are deleted      nothing is left to do
//
// Movers in several processes share the rows (FOR UPDATE SKIP LOCKED). A mover holds its
// transaction while it asks Carillon: set idle_in_transaction_session_timeout to a minute or more
// for it.
//
// # Limits
//
// A row that is moved, and whose deletion is then held up for longer than Carillon keeps the run
// (retention, 7 days unless configured), would be created again. Order between jobs is not
// promised.
package outbox
