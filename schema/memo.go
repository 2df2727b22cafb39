package schema

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"strconv"
	"sync/atomic"
	"time"
)

// The specs of many rows differ in two values only, the nominal time and the instant of acceptance: those of one import, of one
// task, of one job. To decode the same text again and again was a tenth of what a node spends on a run. So specs are
// remembered by the text around those two, and what is remembered is copied and given its own two.
//
// Copies share what they point to (work, labels, misfire), which is therefore never changed in place.
const (
	// memoSlots bounds what is remembered; a new spec takes the place of the one in its slot.
	memoSlots = 1024
	// memoText bounds the text of a spec that is remembered, in bytes.
	memoText = 2 << 10
)

type memo struct {
	seed  maphash.Seed
	slots [memoSlots]atomic.Pointer[remembered]
	// last is the hash that each slot was asked for last and did not have: only what is asked for twice in a row is remembered, so that specs
	// that never come again cost no copy.
	last [memoSlots]atomic.Uint64
}

// remembered is a spec and the text around its nominal time and its acceptance.
type remembered struct {
	head, tail string
	spec       Spec
}

var specs = memo{seed: maphash.MakeSeed()}

// decode returns the spec that text says, as json.Unmarshal has it.
func (m *memo) decode(text []byte) (Spec, error) {
	head, nominal, accepted, tail, ok := cutSpec(text)
	var at time.Time
	us, err := strconv.ParseInt(string(accepted), 10, 64)
	if !ok || err != nil || at.UnmarshalText(nominal) != nil {
		return unmarshalSpec(text)
	}
	hash := maphash.Bytes(m.seed, head)*31 + maphash.Bytes(m.seed, tail)
	slot := hash % memoSlots
	if r := m.slots[slot].Load(); r != nil && r.head == string(head) && r.tail == string(tail) {
		spec := r.spec
		spec.Nominal, spec.Accepted = at, us
		return spec, nil
	}
	spec, err := unmarshalSpec(text)
	// The two are what they seem unless a name stands twice in the text.
	if err == nil && spec.Nominal.Equal(at) && spec.Accepted == us && m.last[slot].Swap(hash) == hash {
		m.slots[slot].Store(&remembered{head: string(head), tail: string(tail), spec: spec})
	}
	return spec, err
}

// unmarshalSpec is json.Unmarshal, in a function of its own: only here does the spec have to lie on the heap.
func unmarshalSpec(text []byte) (Spec, error) {
	var spec Spec
	err := json.Unmarshal(text, &spec)
	return spec, err
}

var (
	nominalName  = []byte(`"nominal":"`)
	acceptedName = []byte(`","accepted":`)
)

// cutSpec cuts the text of a spec, as NewEntry writes it, into its nominal time, its acceptance and what is around them.
func cutSpec(text []byte) (head, nominal, accepted, tail []byte, ok bool) {
	if len(text) > memoText || len(text) == 0 {
		return nil, nil, nil, nil, false
	}
	i := bytes.Index(text, nominalName)
	// In the root object, not in one below it: nothing is opened before. (Within a string each quote follows a backslash, which the name lacks.)
	if i < 0 || bytes.IndexByte(text[1:i], '{') >= 0 {
		return nil, nil, nil, nil, false
	}
	i += len(nominalName)
	n := bytes.IndexByte(text[i:], '"')
	if n < 0 || !bytes.HasPrefix(text[i+n:], acceptedName) {
		return nil, nil, nil, nil, false
	}
	from := i + n + len(acceptedName)
	to := from
	for to < len(text) && '0' <= text[to] && text[to] <= '9' {
		to++
	}
	if to == from || to-from > 1 && text[from] == '0' || to == len(text) || text[to] != ',' && text[to] != '}' {
		return nil, nil, nil, nil, false // no number as JSON has it, or one that goes on
	}
	return text[:i], text[i : i+n], text[from:to], text[to:], true
}
