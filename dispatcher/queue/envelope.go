package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"carillon.dev/carillon/schema"
)

// Envelope is an entry on its way to an executor.
type Envelope struct {
	Entry schema.Entry
	// CheckedAt is the start of the read that saw the entry's row, in µs. For a row that was
	// written and not read back, it is the instant from which the row was known to be stored. Zero
	// means long ago: the executor checks the rows before it starts.
	CheckedAt time.Time
	// Redispatch says that the entry may have been published before. The executor checks the rows
	// before it starts.
	Redispatch bool
	// Dispatch distinguishes the publications of a redispatched entry: dispatcher incarnation and
	// counter. It is empty for the first publication.
	Dispatch string
	// Epoch is the one in which the dispatcher's region served the home of the entry; 0: there are
	// no regions.
	Epoch int64
	// Pool says which executors get it. It is not on the wire: the subject says it.
	Pool Pool
}

// The wire form of an envelope, version 1, integers big-endian:
//
//	1 version | 1 flags | 16 entry id | 8 checked_at, µs | 8 epoch, if flagEpoch is set
//	| 2 len dispatch | dispatch | 4 len text | text | 4 len payload | payload
const (
	envelopeVersion = 1
	flagRedispatch  = 1 << 0
	flagEpoch       = 1 << 1
	envelopeHead    = 1 + 1 + 16 + 8
	epochSize       = 8
)

// MaxEnvelope bounds the wire form, bytes: an inline payload, and a spec as large as an import
// line.
const MaxEnvelope = 512 << 10

// maxDispatch bounds Envelope.Dispatch, bytes.
const maxDispatch = 256

// ErrTooLarge says that the envelope exceeds MaxEnvelope. Nothing was sent.
var ErrTooLarge = errors.New("envelope is too large")

// ErrMalformed says that the bytes are no envelope of a known version.
var ErrMalformed = errors.New("malformed envelope")

// MessageID returns the Nats-Msg-Id of the envelope. Two dispatchers that publish an entry for the
// first time give the same id. Each redispatch gives another one, unless it is that of a reschedule entry
// which a mark names since: all owners of the shard give that the same id. Those of another epoch have
// other ids: an executor drops a message of an epoch that is over, and the stream must not keep that one.
func (e *Envelope) MessageID() string {
	id := e.Entry.ID.String() + "." + strconv.Itoa(e.Entry.Spec.AttemptNumber())
	if e.Dispatch != "" {
		id += "." + e.Dispatch
	}
	if e.Epoch != 0 {
		id += ".e" + strconv.FormatInt(e.Epoch, 10)
	}
	return id
}

// Encode returns the wire form of e, or ErrTooLarge. It leaves out a payload longer than
// schema.InlinePayload, which is in the table payloads, and the marks and the expiry.
func (e *Envelope) Encode() ([]byte, error) {
	size := e.size()
	if size > MaxEnvelope || len(e.Dispatch) > maxDispatch {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrTooLarge, e.Entry.ID, size)
	}
	return e.Append(make([]byte, 0, size)), nil
}

// size returns how many bytes Append appends.
func (e *Envelope) size() int {
	epoch := 0
	if e.Epoch != 0 {
		epoch = epochSize
	}
	return envelopeHead + epoch + 2 + len(e.Dispatch) + 4 + len(e.Entry.Text()) + 4 + len(e.inline())
}

// inline returns the payload that travels in the envelope.
func (e *Envelope) inline() []byte {
	if schema.ClearSize(e.Entry.Payload) > schema.InlinePayload {
		return nil
	}
	return e.Entry.Payload
}

// Append appends the wire form of e to b. It does not check MaxEnvelope; Encode does.
func (e *Envelope) Append(b []byte) []byte {
	var flags byte
	if e.Redispatch {
		flags |= flagRedispatch
	}
	if e.Epoch != 0 {
		flags |= flagEpoch
	}
	b = append(b, envelopeVersion, flags)
	b = append(b, e.Entry.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(e.CheckedAt.UnixMicro())) // #nosec G115 -- read back the same way
	if e.Epoch != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(e.Epoch)) // #nosec G115 -- read back the same way
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(e.Dispatch))) // #nosec G115 -- a few bytes
	b = append(b, e.Dispatch...)
	b = appendBlock(b, e.Entry.Text())
	return appendBlock(b, e.inline())
}

func appendBlock(b, block []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(block))) // #nosec G115 -- bounded by MaxEnvelope
	return append(b, block...)
}

// Parse reads one envelope from the front of b and returns the rest of b. The envelope shares b's
// memory. The error wraps ErrMalformed. A spec that cannot be decoded is no error: the entry
// carries the fault.
func Parse(b []byte) (Envelope, []byte, error) {
	if len(b) < envelopeHead || b[0] != envelopeVersion {
		return Envelope{}, nil, fmt.Errorf("%w: head of %d bytes", ErrMalformed, len(b))
	}
	var e Envelope
	e.Redispatch = b[1]&flagRedispatch != 0
	hasEpoch := b[1]&flagEpoch != 0
	id := schema.EntryID(b[2:18])
	e.CheckedAt = time.UnixMicro(int64(binary.BigEndian.Uint64(b[18:26]))).UTC() // #nosec G115 -- as written
	b = b[envelopeHead:]
	if hasEpoch {
		if len(b) < epochSize {
			return Envelope{}, nil, fmt.Errorf("%w: epoch of %s is cut", ErrMalformed, id)
		}
		e.Epoch = int64(binary.BigEndian.Uint64(b)) // #nosec G115 -- as written
		b = b[epochSize:]
	}
	if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
		return Envelope{}, nil, fmt.Errorf("%w: dispatch of %s is cut", ErrMalformed, id)
	}
	n := int(binary.BigEndian.Uint16(b))
	e.Dispatch = string(b[2 : 2+n])
	text, b, ok := cutBlock(b[2+n:])
	if !ok {
		return Envelope{}, nil, fmt.Errorf("%w: spec of %s is cut", ErrMalformed, id)
	}
	payload, b, ok := cutBlock(b)
	if !ok {
		return Envelope{}, nil, fmt.Errorf("%w: payload of %s is cut", ErrMalformed, id)
	}
	if len(payload) == 0 {
		payload = nil
	}
	e.Entry = schema.LoadEntry(id, text, payload, schema.Marks{})
	return e, b, nil
}

func cutBlock(b []byte) (block, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if uint64(len(b)-4) < uint64(n) {
		return nil, nil, false
	}
	return b[4 : 4+n : 4+n], b[4+n:], true
}
