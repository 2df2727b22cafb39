package config

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// convert converts a value of the file, the environment or a flag to the type of like. It returns
// nil if there is no value: none in the file, or an empty text for a key that is no text. Errors
// never quote the value, which may be a secret.
func convert(value, like any) (any, error) {
	if value == nil {
		return nil, nil
	}
	text, isText := value.(string)
	want := kindOf(like)
	switch like.(type) {
	case string:
		if isText {
			return text, nil
		}
		if _, list := value.([]any); !list {
			want += ": put it between quotes"
		}
	case []string:
		return texts(value)
	case time.Duration:
		if isText && text == "" {
			return nil, nil
		}
		if d, err := time.ParseDuration(text); isText && err == nil {
			return d, nil
		}
		if value == 0 {
			return time.Duration(0), nil
		}
	case bool:
		if b, ok := value.(bool); ok {
			return b, nil
		}
		if isText && text == "" {
			return nil, nil
		}
		if b, err := strconv.ParseBool(text); isText && err == nil {
			return b, nil
		}
	case int:
		if i, ok := value.(int); ok {
			return i, nil
		}
		if isText && text == "" {
			return nil, nil
		}
		if i, err := strconv.Atoi(text); isText && err == nil {
			return i, nil
		}
	}
	return nil, fmt.Errorf("is %s, want %s", kindOf(value), want)
}

// texts returns a list of texts; a text alone is a list of one.
func texts(value any) ([]string, error) {
	switch v := value.(type) {
	case []string:
		return v, nil
	case string:
		return []string{v}, nil
	case []any:
		list := make([]string, 0, len(v))
		var faults []error
		for i, e := range v {
			text, ok := e.(string)
			if !ok {
				faults = append(faults, fmt.Errorf("entry %d is %s, want a text: put it between quotes", i+1, kindOf(e)))
				continue
			}
			list = append(list, text)
		}
		return list, errors.Join(faults...)
	}
	return nil, fmt.Errorf("is %s, want a list of texts", kindOf(value))
}

// kindOf says in words what a value is.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "nothing"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case int, int64, uint64:
		return "a whole number"
	case float64:
		return "a number with a fraction"
	case time.Duration:
		return "a span with its unit, such as 30s"
	case []any, []string:
		return "a list"
	case map[string]any, map[any]any:
		return "a group of keys"
	}
	return fmt.Sprintf("a %T", value)
}
