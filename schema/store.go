package schema

// Store is everything that a backend implements. Users take the roles they need.
//
// A backend writes the roles of administrative rows by the four methods of document.Rows.
type Store interface {
	EntryWriter
	EntryReader
	MarkStore
	AttemptStore
	OutputStore
	SessionStore
	KeyStore
	CursorStore
	SettingsStore
	TaskStore
	RateStore
	JobStore
	JobIndex
	HistoryStore
	DecisionStore
	LeaseStore
	WaitListStore
	TenantStore
	APIKeyStore
	SigningKeyStore
	AuditStore
	StatsStore
	OperationStore
	DeadLetterStore
	Prober
	ClockStore
	// Close releases what the store holds. Calls under way may fail.
	Close() error
}
