package queue

import (
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"carillon.dev/carillon/schema"
)

// maxAdvice bounds the bytes of hints or notices in one message, unless a single one is larger.
const maxAdvice = 256 << 10

// The wire form of notices, version 1, integers big-endian: 1 version, then for each
//
//	16 entry id | 16 run id | 4 attempt
const (
	noticesVersion = 1
	noticeSize     = 16 + 16 + 4
	// succeededFlag is the highest bit of a notice's attempt number: older versions ignore the number.
	succeededFlag = 1 << 31
)

// EncodeHints yields messages that carry entries as hints: envelopes one after another, without
// CheckedAt. It leaves out an entry that is too large for an envelope: the sweep finds it.
func EncodeHints(entries []schema.Entry) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var b []byte
		for i := range entries {
			env := Envelope{Entry: entries[i]}
			size := env.size()
			if size > MaxEnvelope {
				continue
			}
			if len(b) > 0 && len(b)+size > maxAdvice {
				if !yield(b) {
					return
				}
				b = nil
			}
			b = env.Append(b)
		}
		if len(b) > 0 {
			yield(b)
		}
	}
}

// ParseHints is the inverse of EncodeHints for one message. The entries share b's memory. The error
// wraps ErrMalformed; the entries before the fault are returned with it.
func ParseHints(b []byte) ([]schema.Entry, error) {
	var entries []schema.Entry
	for len(b) > 0 {
		env, rest, err := Parse(b)
		if err != nil {
			return entries, fmt.Errorf("hint %d: %w", len(entries), err)
		}
		entries = append(entries, env.Entry)
		b = rest
	}
	return entries, nil
}

// EncodeNotices yields the messages that carry notices.
func EncodeNotices(notices []schema.Notice) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		const most = maxAdvice / noticeSize
		for len(notices) > 0 {
			n := min(len(notices), most)
			b := make([]byte, 1, 1+n*noticeSize)
			b[0] = noticesVersion
			for _, notice := range notices[:n] {
				b = append(b, notice.Entry[:]...)
				b = append(b, notice.Run[:]...)
				number := uint32(notice.Attempt) // #nosec G115 -- attempts are few
				if notice.Succeeded {
					number |= succeededFlag
				}
				b = binary.BigEndian.AppendUint32(b, number)
			}
			if !yield(b) {
				return
			}
			notices = notices[n:]
		}
	}
}

// ParseNotices is the inverse of EncodeNotices for one message. The error wraps ErrMalformed.
func ParseNotices(b []byte) ([]schema.Notice, error) {
	if len(b) == 0 || b[0] != noticesVersion || (len(b)-1)%noticeSize != 0 {
		return nil, fmt.Errorf("%w: notices of %d bytes", ErrMalformed, len(b))
	}
	b = b[1:]
	notices := make([]schema.Notice, 0, len(b)/noticeSize)
	for ; len(b) > 0; b = b[noticeSize:] {
		number := binary.BigEndian.Uint32(b[32:36])
		notices = append(notices, schema.Notice{
			Entry:     schema.EntryID(b[:16]),
			Run:       schema.RunID(b[16:32]),
			Attempt:   int(number &^ succeededFlag),
			Succeeded: number&succeededFlag != 0,
		})
	}
	return notices, nil
}

// CheckHeaders returns an error if a request cannot carry these headers: a name is empty, is not
// made of visible ASCII without colon, or begins with the reserved "Nats-" and is neither
// HeaderMessageID nor HeaderExpectedStream; or a value holds a line break.
func CheckHeaders(headers map[string]string) error {
	for name, value := range headers {
		odd := strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' })
		switch {
		case name == "" || odd:
			return fmt.Errorf("header name %.40q cannot be sent", name)
		case len(name) >= 5 && strings.EqualFold(name[:5], "Nats-") && name != HeaderMessageID && name != HeaderExpectedStream:
			return fmt.Errorf("header %.40q is reserved", name)
		case strings.ContainsAny(value, "\r\n"):
			return fmt.Errorf("header %.40q has a line break", name)
		}
	}
	return nil
}
