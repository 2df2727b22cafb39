package bucketer

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The bounds of what a job may say that more than its decoder needs.
const (
	// MaxName bounds the names of tasks, jobs and tenants, in characters.
	MaxName = 63
	MaxKey  = 128 // bytes of an idempotency key
	// MaxTimeout bounds one attempt, and MaxBackoff the wait before the next one.
	MaxTimeout = 24 * time.Hour
	MaxBackoff = 24 * time.Hour
)

// NameFault says what is wrong with the name of a task, a job or a tenant, or "".
func NameFault(name string) string {
	ok := len(name) > 0 && len(name) <= MaxName
	for i := 0; ok && i < len(name); i++ {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			ok = false
		}
	}
	switch {
	case !ok:
		return "must be 1 to 63 characters of a-z, 0-9, '.', '_' and '-', and start with a letter or a digit"
	case isUUID(name):
		return "must not be a UUID: those are ids"
	}
	return ""
}

// KeyFault says what is wrong with an idempotency key, or "".
func KeyFault(key string) string {
	switch {
	case key == "":
		return "must not be empty"
	case len(key) > MaxKey:
		return "must be at most " + strconv.Itoa(MaxKey) + " bytes long"
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return "must be UTF-8 without control characters"
	}
	return ""
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdefABCDEF", rune(s[i])) {
			return false
		}
	}
	return true
}

// OwnKey makes an idempotency key that no client can send, because it is longer than clients' keys
// may be.
func OwnKey(text string) string { return text + strings.Repeat(" ", max(0, MaxKey+1-len(text))) }
