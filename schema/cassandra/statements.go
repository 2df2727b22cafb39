package cassandra

import (
	"strings"

	"github.com/gocql/gocql"
)

// statement is the text of one CQL statement.
type statement string

// serialLevels says for each table that has conditional writes who decides them. A table has one
// level, for its conditional writes and for the reads that ask what they came to: Cassandra does not
// let a decision at the one level exclude one at the other.
//
//	LOCAL_SERIAL   the nodes of our data centre: the row has one home, and only the region that
//	               serves it writes it conditionally
//	SERIAL         the nodes of all data centres: there is one such row for the whole cluster
//
// LOCAL_SERIAL in two data centres at once is no lock: both sides win. Where a keyspace lies in one
// data centre, both levels ask the same nodes.
var serialLevels = map[string]gocql.SerialConsistency{
	"runs": gocql.LocalSerial, "jobs": gocql.LocalSerial, // home of the shard
	"leases": gocql.LocalSerial,                                                                     // home of the run, job or tenant that the key names
	"keys":   gocql.LocalSerial, "job_names": gocql.LocalSerial, "api_key_names": gocql.LocalSerial, // home of the tenant
	"signing_keys": gocql.LocalSerial, "secrets": gocql.LocalSerial, "notification_groups": gocql.LocalSerial,
	"sessions": gocql.LocalSerial, // an executor belongs to one region

	"epochs":   gocql.Serial, // who serves a home: its keyspace has copies in every data centre
	"settings": gocql.Serial, "migrations": gocql.Serial, "migration_lock": gocql.Serial,
}

// serialOf holds the level of each statement of a table in serialLevels.
var serialOf = func() map[statement]gocql.SerialConsistency {
	levels := make(map[statement]gocql.SerialConsistency)
	for st := range names {
		if level, ok := serialLevels[st.table()]; ok {
			levels[st] = level
		}
	}
	return levels
}()

// table returns the table that st reads or writes, without its keyspace.
func (st statement) table() string {
	words := strings.Fields(string(st))
	for i, word := range words[:len(words)-1] {
		switch {
		case word == "FROM", word == "INTO", word == "UPDATE" && i == 0:
			name := words[i+1]
			return name[strings.LastIndexByte(name, '.')+1:]
		}
	}
	return ""
}

