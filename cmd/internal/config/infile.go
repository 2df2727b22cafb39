package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// inFiles are the keys whose value can lie in a file of its own, which the key with fileSuffix names:
// so secrets stand neither in the configuration nor in the environment, and can be changed on disk.
var inFiles = []string{
	"api.cursor_key", "api.oidc.client_secret", "cassandra.password", "cassandra.username", "email.password", "email.username", "nats.password", "nats.token", "nats.user", "ring.key", "secrets.keys",
}

const (
	fileSuffix = "_file"
	// maxValueFile bounds such a file, bytes.
	maxValueFile = 64 << 10
)

// valueKey returns the key whose value lies in the file that key names; empty: key names no file.
func valueKey(key string) string {
	of, found := strings.CutSuffix(key, fileSuffix)
	if !found || !slices.Contains(inFiles, of) {
		return ""
	}
	return of
}

// isEmpty reports whether a value of the environment is none.
func isEmpty(value any) bool {
	if list, ok := value.([]string); ok {
		return len(list) == 0
	}
	return value == nil || value == ""
}

// setFromFile sets the value of a key to what lies in a file.
func (l *loader) setFromFile(source, key, of string, file any) {
	path, err := convert(file, "")
	if err == nil && (path == nil || path == "") {
		return // no value
	}
	var value any
	if err == nil {
		l.files = append(l.files, path.(string))
		value, err = readValue(path.(string), l.defaults[of])
	}
	if err != nil {
		l.faults = append(l.faults, fmt.Errorf("%s: %s: %w", source, key, err))
		return
	}
	l.set(source+", "+key, of, value)
}

// readValue reads a value of the type of like: a text without the end of its last line, or a list
// with an entry a line or between commas. Errors never quote the value, which may be a secret.
func readValue(path string, like any) (any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxValueFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxValueFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxValueFile)
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" { // as a value it would mean that there is none: no key, no password
		return nil, fmt.Errorf("%s is empty", path)
	}
	if strings.ContainsRune(value, 0) {
		return nil, errors.New(path + " is no text")
	}
	if _, list := like.([]string); !list {
		return value, nil
	}
	var entries []string
	for _, e := range strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || r == ',' }) {
		if e = strings.TrimSpace(e); e != "" {
			entries = append(entries, e)
		}
	}
	return entries, nil
}
