package embedded

import (
	"bytes"
	"encoding/binary"

	"carillon.dev/carillon/schema"
)

// table is the first byte of a key. Tables are stored: never rename them.
type table byte

const (
	tableRuns      table = 'r'
	tablePayloads  table = 'p'
	tableAttempts  table = 'a'
	tableOutputs   table = 'o'
	tableBuckets   table = 'e'
	tableSessions  table = 's'
	tableCursors   table = 'c'
	tableKeys      table = 'k'
	tableRowExpiry table = 'x'
	tableTasks     table = 't'
	tableSettings  table = 'g'
	tableJobs      table = 'j'
	tableJobIndex  table = 'i'
	tableJobNames  table = 'n'
	tableHistory   table = 'h'
	tablePeriods   table = 'f'
	tableDecisions table = 'd'
	tableLeases    table = 'l'
)

// bucketTables are the tables whose rows leave with their bucket.
var bucketTables = [...]table{tableRuns, tablePayloads, tableAttempts, tableOutputs}

const (
	partitionSize = 1 + 8 + 2                 // table, bucket, shard
	entrySize     = partitionSize + 16        // … and an entry or run
	attemptSize   = entrySize + 4 + 8         // … attempt, fence
	outputSize    = entrySize + 1 + 4 + 8 + 4 // … kind, attempt, fence, part
)

// appendInt appends v so that the order of bytes is the order of values, also below zero.
func appendInt(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63) // #nosec G115 -- bits
}

func readInt(src []byte) int64 {
	return int64(binary.BigEndian.Uint64(src) ^ 1<<63) // #nosec G115 -- bits
}

func appendNumber(dst []byte, v int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(v)) // #nosec G115 -- numbers of attempts and parts are small
}

func appendBucket(dst []byte, t table, b schema.Bucket) []byte {
	return appendInt(append(dst, byte(t)), int64(b))
}

func appendPartition(dst []byte, t table, p schema.Partition) []byte {
	return binary.BigEndian.AppendUint16(appendBucket(dst, t, p.Bucket), uint16(p.Shard))
}

// appendEntry appends the key of a row that lies in the partition of id: it follows from the id.
func appendEntry(dst []byte, t table, id schema.EntryID) []byte {
	return append(appendPartition(dst, t, id.Partition()), id[:]...)
}

func appendAttempt(dst []byte, a *schema.Attempt) []byte {
	return appendInt(appendNumber(appendEntry(dst, tableAttempts, a.Run), a.Number), int64(a.Fence))
}

// appendParts appends what the keys of all parts of a kind of a run begin with.
func appendParts(dst []byte, run schema.RunID, kind schema.PartKind) []byte {
	return append(appendEntry(dst, tableOutputs, run), byte(kind))
}

// appendExecution appends what the keys of all parts of one execution begin with.
func appendExecution(dst []byte, run schema.RunID, kind schema.PartKind, of schema.PartKey) []byte {
	return appendInt(appendNumber(appendParts(dst, run, kind), of.Attempt), int64(of.Fence))
}

func appendPart(dst []byte, run schema.RunID, kind schema.PartKind, k schema.PartKey) []byte {
	return appendNumber(appendExecution(dst, run, kind, k), k.Number)
}

// readPartKey is the inverse of appendPart for what follows the kind.
func readPartKey(key []byte) schema.PartKey {
	return schema.PartKey{
		Attempt: int(binary.BigEndian.Uint32(key)), Fence: schema.Fence(readInt(key[4:])), Number: int(binary.BigEndian.Uint32(key[12:])),
	}
}

func appendCursor(dst []byte, s schema.Shard, epoch int64) []byte {
	return appendInt(binary.BigEndian.AppendUint16(append(dst, byte(tableCursors)), uint16(s)), epoch)
}

// appendName appends a key of two strings, prefix-free in the first, so that the second ones of
// one first one are a range, in their order.
func appendName(dst []byte, t table, first, second string) []byte {
	dst = binary.BigEndian.AppendUint32(append(dst, byte(t)), uint32(len(first))) // #nosec G115 -- a name
	return append(append(dst, first...), second...)
}

// afterName returns what list takes for the names after name; "" is before all.
func afterName(name string) []byte {
	if name == "" {
		return nil
	}
	return []byte(name)
}

// appendNewestFirst appends id such that the order of bytes is from the newest to the oldest.
func appendNewestFirst[ID ~[16]byte](dst []byte, id ID) []byte {
	for _, b := range id {
		dst = append(dst, ^b)
	}
	return dst
}

// readNewestFirst is the inverse of appendNewestFirst.
func readNewestFirst(src []byte) (id [16]byte) {
	for i := range id {
		id[i] = ^src[i]
	}
	return id
}

// beforeID returns what list takes, newest first, for the ids before id; zero is after all.
func beforeID[ID ~[16]byte](id ID) []byte {
	if [16]byte(id) == ([16]byte{}) {
		return nil
	}
	return appendNewestFirst(nil, id)
}

// idBounds returns the keys of p that lie in r: from lower, below upper.
func idBounds(t table, p schema.Partition, r schema.IDRange) (lower, upper []byte) {
	lower = appendPartition(make([]byte, 0, entrySize+1), t, p)
	upper = append(make([]byte, 0, entrySize+1), lower...)
	if !r.After.IsZero() {
		lower = append(append(lower, r.After[:]...), 0) // the first key after it
	}
	if r.Before.IsZero() {
		upper = appendAfterAll(upper)
	} else {
		upper = append(upper, r.Before[:]...)
	}
	return lower, upper
}

// appendAfterAll turns a prefix that an entry id follows into a bound above all its keys: no id
// begins with 0xffff… (the year 10889 has other bits in its seventh byte).
func appendAfterAll(prefix []byte) []byte {
	return append(prefix, bytes.Repeat([]byte{0xff}, 17)...)
}

// prefixEnd returns the first key after all that begin with prefix, or nil for the end of all keys.
func prefixEnd(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