// All statements are LOCAL_QUORUM unless it says otherwise. Those called conditional, or read at the
// level of such, have the level of their table in serialLevels. "Idempotent" means that a statement may
// be sent again, also while a first copy is under way, because timestamp and expiry are bound. No
// statement filters, and none reads more than one partition unless it says so.
const (
	// runs of one partition; written in batches of it. Idempotent. An absent payload is left unset.
	insertEntry statement = `INSERT INTO runs (bucket, shard, entry_id, spec, payload) VALUES (?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// payloads of one partition; written in batches of it, before the rows. Idempotent.
	insertPayload statement = `INSERT INTO payloads (bucket, shard, entry_id, payload) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`

	// A slice of one partition of runs, in id order. Idempotent.
	selectEntries statement = `SELECT entry_id, spec, payload, cancelled, moved_to FROM runs WHERE bucket = ? AND shard = ? AND entry_id > ? AND entry_id < ?`
	// The same without what rows hold. The write time tells rows of an entry from rows of marks
	// alone. Idempotent.
	selectEntryIDs statement = `SELECT entry_id, writetime(spec) FROM runs WHERE bucket = ? AND shard = ? AND entry_id > ? AND entry_id < ?`
	// At most maxIDsPerRead rows of one partition of runs, in id order. Idempotent.
	selectEntriesByID statement = `SELECT entry_id, spec, payload, cancelled, moved_to FROM runs WHERE bucket = ? AND shard = ? AND entry_id IN ?`
	// One row of payloads. Idempotent.
	selectPayload statement = `SELECT payload FROM payloads WHERE bucket = ? AND shard = ? AND entry_id = ?`

	// One row of runs, conditional. Not idempotent.
	cancelRun statement = `UPDATE runs USING TTL ? SET cancelled = ? WHERE bucket = ? AND shard = ? AND entry_id = ? IF spec != null AND cancelled = null AND moved_to = ?`
	// One row of runs, conditional. Not idempotent.
	moveRun statement = `UPDATE runs USING TTL ? SET moved_to = ? WHERE bucket = ? AND shard = ? AND entry_id = ? IF spec != null AND cancelled = null AND moved_to = ?`
	// One row of runs, serial. Idempotent.
	selectMarks statement = `SELECT writetime(spec), cancelled, moved_to FROM runs WHERE bucket = ? AND shard = ? AND entry_id = ?`

	// attempts of one partition; written in batches of it. Idempotent. Absent cells are left unset.
	insertAttempt statement = `INSERT INTO attempts (bucket, shard, run_id, attempt, fence, record, session) VALUES (?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// The attempts of at most maxIDsPerRead runs of one partition, in order of run, attempt and
	// fence. Idempotent.
	selectAttempts statement = `SELECT run_id, attempt, fence, record, session, writetime(record), writetime(session) FROM attempts WHERE bucket = ? AND shard = ? AND run_id IN ?`

	// One row of run_outputs. Idempotent.
	insertPart statement = `INSERT INTO run_outputs (bucket, shard, run_id, kind, attempt, fence, part, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// A slice of one partition of run_outputs, in order of attempt, fence and part. Idempotent.
	selectParts statement = `SELECT attempt, fence, part, data FROM run_outputs WHERE bucket = ? AND shard = ? AND run_id = ? AND kind = ? AND (attempt, fence, part) > (?, ?, ?)`
	// The last row of an execution's slice of a partition of run_outputs. Idempotent.
	selectLastPart statement = `SELECT attempt, fence, part, data FROM run_outputs WHERE bucket = ? AND shard = ? AND run_id = ? AND kind = ? AND attempt = ? AND fence = ? ORDER BY run_id DESC, kind DESC, attempt DESC, fence DESC, part DESC LIMIT 1`

	// One row of sessions, conditional. Not idempotent.
	createSession statement = `INSERT INTO sessions (executor, session, expires, former, released) VALUES (?, ?, ?, ?, ?) IF NOT EXISTS USING TTL ?`
	// One row of sessions, conditional. Not idempotent.
	renewSession statement = `UPDATE sessions USING TTL ? SET session = ?, expires = ?, former = ?, released = ? WHERE executor = ? IF session = ? AND expires = ?`
	// One row of sessions, conditional. Not idempotent.
	removeSession statement = `DELETE FROM sessions WHERE executor = ? IF session = ? AND expires = ?`
	// One row of sessions, serial. Idempotent.
	selectSession statement = `SELECT session, expires, former, released FROM sessions WHERE executor = ?`

	// One row of keys, conditional. Not idempotent.
	registerKey statement = `INSERT INTO keys (tenant, "key", body_hash, entry_id, spec, payload, expires) VALUES (?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS USING TTL ?`
	// One row of keys, serial. Idempotent.
	selectKey statement = `SELECT body_hash, entry_id, spec, payload, expires FROM keys WHERE tenant = ? AND "key" = ?`

	// One row of cursors; the timestamp is the bucket's end, so that the highest bucket stays.
	// Idempotent.
	raiseDispatched statement = `UPDATE cursors USING TIMESTAMP ? SET dispatched = ? WHERE shard = ? AND epoch = ?`
	// One row of cursors, as raiseDispatched. Idempotent.
	raiseSettled statement = `UPDATE cursors USING TIMESTAMP ? SET settled = ? WHERE shard = ? AND epoch = ?`
	// The first row of one partition of cursors, the newest epoch. Idempotent.
	selectCursor statement = `SELECT epoch, dispatched, settled FROM cursors WHERE shard = ? LIMIT 1`
	// The first row of every partition of cursors: at most schema.MaxShards of them, read at start.
	// Idempotent.
	selectCursors statement = `SELECT shard, epoch, dispatched, settled FROM cursors PER PARTITION LIMIT 1`

	// One partition each, at EACH_QUORUM, with every column: read repair mends only what is asked for.
	// Idempotent.
	syncEntries  statement = `SELECT entry_id, spec, payload, cancelled, moved_to FROM runs WHERE bucket = ? AND shard = ?`
	syncPayloads statement = `SELECT entry_id, payload FROM payloads WHERE bucket = ? AND shard = ?`
	syncAttempts statement = `SELECT run_id, attempt, fence, record, session FROM attempts WHERE bucket = ? AND shard = ?`
	syncParts    statement = `SELECT run_id, kind, attempt, fence, part, data FROM run_outputs WHERE bucket = ? AND shard = ?`
	syncJobs     statement = `SELECT job_id, spec, state, generation, cut, before_spec, before_state, before_generation FROM jobs WHERE shard = ? AND slice = ?`
	syncCursors  statement = `SELECT epoch, dispatched, settled FROM cursors WHERE shard = ?`

	// One row each, or at most maxIDsPerRead of one partition, at EACH_QUORUM, with every column.
	// Idempotent.
	confirmEntries      statement = `SELECT entry_id, payload, spec, moved_to, cancelled FROM runs WHERE bucket = ? AND shard = ? AND entry_id IN ?`
	confirmPayload      statement = `SELECT entry_id, payload FROM payloads WHERE bucket = ? AND shard = ? AND entry_id = ?`
	confirmKey          statement = `SELECT expires, body_hash, entry_id, spec, payload FROM keys WHERE tenant = ? AND "key" = ?`
	confirmJob          statement = `SELECT job_id, spec, state, generation, cut, before_spec, before_state, before_generation FROM jobs WHERE shard = ? AND slice = ? AND job_id = ?`
	confirmListed       statement = `SELECT job_id FROM job_index WHERE tenant = ? AND slice = ? AND job_id = ?`
	confirmName         statement = `SELECT taken_at, job_id FROM job_names WHERE tenant = ? AND name = ?`
	confirmSubscription statement = `SELECT job_id FROM subscriptions WHERE tenant = ? AND event = ? AND job_id = ?`
	confirmLease        statement = `SELECT record, fence, session FROM leases WHERE lease = ?`

	// One row of settings. Idempotent.
	selectSetting statement = `SELECT value FROM settings WHERE scope = ? AND name = ?`
	// One row of settings, conditional. Not idempotent.
	createSetting statement = `INSERT INTO settings (scope, name, value) VALUES (?, ?, ?) IF NOT EXISTS`

	// One row of jobs, without a condition; the timestamp is below that of every conditional write
	// (createdAt). Idempotent. It is an update: nothing is left when its cells have expired. An
	// insert would leave the bare row, since a later expiry does not touch it.
	createJob statement = `UPDATE jobs USING TIMESTAMP ? SET spec = ?, state = ?, generation = ? WHERE shard = ? AND slice = ? AND job_id = ?`
	// One row of jobs, conditional. Not idempotent. An update, as createJob.
	firstJob statement = `UPDATE jobs USING TTL ? SET spec = ?, state = ?, generation = ?, cut = ?, before_spec = ?, before_state = ?, before_generation = ? WHERE shard = ? AND slice = ? AND job_id = ? IF generation = null`
	// One row of jobs, conditional. Not idempotent.
	swapJob statement = `UPDATE jobs USING TTL ? SET spec = ?, state = ?, generation = ?, cut = ?, before_spec = ?, before_state = ?, before_generation = ? WHERE shard = ? AND slice = ? AND job_id = ? IF generation = ?`
	// One row of jobs, serial. Idempotent.
	selectJob statement = `SELECT spec, state, generation, cut, before_spec, before_state, before_generation FROM jobs WHERE shard = ? AND slice = ? AND job_id = ?`
	// At most maxIDsPerRead rows of one partition of jobs, in id order. Idempotent.
	selectJobs statement = `SELECT job_id, spec, state, generation, cut, before_spec, before_state, before_generation FROM jobs WHERE shard = ? AND slice = ? AND job_id IN ?`
	// A slice of one partition of jobs, in id order. Idempotent.
	selectJobsOf statement = `SELECT job_id, spec, state, generation, cut, before_spec, before_state, before_generation FROM jobs WHERE shard = ? AND slice = ? AND job_id > ?`

	// One row of job_names, conditional. Not idempotent.
	registerName statement = `INSERT INTO job_names (tenant, name, job_id, taken_at) VALUES (?, ?, ?, ?) IF NOT EXISTS`
	// One row of job_names, conditional. Not idempotent.
	transferName statement = `UPDATE job_names SET job_id = ?, taken_at = ? WHERE tenant = ? AND name = ? IF job_id = ?`
	// One row of job_names, conditional. Not idempotent.
	dropName statement = `DELETE FROM job_names WHERE tenant = ? AND name = ? IF job_id = ?`
	// One row of job_names, serial. Idempotent.
	selectName statement = `SELECT job_id, taken_at FROM job_names WHERE tenant = ? AND name = ?`
	// One row of job_index, without cells. Idempotent.
	insertListed statement = `INSERT INTO job_index (tenant, slice, job_id) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// A slice of one partition of job_index, newest first. Idempotent.
	selectListed statement = `SELECT job_id FROM job_index WHERE tenant = ? AND slice = ? AND job_id < ?`

	// job_runs of one partition, or of several; written in batches. Idempotent.
	insertJobRun statement = `INSERT INTO job_runs (job_id, period, run_id, spec) VALUES (?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	// A slice of one partition of job_runs, newest first. Idempotent.
	selectJobRuns statement = `SELECT run_id, spec, writetime(spec) FROM job_runs WHERE job_id = ? AND period = ? AND run_id < ?`

	// One row of leases, conditional. Not idempotent.
	createDecision statement = `INSERT INTO leases (lease, record) VALUES (?, ?) IF NOT EXISTS USING TTL ?`
	// One row of leases, serial where an outcome is to be found out. Idempotent.
	selectDecision statement = `SELECT record FROM leases WHERE lease = ?`

	// One row of leases, conditional: null stands for a cell, or a row, that is not
	// there. Not idempotent. An update, as createJob.
	swapLease statement = `UPDATE leases USING TTL ? SET fence = ?, session = ?, record = ? WHERE lease = ? IF fence = ? AND session = ? AND record = ?`
	// One row of leases, serial. Idempotent.
	selectLease statement = `SELECT fence, session, record FROM leases WHERE lease = ?`

	// The coordinator's clock, at ONE: it touches no data. Idempotent. Not now(), which never goes
	// back: on a host whose clock was set back it stands still.
	selectTime statement = `SELECT currentTimestamp() FROM system.local WHERE key = 'local'`
	// What the coordinator is, at ONE. Idempotent.
	selectLocal statement = `SELECT release_version, data_center, toTimestamp(now()) FROM system.local WHERE key = 'local'`
	// The coordinator's settings: a virtual table, local whatever the consistency, so a whole read
	// is cheap. Idempotent.
	selectServerSettings statement = `SELECT name, value FROM system_views.settings`

	// Where the copies of a keyspace lie, of the node's own table of them: it is local, whatever
	// the consistency. Idempotent.
	selectReplication statement = `SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?`
	// gc_grace of the tables of a keyspace, of the node's own table of them: it is local, whatever the
	// consistency. Idempotent.
	selectGrace statement = `SELECT table_name, gc_grace_seconds FROM system_schema.tables WHERE keyspace_name = ?`
	// All nodes of the cluster as the coordinator knows them: a virtual table, as
	// selectServerSettings. Idempotent.
	selectNodes statement = `SELECT dc, rack, status FROM system_views.gossip_info`
	// All applied migrations: one partition. Idempotent.
	selectMigrations statement = `SELECT version, name, checksum, applied_at FROM migrations WHERE scope = 'schema'`
	// One row of migrations, conditional. Not idempotent.
	recordMigration statement = `INSERT INTO migrations (scope, version, name, checksum, applied_at, applied_by) VALUES ('schema', ?, ?, ?, ?, ?) IF NOT EXISTS`
	// One row of migration_lock, conditional. Not idempotent.
	takeLock statement = `INSERT INTO migration_lock (name, owner, taken_at) VALUES (?, ?, ?) IF NOT EXISTS USING TTL ?`
	// One row of migration_lock, conditional. Not idempotent.
	keepLock statement = `UPDATE migration_lock USING TTL ? SET owner = ?, taken_at = ? WHERE name = ? IF owner = ?`
	// One row of migration_lock, conditional. Not idempotent.
	dropLock statement = `DELETE FROM migration_lock WHERE name = ? IF owner = ?`
)

// names are what the metrics call the statements.
var names = map[statement]string{
	insertEntry: "insert_entry", insertPayload: "insert_payload",
	selectEntries: "select_entries", selectEntryIDs: "select_entry_ids", selectEntriesByID: "select_entries_by_id", selectPayload: "select_payload",
	cancelRun: "cancel_run", moveRun: "move_run", selectMarks: "select_marks",
	insertAttempt: "insert_attempt", selectAttempts: "select_attempts",
	insertPart: "insert_part", selectParts: "select_parts", selectLastPart: "select_last_part",
	createSession: "create_session", renewSession: "renew_session", removeSession: "remove_session", selectSession: "select_session",
	registerKey: "register_key", selectKey: "select_key",
	raiseDispatched: "raise_dispatched", raiseSettled: "raise_settled", selectCursor: "select_cursor", selectCursors: "select_cursors",
	syncEntries: "sync_entries", syncPayloads: "sync_payloads", syncAttempts: "sync_attempts", syncParts: "sync_parts", syncJobs: "sync_jobs", syncCursors: "sync_cursors",
	confirmEntries: "confirm_entries", confirmPayload: "confirm_payload", confirmKey: "confirm_key", confirmJob: "confirm_job", confirmListed: "confirm_listed", confirmName: "confirm_name",
	confirmSubscription: "confirm_subscription", confirmLease: "confirm_lease",
	selectSetting: "select_setting", createSetting: "create_setting",
	insertTask: "insert_task", deleteTask: "delete_task", selectTask: "select_task", selectTasks: "select_tasks",
	insertSubscription: "insert_subscription", deleteSubscription: "delete_subscription", selectSubscriptions: "select_subscriptions",
	insertListening: "insert_listening", selectListening: "select_listening",
	insertRated: "insert_rated", deleteRated: "delete_rated", selectRated: "select_rated",
	createJob: "create_job", firstJob: "first_job", swapJob: "swap_job", selectJob: "select_job", selectJobs: "select_jobs", selectJobsOf: "select_jobs_of",
	registerName: "register_name", transferName: "transfer_name", dropName: "drop_name", selectName: "select_name",
	insertListed: "insert_listed", selectListed: "select_listed", insertJobRun: "insert_job_run", selectJobRuns: "select_job_runs",
	createDecision: "create_decision", selectDecision: "select_decision", swapLease: "swap_lease", selectLease: "select_lease",
	insertTenant: "insert_tenant", selectTenant: "select_tenant", selectTenants: "select_tenants",
	createKeyName: "create_key_name", dropKeyName: "drop_key_name", selectKeyName: "select_key_name", selectKeyNames: "select_key_names",
	insertAPIKey: "insert_api_key", deleteAPIKey: "delete_api_key", selectAPIKey: "select_api_key", touchAPIKey: "touch_api_key", selectUses: "select_uses",
	insertAudit: "insert_audit", selectAudit: "select_audit", insertStats: "insert_stats", selectStats: "select_stats", selectNameStats: "select_name_stats",
	insertOperation: "insert_operation", cancelOperation: "cancel_operation", selectOperation: "select_operation", selectOperations: "select_operations", insertOpen: "insert_open", deleteOpen: "delete_open", selectOpen: "select_open",
	insertDeadLetter: "insert_dead_letter", putResolution: "put_resolution", selectDeadLetter: "select_dead_letter", selectDeadLetters: "select_dead_letters", selectResolutions: "select_resolutions",
	countDeadLetters: "count_dead_letters", insertDeadLetterDay: "insert_dead_letter_day", selectDeadLetterDays: "select_dead_letter_days",
	insertWaiter: "insert_waiter", deleteWaiter: "delete_waiter", selectWaiters: "select_waiters",
	selectSigningKeys: "select_signing_keys", selectSigningRevision: "select_signing_revision", swapSigningKeys: "swap_signing_keys",
	swapSecret: "swap_secret", dropSecret: "drop_secret", selectSecretRevision: "select_secret_revision", selectSecret: "select_secret", selectSecrets: "select_secrets", touchSecret: "touch_secret",
	insertNotification: "insert_notification", deleteNotification: "delete_notification", selectNotification: "select_notification", selectNotifications: "select_notifications",
	insertCalendar: "insert_calendar", deleteCalendar: "delete_calendar", selectCalendar: "select_calendar", selectCalendars: "select_calendars",
	insertIncident: "insert_incident", selectIncidents: "select_incidents", swapGroup: "swap_group", dropGroup: "drop_group", selectGroupRevision: "select_group_revision", confirmGroup: "confirm_group", selectGroups: "select_groups",
	insertLimitMark: "insert_limit_mark", deleteLimitMark: "delete_limit_mark", selectLimitMarks: "select_limit_marks",
	insertEpoch: "insert_epoch", selectEpoch: "select_epoch", selectEpochs: "select_epochs", insertBeat: "insert_beat", selectBeats: "select_beats",
	selectTime: "select_time", selectLocal: "select_local", selectServerSettings: "select_server_settings",
	selectReplication: "select_replication", selectGrace: "select_grace", selectNodes: "select_nodes",
	selectMigrations: "select_migrations", recordMigration: "record_migration", takeLock: "take_lock", keepLock: "keep_lock", dropLock: "drop_lock",
}
