package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"carillon.dev/carillon/bucketer"
)

// page is the input of a list of which nothing but the page is asked for. The inputs of other lists
// say the same again: huma finds no parameters in what they embed unless its name is exported.
type page struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50" doc:"The most items of one answer"`
	Cursor string `query:"cursor" maxLength:"1024" doc:"next_cursor of the answer before; opaque, and good only for the same list"`
}

// cursors makes and reads the opaque cursors of lists: what the list goes on from, and a signature
// over that, the tenant and the question. So a cursor serves the list that it came with, and no
// other.
type cursors struct{ key []byte }

// signatureBytes is how much of the HMAC-SHA256 a cursor carries.
const signatureBytes = 16

// make returns the cursor of position v in the list that question describes.
func (c cursors) make(question, v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode cursor: %w", err)
	}
	sum, err := c.sign(question, text)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(append(sum, text...)), nil
}

// read is the inverse of make. A cursor that make did not return for this question is a fault.
func (c cursors) read(cursor string, question, v any) error {
	forged := invalid(bucketer.Fault{Location: "query.cursor", Message: "is not a cursor of this list"})
	raw, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(raw) < signatureBytes {
		return forged
	}
	sum, err := c.sign(question, raw[signatureBytes:])
	if err != nil {
		return err
	}
	if !hmac.Equal(sum, raw[:signatureBytes]) || json.Unmarshal(raw[signatureBytes:], v) != nil {
		return forged
	}
	return nil
}

func (c cursors) sign(question any, text []byte) ([]byte, error) {
	asked, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("encode question of a cursor: %w", err)
	}
	mac := hmac.New(sha256.New, c.key)
	for _, part := range [][]byte{asked, text} {
		sum := sha256.Sum256(part)
		mac.Write(sum[:])
	}
	return mac.Sum(nil)[:signatureBytes], nil
}

// listed returns a page of a list in the order of names: what comes after the name that the cursor
// holds, at most limit of it, and the cursor of the next page, "" if there is none. list is asked
// for one more than fits.
func listed[T, Shown any](
	c cursors, question any, cursor string, limit int, list func(after string, limit int) ([]T, error), name func(*T) string, show func(T) Shown,
) (items []Shown, next string, err error) {
	after := ""
	if cursor != "" {
		if err := c.read(cursor, question, &after); err != nil {
			return nil, "", err
		}
	}
	found, err := list(after, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(found) > limit {
		found = found[:limit]
		if next, err = c.make(question, name(&found[limit-1])); err != nil {
			return nil, "", err
		}
	}
	items = make([]Shown, len(found))
	for i := range found {
		items[i] = show(found[i])
	}
	return items, next, nil
}
