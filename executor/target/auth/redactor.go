package auth

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"carillon.dev/carillon/schema"
)

// redacted stands where a secret stood.
const redacted = "…"

// Redactor takes secrets out of what is written down: a callee may say back what it was sent. It
// finds a secret as it is, and as JSON, URLs and base64 write it. A nil Redactor finds none.
type Redactor struct{ forms [][]byte } // longest first

// NewRedactor returns a Redactor of the values, nil if there are none.
func NewRedactor(v Values) *Redactor {
	if len(v) == 0 {
		return nil
	}
	r := new(Redactor)
	for _, all := range v {
		for _, value := range all {
			r.Add(string(value))
		}
	}
	return r
}

// Add has a further secret taken out. One that is shorter than a secret may be is not.
func (r *Redactor) Add(secret string) {
	if len(secret) < schema.MinSecretValue {
		return
	}
	inJSON, _ := json.Marshal(secret) // a string always can
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(secret) // as above; it adds a line end
	inPlainJSON := plain.String()
	for _, form := range []string{
		secret, string(inJSON[1 : len(inJSON)-1]), inPlainJSON[1 : len(inPlainJSON)-2], url.QueryEscape(secret), url.PathEscape(secret),
		base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	} {
		if len(form) >= schema.MinSecretValue && !slices.ContainsFunc(r.forms, func(f []byte) bool { return string(f) == form }) {
			r.forms = append(r.forms, []byte(form))
		}
	}
	slices.SortStableFunc(r.forms, func(a, b []byte) int { return cmp.Compare(len(b), len(a)) })
}

// Bytes returns b without secrets, which may change b. Where b was cut, the beginning of a secret at
// its end goes as well.
func (r *Redactor) Bytes(b []byte, cut bool) []byte {
	if r == nil {
		return b
	}
	for _, form := range r.forms {
		if bytes.Contains(b, form) {
			b = bytes.ReplaceAll(b, form, []byte(redacted))
		}
	}
	if cut {
		b = b[:len(b)-r.begun(b)]
	}
	return b
}

// begun returns how many bytes at the end of b are the beginning of a secret.
func (r *Redactor) begun(b []byte) (most int) {
	for _, form := range r.forms {
		for n := min(len(form)-1, len(b)); n > most; n-- {
			if bytes.HasSuffix(b, form[:n]) {
				most = n
			}
		}
	}
	return most
}

// Text returns s without secrets.
func (r *Redactor) Text(s string) string {
	if r == nil {
		return s
	}
	for _, form := range r.forms {
		s = strings.ReplaceAll(s, string(form), redacted)
	}
	return s
}
