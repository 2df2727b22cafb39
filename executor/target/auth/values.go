package auth

import (
	"fmt"
	"io"
)

// Values are the values of secrets by the secrets' names, newest first. They print as their names'
// number alone.
type Values map[string][][]byte

// Format implements fmt.Formatter, for every verb.
func (v Values) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, v.String()) }

// String says how many secrets there are.
func (v Values) String() string { return fmt.Sprintf("%d secrets", len(v)) }

// MarshalJSON writes String.
func (v Values) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "%q", v.String()), nil }

// newest returns the value in force of a secret.
func (v Values) newest(name string) ([]byte, error) {
	if all := v[name]; len(all) > 0 {
		return all[0], nil
	}
	return nil, faultf("there is no secret %s", name)
}

// headerValue returns the value in force of a secret that is sent in a header.
func (v Values) headerValue(name string) (string, error) {
	value, err := v.newest(name)
	if err == nil && !isHeaderValue(string(value)) {
		err = faultf("the secret %s cannot be sent in a header: it has control characters, such as a line end, or outer spaces", name)
	}
	if err != nil {
		return "", err
	}
	return string(value), nil
}

// isHeaderValue reports whether s may be sent as the value of a header (RFC 9110, section 5.5).
func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return s != "" && s[0] != ' ' && s[0] != '\t' && s[len(s)-1] != ' ' && s[len(s)-1] != '\t'
}

// Fault says why a call cannot be made with the secrets that there are. Its text goes into records:
// it names secrets and holds none.
type Fault struct{ text string }

// Error returns the text.
func (f *Fault) Error() string { return f.text }

func faultf(format string, args ...any) error { return &Fault{fmt.Sprintf(format, args...)} }
