package schema_test

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon.dev/carillon/schema"
)

// lastMillis is the last instant that an id can hold, in ms since the Unix epoch.
const lastMillis = 1<<47 - 1

func drawTime(t *rapid.T, label string) time.Time {
	return time.UnixMilli(rapid.Int64Range(0, lastMillis).Draw(t, label)).UTC()
}

func drawShard(t *rapid.T, label string) schema.Shard {
	return schema.Shard(rapid.Uint16Range(0, schema.MaxShards-1).Draw(t, label))
}

func drawID(t *rapid.T, label string) schema.EntryID {
	return schema.MakeEntryID(drawTime(t, label+" time"), drawShard(t, label+" shard"), rapid.Uint64().Draw(t, label+" hash"))
}

func TestEntryIDHoldsItsAddress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		due, shard, hash := drawTime(t, "due"), drawShard(t, "shard"), rapid.Uint64().Draw(t, "hash")
		beyond := time.Duration(rapid.Int64Range(0, 999_999).Draw(t, "ns")) // cut off
		id := schema.MakeEntryID(due.Add(beyond), shard, hash)
		if !id.Time().Equal(due) || id.Time().Location() != time.UTC {
			t.Errorf("Time() = %v, want %v", id.Time(), due)
		}
		if id.Shard() != shard || id.Hash() != hash&(1<<62-1) {
			t.Errorf("Shard(), Hash() = %d, %x; want %d, the low 62 bits of %x", id.Shard(), id.Hash(), shard, hash)
		}
		bucket := schema.Bucket(due.Unix() / 60)
		if want := (schema.Partition{Bucket: bucket, Shard: shard}); id.Partition() != want || id.Bucket() != bucket {
			t.Errorf("Partition(), Bucket() = %s, %d; want %s", id.Partition(), id.Bucket(), want)
		}
		if id[6]>>4 != 8 || id[8]>>6 != 0b10 {
			t.Errorf("%s is not a UUIDv8", id)
		}
		parsed, err := schema.ParseEntryID(id.String())
		if err != nil || parsed != id {
			t.Errorf("ParseEntryID(%s) = %s, %v", id, parsed, err)
		}
		text, err := json.Marshal(id)
		var decoded schema.EntryID
		if err == nil {
			err = json.Unmarshal(text, &decoded)
		}
		if err != nil || decoded != id {
			t.Errorf("through JSON %s becomes %s, %v", id, decoded, err)
		}
	})
}

// In a shard the order of ids is the order of times, as bytes, as text and by Compare.
func TestOrderOfIDsIsOrderOfTimes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawID(t, "a")
		b := schema.MakeEntryID(
			a.Time().Add(time.Duration(rapid.Int64Range(-3, 3).Draw(t, "ms apart"))*time.Millisecond),
			a.Shard(), rapid.Uint64().Draw(t, "hash of b"))
		if byTime := a.Time().Compare(b.Time()); byTime != 0 && a.Compare(b) != byTime {
			t.Errorf("%s at %v, %s at %v: Compare = %d, want %d", a, a.Time(), b, b.Time(), a.Compare(b), byTime)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawID(t, "a"), drawID(t, "b")
		want := bytes.Compare(a[:], b[:])
		text := bytes.Compare([]byte(a.String()), []byte(b.String()))
		if a.Compare(b) != want || b.Compare(a) != -want || text != want {
			t.Errorf("Compare(%s, %s) = %d, back %d, as text %d; want %d", a, b, a.Compare(b), b.Compare(a), text, want)
		}
	})
}

func TestFirstAndLastIDEncloseAnInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := drawID(t, "id")
		first, last := schema.FirstID(id.Time(), id.Shard()), schema.LastID(id.Time(), id.Shard())
		if id.Compare(first) < 0 || id.Compare(last) > 0 {
			t.Errorf("%s is not within [%s, %s]", id, first, last)
		}
		if id.Time().UnixMilli() > 0 {
			if before := schema.LastID(id.Time().Add(-time.Millisecond), id.Shard()); before.Compare(first) >= 0 {
				t.Errorf("the last id of the ms before, %s, is not below %s", before, first)
			}
		}
	})
}

