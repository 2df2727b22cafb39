package schema

// Notice tells a shard's owner that an entry is finished: its record and every follow-up of it
// are held by a quorum. A lost notice costs a look, nothing else.
type Notice struct {
	Entry   EntryID
	Run     RunID
	Attempt int
}

// Hints carries entries that may lie behind their dispatcher's scan to the owner of their shard.
// It is advice: a hint may be lost, doubled or late.
type Hints interface {
	// Near hands over entries of one shard that are due soon. It does not wait.
	Near(shard Shard, entries []Entry)
}

// Notices carries notices to the owners of their shards. It is advice, as Hints is.
type Notices interface {
	// Done hands over notices of one shard. It does not wait.
	Done(shard Shard, notices []Notice)
}
