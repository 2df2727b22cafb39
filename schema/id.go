package schema

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"
)

// MaxShards is the largest number of shards: the shard field of an entry id has 12 bits.
const MaxShards = 4096

// BucketSpan is the length of a bucket: one minute of due time.
const BucketSpan = time.Minute

// Shard is one of the S slices into which every bucket is divided, 0 ≤ shard < S ≤ MaxShards.
type Shard uint16

// Bucket is one minute of due time, counted from the Unix epoch: unix seconds / 60.
type Bucket int64

// BucketOf returns the bucket that holds the instant t.
func BucketOf(t time.Time) Bucket {
	return Bucket(floorDiv(t.UnixMilli(), BucketSpan.Milliseconds()))
}

// Start returns the first instant of b, in UTC.
func (b Bucket) Start() time.Time { return time.UnixMilli(int64(b) * BucketSpan.Milliseconds()).UTC() }

// End returns the first instant after b, in UTC.
func (b Bucket) End() time.Time { return (b + 1).Start() }

// Partition is the unit of storage, scanning and ownership: one shard of one bucket.
type Partition struct {
	Bucket Bucket
	Shard  Shard
}

// String returns "bucket/shard".
func (p Partition) String() string { return fmt.Sprintf("%d/%d", p.Bucket, p.Shard) }

// EntryID is the address of an entry: a UUIDv8 (RFC 9562, section 5.8) laid out as
//
//	1 bit step | 47 bits time, ms | 4 bits version 8 | 12 bits shard | 2 bits variant | 62 bits hash
//
// so that partition and clustering position follow from it, and the byte order of the ids
// of one partition is the order of their due times. The zero EntryID is no id.
//
// The first bit is set in the runs of a workflow's steps: see MakeStepID.
type EntryID [16]byte

// RunID is the EntryID of the entry that a run was born with. It names the run for its whole
// life, whichever later entry starts an attempt of it.
type RunID = EntryID

// hashMask keeps the 62 hash bits of an id.
const hashMask = 1<<62 - 1

// maxIDMillis is the last instant that fits an id's 47 bits, in ms since the Unix epoch (the year
// 6429).
const maxIDMillis = 1<<47 - 1

// MakeEntryID builds the id of an entry due at t (truncated to ms, clamped to the range that
// 47 bits hold) in shard s. Only the low 62 bits of hash are used.
func MakeEntryID(t time.Time, s Shard, hash uint64) EntryID {
	ms := uint64(min(max(t.UnixMilli(), 0), maxIDMillis)) // #nosec G115 -- clamped to 47 bits
	var id EntryID
	binary.BigEndian.PutUint64(id[:8], ms<<16|0x8000|uint64(s&(MaxShards-1)))
	binary.BigEndian.PutUint64(id[8:], 1<<63|hash&hashMask)
	return id
}

// FirstID returns the lowest id of shard s with the time t: every entry of s due at or after t
// (to the ms) has an id ≥ FirstID(t, s), and no earlier one has.
func FirstID(t time.Time, s Shard) EntryID { return MakeEntryID(t, s, 0) }

// LastID returns the highest id of shard s with the time t.
func LastID(t time.Time, s Shard) EntryID { return MakeEntryID(t, s, hashMask) }

// Time returns the instant of the id, in UTC, to the ms. For an entry that is its due time. For the
// run of a step it is the time of its workflow run.
func (id EntryID) Time() time.Time { return time.UnixMilli(id.millis() & maxIDMillis).UTC() }

// millis returns the first 48 bits.
func (id EntryID) millis() int64 {
	return int64(binary.BigEndian.Uint64(id[:8]) >> 16) // #nosec G115 -- 48 bits
}

// Shard returns the shard that the entry was born with.
func (id EntryID) Shard() Shard {
	return Shard(binary.BigEndian.Uint16(id[6:8]) & (MaxShards - 1))
}

// Hash returns the 62 hash bits.
func (id EntryID) Hash() uint64 { return binary.BigEndian.Uint64(id[8:]) & hashMask }

// Bucket returns the bucket in which the entry's row lies. That of a step lies beyond all times.
func (id EntryID) Bucket() Bucket { return BucketOf(time.UnixMilli(id.millis())) }

// Partition returns the partition in which the entry's row lies.
func (id EntryID) Partition() Partition { return Partition{id.Bucket(), id.Shard()} }

// IsZero reports whether id is no id.
func (id EntryID) IsZero() bool { return id == EntryID{} }

