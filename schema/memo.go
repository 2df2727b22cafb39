package schema

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// The memo of entry specs. Specs of many rows differ in few values. Those of one import, task or
// job differ in nominal time, acceptance and inline work. Decoding the same text again and again
// was a tenth of what a node spends on a run. So a spec is remembered by the text around those
// three values; a reader gets a copy with its own values filled in.
//
// Copies share what they point to (labels, misfire, work of one text), which is therefore never
// changed in place.
const (
	// memoSlots bounds the remembered specs. A new one takes the place of the one in its slot.
	memoSlots = 1024
	// memoText bounds the text of a remembered spec, in bytes.
	memoText = 2 << 10
)

type memo struct {
	seed  maphash.Seed
	slots [memoSlots]atomic.Pointer[remembered]
	// last is the hash of the latest miss in each slot. Only a spec that misses twice in a row is
	// remembered, so specs that never come again cost no copy.
	last [memoSlots]atomic.Uint64
}

// remembered is a spec with the texts around its nominal time, its acceptance and its work, and the
// text of its work.
type remembered struct {
	head, middle, work, tail string
	spec                     Spec
}

var specs = memo{seed: maphash.MakeSeed()}

// decode returns what json.Unmarshal makes of text.
func (m *memo) decode(text []byte) (Spec, error) {
	c, ok := cutSpec(text)
	var at time.Time
	us, err := strconv.ParseInt(string(c.accepted), 10, 64)
	if !ok || err != nil || at.UnmarshalText(c.nominal) != nil {
		return unmarshalSpec(text)
	}
	hash := (maphash.Bytes(m.seed, c.head)*31+maphash.Bytes(m.seed, c.middle))*31 + maphash.Bytes(m.seed, c.tail)
	slot := hash % memoSlots
	if r := m.slots[slot].Load(); r != nil && r.head == string(c.head) && r.middle == string(c.middle) && r.tail == string(c.tail) {
		spec := r.spec
		spec.Nominal, spec.Accepted = at, us
		if r.work == string(c.work) {
			return spec, nil
		}
		if spec.Work, err = unmarshalWork(c.work); err == nil {
			return spec, nil
		}
	}
	spec, err := unmarshalSpec(text)
	// They are what they seem unless a name stands twice in the text.
	if err == nil && spec.Nominal.Equal(at) && spec.Accepted == us && m.last[slot].Swap(hash) == hash {
		m.slots[slot].Store(&remembered{head: string(c.head), middle: string(c.middle), work: string(c.work), tail: string(c.tail), spec: spec})
	}
	return spec, err
}

// unmarshalSpec is json.Unmarshal in a function of its own: only here must the spec lie on the
// heap.
func unmarshalSpec(text []byte) (Spec, error) {
	var spec Spec
	err := json.Unmarshal(text, &spec)
	if err == nil && string(text) == "null" {
		err = errNull
	}
	return spec, err
}

func unmarshalWork(text []byte) (*Work, error) {
	w := new(Work)
	return w, json.Unmarshal(text, w)
}

var (
	nominalName  = []byte(`"nominal":"`)
	acceptedName = []byte(`","accepted":`)
	workName     = []byte(`,"work":`)
)

// cuts are the parts of the text of a spec: head nominal "," accepted middle work tail. Where the
// spec states no work, there is no work and no tail.
type cuts struct{ head, nominal, accepted, middle, work, tail []byte }

// cutSpec cuts the text of a spec as NewEntry writes it. Within a string every quote follows a
// backslash, which the names looked for lack. A name before which no brace was opened stands in the
// root object.
func cutSpec(text []byte) (c cuts, ok bool) {
	if len(text) > memoText || len(text) == 0 {
		return c, false
	}
	i := bytes.Index(text, nominalName)
	if i < 0 || bytes.IndexByte(text[1:i], '{') >= 0 {
		return c, false
	}
	i += len(nominalName)
	n := bytes.IndexByte(text[i:], '"')
	if n < 0 || !bytes.HasPrefix(text[i+n:], acceptedName) {
		return c, false
	}
	from := i + n + len(acceptedName)
	to := from
	for to < len(text) && '0' <= text[to] && text[to] <= '9' {
		to++
	}
	if to == from || to-from > 1 && text[from] == '0' || to == len(text) || text[to] != ',' && text[to] != '}' {
		return c, false // no number as JSON has it, or one that goes on
	}
	c = cuts{head: text[:i], nominal: text[i : i+n], accepted: text[from:to], middle: text[to:]}
	if w := bytes.Index(c.middle, workName); w >= 0 && bytes.IndexByte(c.middle[:w], '{') < 0 {
		rest := c.middle[w+len(workName):]
		size := objectSize(rest)
		if size == 0 || bytes.Contains(rest[size:], workName) {
			return c, false
		}
		c.middle, c.work, c.tail = c.middle[:w], rest[:size], rest[size:]
	}
	return c, true
}

// objectSize returns the length of the JSON object with which text begins, or 0. It only counts
// braces and quotes.
func objectSize(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{':
			depth++
		case b == '}':
			depth--
		}
		if depth == 0 { // not an object, or its end
			if i == 0 {
				return 0
			}
			return i + 1
		}
	}
	return 0
}

// The memo of job specs. A job is read for each of its runs, and seldom changes; decoding its spec
// each time was a fifth of the cost of reading it. Specs that were read lately are remembered.
//
// What they point to is shared by all who read the job, and therefore never changed in place.
const (
	// jobMemoSize bounds the remembered specs; beyond it any one of them is forgotten.
	jobMemoSize = 32 << 10
	// jobMemoText bounds the text of a remembered spec, in bytes: 60 MB in all at worst, a third of
	// it usually.
	jobMemoText = 2 << 10
)

// jobMemo remembers specs by job and generation, which never changes what it says. A hash of the
// text guards against a damaged row.
type jobMemo struct {
	seed maphash.Seed

	mu    sync.Mutex
	known map[generationOf]*rememberedJob
}

type generationOf struct {
	job    JobID
	number int64
}

type rememberedJob struct {
	hash uint64
	spec JobSpec
}

var jobSpecs = jobMemo{seed: maphash.MakeSeed(), known: make(map[generationOf]*rememberedJob)}

// LoadJobSpec is DecodeJobSpec of the text of a generation of a job, with a memo. What the spec
// points to is shared: never change it in place.
func LoadJobSpec(job JobID, generation int64, text []byte) (JobSpec, error) {
	return jobSpecs.load(generationOf{job, generation}, text)
}

func (m *jobMemo) load(key generationOf, text []byte) (JobSpec, error) {
	if len(text) > jobMemoText {
		return DecodeJobSpec(text)
	}
	hash := maphash.Bytes(m.seed, text)
	m.mu.Lock()
	known := m.known[key]
	m.mu.Unlock()
	if known != nil && known.hash == hash {
		return known.spec, nil
	}
	spec, err := DecodeJobSpec(text)
	if err != nil {
		return JobSpec{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= jobMemoSize && m.known[key] == nil {
		for other := range m.known { // begins anywhere
			delete(m.known, other)
			break
		}
	}
	m.known[key] = &rememberedJob{hash, spec}
	return spec, nil
}