func TestBoundariesOfIDs(t *testing.T) {
	last := time.UnixMilli(lastMillis).UTC()
	for _, c := range []struct {
		name   string
		at     time.Time
		shard  schema.Shard
		hash   uint64
		want   time.Time
		inText string
	}{
		{name: "epoch", at: time.Unix(0, 0), want: time.Unix(0, 0), inText: "00000000-0000-8000-8000-000000000000"},
		{name: "before the epoch", at: time.Unix(0, -1), want: time.Unix(0, 0), inText: "00000000-0000-8000-8000-000000000000"},
		{name: "the zero time", want: time.Unix(0, 0), inText: "00000000-0000-8000-8000-000000000000"},
		{
			name: "the last ms, in 6429", at: last, shard: 4095, hash: math.MaxUint64, want: last,
			inText: "7fffffff-ffff-8fff-bfff-ffffffffffff",
		},
		{name: "after it", at: last.AddDate(1, 0, 0), want: last, inText: "7fffffff-ffff-8000-8000-000000000000"},
		{name: "a shard beyond 12 bits", at: time.Unix(0, 0), shard: 4096 + 5, want: time.Unix(0, 0), inText: "00000000-0000-8005-8000-000000000000"},
		{name: "a hash beyond 62 bits", at: time.Unix(0, 0), hash: 3<<62 | 7, want: time.Unix(0, 0), inText: "00000000-0000-8000-8000-000000000007"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := schema.MakeEntryID(c.at, c.shard, c.hash)
			if id.String() != c.inText || !id.Time().Equal(c.want) {
				t.Errorf("MakeEntryID(%v, %d, %x) = %s at %v, want %s at %v", c.at, c.shard, c.hash, id, id.Time(), c.inText, c.want)
			}
			if id.IsZero() {
				t.Error("IsZero() = true: an id must differ from no id")
			}
		})
	}
	if last.Year() != 6429 {
		t.Errorf("the last id's year = %d, want 6429", last.Year())
	}
}

func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		name string
		at   time.Time
		want schema.Bucket
	}{
		{"epoch", time.Unix(0, 0), 0},
		{"last ms of the first minute", time.UnixMilli(59_999), 0},
		{"second minute", time.Unix(60, 0), 1},
		{"just before the epoch", time.UnixMilli(-1), -1},
		{"a minute before the epoch", time.Unix(-60, 0), -1},
		{"more than a minute before", time.UnixMilli(-60_001), -2},
	} {
		if got := schema.BucketOf(c.at); got != c.want {
			t.Errorf("%s: BucketOf(%v) = %d, want %d", c.name, c.at, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(-lastMillis, lastMillis).Draw(t, "ms"))
		b := schema.BucketOf(at)
		if at.Before(b.Start()) || !at.Before(b.End()) || b.End().Sub(b.Start()) != schema.BucketSpan {
			t.Errorf("bucket %d of %v is [%v, %v)", b, at, b.Start(), b.End())
		}
	})
}

func TestParsersRefuse(t *testing.T) {
	good := schema.MakeEntryID(time.Unix(1, 0), 1, 2).String()
	for _, c := range []struct {
		name, text string
		entry, job bool // is it an id of that kind?
	}{
		{name: "an entry's id", text: good, entry: true, job: true},
		{name: "in upper case", text: "0000000A-03E8-8001-8000-000000000002", entry: true, job: true},
		{name: "a UUIDv7", text: good[:14] + "7" + good[15:], job: true},
		{name: "a UUIDv4", text: good[:14] + "4" + good[15:]},
		{name: "another variant", text: good[:19] + "c" + good[20:]},
		{name: "empty"},
		{name: "too short", text: good[:35]},
		{name: "too long", text: good + "0"},
		{name: "no dashes", text: "000000000003e88001800000000000000002"},
		{name: "dash in the wrong place", text: "0000000-000003-e880-0180-00000000002"},
		{name: "not hexadecimal", text: "g" + good[1:]},
		{name: "braces", text: "{" + good[1:35] + "}"},
	} {
		if _, err := schema.ParseEntryID(c.text); (err == nil) != c.entry {
			t.Errorf("%s: ParseEntryID(%q) = %v, want an id: %v", c.name, c.text, err, c.entry)
		}
		if _, err := schema.ParseJobID(c.text); (err == nil) != c.job {
			t.Errorf("%s: ParseJobID(%q) = %v, want an id: %v", c.name, c.text, err, c.job)
		}
	}
}

func FuzzParseEntryID(f *testing.F) {
	f.Add(schema.MakeEntryID(time.Unix(1, 0), 1, 2).String())
	f.Add("ffffffff-ffff-8fff-bfff-ffffffffffff")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		id, err := schema.ParseEntryID(text)
		if err != nil {
			if !id.IsZero() {
				t.Errorf("ParseEntryID(%q) = %s, %v: an id with an error", text, id, err)
			}
			return
		}
		again, err := schema.ParseEntryID(id.String())
		if err != nil || again != id {
			t.Errorf("ParseEntryID(%q) = %s, and of that %s, %v", text, id, again, err)
		}
		if made := schema.MakeEntryID(id.Time(), id.Shard(), id.Hash()); made != id && !id.IsStep() {
			t.Errorf("%s made of its parts = %s", id, made)
		}
	})
}

func TestJobIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		made, shard := drawTime(t, "made"), drawShard(t, "shard")
		id := schema.MakeJobID(made, shard, rapid.Uint64().Draw(t, "random"))
		if _, oneOff := id.OneOff(); oneOff || id.Shard() != shard || id.IsZero() {
			t.Errorf("MakeJobID(…, %d, …) = %s: one-off %v, shard %d", shard, id, oneOff, id.Shard())
		}
		if parsed, err := schema.ParseJobID(id.String()); err != nil || parsed != id {
			t.Errorf("ParseJobID(%s) = %s, %v", id, parsed, err)
		}
		if _, err := schema.ParseEntryID(id.String()); err == nil {
			t.Errorf("ParseEntryID(%s) takes a job's id", id)
		}
		run := drawID(t, "run")
		if got, oneOff := schema.JobOf(run).OneOff(); !oneOff || got != run {
			t.Errorf("JobOf(%s).OneOff() = %s, %v", run, got, oneOff)
		}
	})
}

// The zero id is the empty text, in JSON too, and absent where omitzero says so.
func TestZeroIDs(t *testing.T) {
	type ids struct {
		Entry schema.EntryID `json:"entry"`
		Job   schema.JobID   `json:"job"`
		Of    schema.RunID   `json:"of,omitzero"`
	}
	text, err := json.Marshal(ids{})
	if want := `{"entry":"","job":""}`; err != nil || string(text) != want {
		t.Errorf("zero ids in JSON = %s, %v; want %s", text, err, want)
	}
	back := ids{Entry: schema.EntryID{1}, Job: schema.JobID{1}}
	if err := json.Unmarshal(text, &back); err != nil || back != (ids{}) {
		t.Errorf("zero ids of JSON = %+v, %v; want zero", back, err)
	}
	if err := json.Unmarshal([]byte(`{"entry":"x"}`), &back); err == nil {
		t.Error("an id that is none is taken from JSON")
	}
}

func TestIDRange(t *testing.T) {
	id := func(ms int64) schema.EntryID { return schema.MakeEntryID(time.UnixMilli(ms), 1, 0) }
	for _, c := range []struct {
		name string
		r    schema.IDRange
		want []int64 // of 1…5
	}{
		{"all", schema.IDRange{}, []int64{1, 2, 3, 4, 5}},
		{"after", schema.IDRange{After: id(2)}, []int64{3, 4, 5}},
		{"before", schema.IDRange{Before: id(4)}, []int64{1, 2, 3}},
		{"between", schema.IDRange{After: id(2), Before: id(4)}, []int64{3}},
		{"empty", schema.IDRange{After: id(3), Before: id(3)}, nil},
	} {
		var got []int64
		for ms := range int64(5) {
			if c.r.Contains(id(ms + 1)) {
				got = append(got, ms+1)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: contains %v of 1…5, want %v", c.name, got, c.want)
		}
	}
}

// What the parts of a hash are matters, not how they join; and it is the same for ever.
func TestHashOf(t *testing.T) {
	seen := map[uint64][]string{}
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"ab", "c"}, {"a", "bc"}, {"abc"}, {"abc", ""}, {"\x00abc"}} {
		h := schema.HashOf(parts...)
		if other, ok := seen[h]; ok {
			t.Errorf("HashOf(%q) = HashOf(%q) = %x", parts, other, h)
		}
		if h>>62 != 0 || h != schema.HashOf(parts...) {
			t.Errorf("HashOf(%q) = %x, not 62 bits or not twice the same", parts, h)
		}
		seen[h] = parts
	}
	// SHA-256 of eight bytes of length before each part. A change of this value makes every node
	// and version disagree about the ids of planned occurrences.
	const wantHash = 0x2ee43656e175f4cd // computed by other means
	if got := schema.HashOf("tenant", "key", "2026-11-21T00:00:00Z"); got != wantHash {
		t.Errorf("HashOf = %#x, want %#x", got, uint64(wantHash))
	}
}

func TestRandomHashes(t *testing.T) {
	a, b := schema.RandomHash(), schema.RandomHash()
	if a == b || a>>62 != 0 || b>>62 != 0 {
		t.Errorf("RandomHash() = %x, then %x; want two of 62 bits", a, b)
	}
}

func TestFences(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	seen := map[schema.Fence]bool{}
	for range 100 {
		f := schema.MakeFence(at)
		seen[f] = true
		if off := int64(f) - at.UnixMicro(); off <= -1024 || off >= 1024 {
			t.Fatalf("MakeFence(%v) is %d µs off, want less than 1024", at, off)
		}
		if later := schema.MakeFence(at.Add(1024 * time.Microsecond)); later < f-1023 || later>>10 <= f>>10 {
			t.Fatalf("MakeFence 1024 µs later = %d, want more than %d", later, f)
		}
	}
	if len(seen) < 2 {
		t.Error("100 fences of one instant are all the same")
	}
}