// Compare orders ids by their bytes: within a partition that is the order of due times.
func (id EntryID) Compare(other EntryID) int {
	a, b := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(other[:8])
	if a == b {
		a, b = binary.BigEndian.Uint64(id[8:]), binary.BigEndian.Uint64(other[8:])
	}
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// String returns the usual form of a UUID, in lower case.
func (id EntryID) String() string { return formatUUID(id) }

// MarshalText returns String; the zero id is the empty text.
func (id EntryID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return []byte{}, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText is the inverse of MarshalText.
func (id *EntryID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = EntryID{}
		return nil
	}
	parsed, err := ParseEntryID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// errNotAnID is what the parsers of ids wrap.
var errNotAnID = errors.New("not an id")

// ParseEntryID parses the usual form of a UUID, 8-4-4-4-12 hexadecimal digits in either case.
// It refuses a UUID of another version or variant than an EntryID has.
func ParseEntryID(s string) (EntryID, error) {
	u, err := parseUUID(s)
	if err != nil {
		return EntryID{}, err
	}
	if u[6]>>4 != 8 || u[8]>>6 != 0b10 {
		return EntryID{}, fmt.Errorf("%w of a run: %q is a UUID of version %d", errNotAnID, s, u[6]>>4)
	}
	return EntryID(u), nil
}

// JobID names a job. A job that can have many runs has a UUIDv7 whose 12 rand_a bits are its
// shard; a one-off job is its run, and the job's id is the run's.
type JobID [16]byte

// MakeJobID builds the UUIDv7 of a job that can have many runs, created at t, in shard s.
// Only the low 62 bits of random are used.
func MakeJobID(t time.Time, s Shard, random uint64) JobID {
	id := JobID(MakeEntryID(t, s, random))
	id[6] = 0x70 | id[6]&0x0f
	return id
}

// JobOf returns the id of the one-off job that is the run id.
func JobOf(id RunID) JobID { return JobID(id) }

// OneOff reports whether the job is a run, and which.
func (id JobID) OneOff() (RunID, bool) {
	if id[6]>>4 != 8 {
		return RunID{}, false
	}
	return RunID(id), true
}

// Shard returns the shard of the job's row, or of its run.
func (id JobID) Shard() Shard { return EntryID(id).Shard() }

// IsZero reports whether id is no id.
func (id JobID) IsZero() bool { return id == JobID{} }

// String returns the usual form of a UUID, in lower case.
func (id JobID) String() string { return formatUUID(id) }

// MarshalText returns String; the zero id is the empty text.
func (id JobID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return []byte{}, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText is the inverse of MarshalText.
func (id *JobID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = JobID{}
		return nil
	}
	parsed, err := ParseJobID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// ParseJobID parses a job's id of either kind.
func ParseJobID(s string) (JobID, error) {
	u, err := parseUUID(s)
	if err != nil {
		return JobID{}, err
	}
	if v := u[6] >> 4; (v != 7 && v != 8) || u[8]>>6 != 0b10 {
		return JobID{}, fmt.Errorf("%w of a job: %q is a UUID of version %d", errNotAnID, s, v)
	}
	return JobID(u), nil
}

// IDRange is an open interval of ids within one partition. A zero After starts at the
// partition's first id, a zero Before ends at its last.
type IDRange struct {
	After  EntryID // exclusive
	Before EntryID // exclusive
}

// Contains reports whether id lies in r.
func (r IDRange) Contains(id EntryID) bool {
	return (r.After.IsZero() || id.Compare(r.After) > 0) && (r.Before.IsZero() || id.Compare(r.Before) < 0)
}

// RandomHash returns 62 random bits: the hash of an entry that nobody needs to find again.
func RandomHash() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand.Read's contract since Go 1.24)
	return binary.BigEndian.Uint64(b[:]) & hashMask
}

// HashOf returns 62 bits of SHA-256 over the parts, each preceded by its length, so that ("ab",
// "c") and ("a", "bc") differ. The same parts give the same hash on every node and in every
// version.
func HashOf(parts ...string) uint64 {
	h := sha256.New()
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	var sum [sha256.Size]byte
	return binary.BigEndian.Uint64(h.Sum(sum[:0])) & hashMask
}

func formatUUID(u [16]byte) string {
	var b [36]byte
	hex.Encode(b[:8], u[:4])
	b[8] = '-'
	hex.Encode(b[9:13], u[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], u[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], u[8:10])
	b[23] = '-'
	hex.Encode(b[24:], u[10:])
	return string(b[:])
}

func parseUUID(s string) (u [16]byte, err error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, fmt.Errorf("%w: %.40q does not have the form of a UUID", errNotAnID, s)
	}
	for _, part := range [...]struct{ at, from, to int }{{0, 0, 8}, {4, 9, 13}, {6, 14, 18}, {8, 19, 23}, {10, 24, 36}} {
		if _, err := hex.Decode(u[part.at:], []byte(s[part.from:part.to])); err != nil {
			return u, fmt.Errorf("%w: %.40q does not have the form of a UUID", errNotAnID, s)
		}
	}
	return u, nil
}

// floorDiv is a/b rounded towards minus infinity, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
