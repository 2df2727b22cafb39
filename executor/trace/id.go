package trace

import (
	"encoding/binary"
	"encoding/hex"

	"carillon.dev/carillon/schema"
)

// SpanID is the id of a span. Zero is no id.
type SpanID [8]byte

// ID returns the id of a run's trace as it is written, in 32 lower-case hexadecimal digits.
func ID(run schema.RunID) string { return hex.EncodeToString(run[:]) }

// RunSpan returns the id of the span of a run.
func RunSpan(run schema.RunID) SpanID { return SpanID(run[8:]) }

// AttemptSpan returns the id of the span of an attempt.
func AttemptSpan(run schema.RunID, number int, fence schema.Fence) SpanID {
	h := binary.BigEndian.Uint64(run[8:]) ^ mix(uint64(fence)) + uint64(number) // #nosec G115 -- only bits
	var id SpanID
	binary.BigEndian.PutUint64(id[:], mix(h)|1)
	return id
}

// part returns the id of another span of the same attempt.
func (id SpanID) part(n uint64) SpanID {
	binary.BigEndian.PutUint64(id[:], mix(binary.BigEndian.Uint64(id[:])+n)|1)
	return id
}

// mix spreads the bits of x: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Parent returns the traceparent (W3C Trace Context, version 00) by which the callee of an attempt
// is told its parent. sampled says whether the attempt's span is sent.
func Parent(run schema.RunID, span SpanID, sampled bool) string {
	b := make([]byte, 0, 55)
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, run[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	if sampled {
		return string(append(b, "-01"...))
	}
	return string(append(b, "-00"...))
}
