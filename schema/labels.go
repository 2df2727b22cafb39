package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds of labels. MaxExecutorLabels bounds the text of those of an executor, in bytes, because
// gossip carries it.
const (
	MaxLabels         = 8  // of an executor, and those that work requires
	MaxLabel          = 32 // bytes of a name, and of a value
	MaxExecutorLabels = 160
)

// Labels say what an executor has, or what work requires of its executor: name → value, such as
// gpu → true. Work that requires nothing runs on any executor.
type Labels map[string]string

// ErrLabels: a text names no labels.
var ErrLabels = errors.New("is not a list of labels such as gpu=true")

// Meet reports whether an executor with the labels l may run work that requires those. It allocates
// nothing.
func (l Labels) Meet(required Labels) bool {
	for name, value := range required {
		if has, ok := l[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// String returns the labels by name, such as "gpu=true,zone=a": equal labels have equal texts. "":
// there are none.
func (l Labels) String() string {
	var text strings.Builder
	for i, name := range slices.Sorted(maps.Keys(l)) {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(name + "=" + l[name])
	}
	return text.String()
}

// ParseLabels is the inverse of String. The order does not matter. Its error is ErrLabels.
func ParseLabels(text string) (Labels, error) {
	if text == "" {
		return nil, nil
	}
	labels := make(Labels)
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || LabelFault(name) != "" || LabelFault(value) != "" {
			return nil, fmt.Errorf("%.80q %w", pair, ErrLabels)
		}
		if _, double := labels[name]; double {
			return nil, fmt.Errorf("%.40q stands there twice: %.80q %w", name, text, ErrLabels)
		}
		labels[name] = value
	}
	if len(labels) > MaxLabels {
		return nil, fmt.Errorf("%d labels are more than %d: the text %w", len(labels), MaxLabels, ErrLabels)
	}
	return labels, nil
}

// LabelFault says what is wrong with the name of a label, or its value; "": nothing.
func LabelFault(s string) string {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}
	if s == "" || len(s) > MaxLabel || strings.ContainsFunc(s, odd) {
		return fmt.Sprintf("must be 1 to %d characters of a-z, A-Z, 0-9, '-', '_' and '.'", MaxLabel)
	}
	return ""
}
