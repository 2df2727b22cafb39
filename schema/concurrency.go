package schema

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
)

// MaxConcurrencyKey bounds the key of a Concurrency, in bytes.
const MaxConcurrencyKey = 256

// NoConcurrencyValue is the value of runs whose payload has none under the key of their job.
const NoConcurrencyValue = "-"

// valueBytes is how much of the hash of a value is kept: of 10¹² values no two are the same.
const valueBytes = 16

// Value returns what a run with that payload counts under: "" if c has no key, otherwise a hash of
// 32 hexadecimal digits of what the payload has under the key, or NoConcurrencyValue if that is
// neither a string, nor a number, nor true or false. Numbers are told apart as they are written: 1
// is not 1.0.
func (c *Concurrency) Value(payload []byte) string {
	if c == nil || c.Key == "" {
		return ""
	}
	part := json.RawMessage(payload)
	for token := range strings.SplitSeq(strings.TrimPrefix(c.Key, "/"), "/") {
		if part = memberOf(part, pointerName.Replace(token)); part == nil {
			return NoConcurrencyValue
		}
	}
	var value any
	d := json.NewDecoder(strings.NewReader(string(part)))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return NoConcurrencyValue
	}
	var text string
	switch v := value.(type) {
	case string:
		text = `"` + v
	case json.Number:
		text = v.String()
	case bool:
		text = strconv.FormatBool(v)
	default:
		return NoConcurrencyValue
	}
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:valueBytes])
}

// pointerName undoes the escapes of a name in a JSON pointer.
var pointerName = strings.NewReplacer("~1", "/", "~0", "~")

// memberOf returns the member of a JSON object, or the element of an array, that a name of a JSON
// pointer stands for; nil if there is none.
func memberOf(text json.RawMessage, name string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal(text, &object) == nil {
		return object[name]
	}
	var list []json.RawMessage
	i, err := strconv.ParseUint(name, 10, 31)
	if err != nil || json.Unmarshal(text, &list) != nil || i >= uint64(len(list)) || name != strconv.FormatUint(i, 10) {
		return nil
	}
	return list[i]
}

// Limit returns the key of the limit that the run counts under, if its job has one. It is the same
// for all attempts of a run, also once its job has another key.
func (s *Spec) Limit() LimitKey {
	key := JobLimit(s.Job)
	if s.ConcurrencyValue != "" {
		key += LimitKey("/" + s.ConcurrencyValue)
	}
	return key
}
