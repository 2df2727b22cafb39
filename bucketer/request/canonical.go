package request

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon.dev/carillon/schema"
)

// canonical appends the canonical text of node i: no space, members sorted by name, strings with
// the least escaping. Numbers and times stay as they were written: 1 and 1.0 differ. A member of
// the root named without is left out.
func (d *document) canonical(to []byte, i int32, without string) []byte {
	switch n := &d.nodes[i]; n.kind {
	case kindString:
		return quote(to, d.stringOf(i))
	case kindArray:
		to = append(to, '[')
		for c := i + 1; c < n.end; c = d.nodes[c].end {
			if c > i+1 {
				to = append(to, ',')
			}
			to = d.canonical(to, c, "")
		}
		return append(to, ']')
	case kindObject:
		var members []int32
		for c := i + 1; c < n.end; c = d.nodes[c].end {
			if without == "" || string(d.name(c)) != without {
				members = append(members, c)
			}
		}
		slices.SortStableFunc(members, func(a, b int32) int { return bytes.Compare(d.name(a), d.name(b)) })
		to = append(to, '{')
		for k, c := range members {
			if k > 0 {
				to = append(to, ',')
			}
			to = append(quote(to, d.name(c)), ':')
			to = d.canonical(to, c, "")
		}
		return append(to, '}')
	default:
		return append(to, d.raw(i)...)
	}
}

// quote appends s, valid UTF-8, as a JSON string.
func quote(to, s []byte) []byte {
	to = append(to, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			to = append(to, '\\', c)
		case c < ' ':
			to = fmt.Appendf(to, `\u%04x`, c)
		default:
			to = append(to, c)
		}
	}
	return append(to, '"')
}

// hashText returns the SHA-256 of text in 43 characters of base64url.
func hashText(text []byte) string {
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// mergePatch returns what RFC 7396 makes of node t of target and node p of patch.
func mergePatch(to []byte, target *document, t int32, patch *document, p int32) []byte {
	if patch.nodes[p].kind != kindObject {
		return append(to, patch.raw(p)...)
	}
	changes := make(map[string]int32)
	for c := p + 1; c < patch.nodes[p].end; c = patch.nodes[c].end {
		changes[string(patch.name(c))] = c
	}
	to = append(to, '{')
	first := true
	member := func(name []byte) {
		if !first {
			to = append(to, ',')
		}
		first = false
		to = append(quote(to, name), ':')
	}
	const none = -1
	if t != none && target.nodes[t].kind == kindObject {
		for c := t + 1; c < target.nodes[t].end; c = target.nodes[c].end {
			name := target.name(c)
			change, ok := changes[string(name)]
			switch {
			case !ok:
				member(name)
				to = append(to, target.raw(c)...)
			case patch.nodes[change].kind != kindNull:
				member(name)
				to = mergePatch(to, target, c, patch, change)
			}
			delete(changes, string(name))
		}
	}
	for c := p + 1; c < patch.nodes[p].end; c = patch.nodes[c].end {
		name := patch.name(c)
		if _, ok := changes[string(name)]; ok && patch.nodes[c].kind != kindNull {
			member(name)
			to = mergePatch(to, target, none, patch, c)
		}
	}
	return append(to, '}')
}

// Bounds of what a job says of being the only one.
const (
	minUniqueWindow = time.Second
	maxUniqueWindow = 31 * 24 * time.Hour
	maxUniqueParts  = 16
	maxUniquePart   = 256 // bytes
)

// The parts of a job that may make it unique. What it runs always counts.
const (
	uniqueTask    = "task"
	uniquePayload = "payload" // or payload/…, a JSON pointer (RFC 6901) into it
	uniqueLabels  = "labels"  // or labels/NAME
)

// UniqueRequest makes a one-off job the only one of its key for a while.
type UniqueRequest struct {
	// By is what makes two jobs the same; absent: task and payload.
	By     []string        `json:"by,omitempty"`
	Window schema.Duration `json:"window"` // from the creation of the job on
}

// unique reads what makes a job the only one. Its key is made by uniqueKey, after the rest was
// read.
func (r *jobReader) unique(i int32) *schema.Unique {
	d, u, stated := r.d, new(schema.Unique), false
	for c := range d.object(i) {
		switch name := d.doc.name(c); string(name) {
		case "by":
			u.By = uniqueBy(&d.fields, c)
		case "window":
			stated = true
			u.Window = d.duration(c, minUniqueWindow, maxUniqueWindow)
		default:
			d.faultQuietly(c, "is not a field of unique")
		}
	}
	d.require(i, stated, "window")
	if u.By == nil {
		u.By = []string{uniqueTask, uniquePayload}
	}
	return u
}

func uniqueBy(d *fields, i int32) []string {
	by := []string{}
	if !d.is(i, kindArray) {
		d.fault(i, "must be a list of parts of the job")
		return by
	}
	for c := range d.allMembers(i) {
		if len(by) == maxUniqueParts {
			d.faultQuietly(i, "must be at most %d parts of the job", maxUniqueParts)
			break
		}
		part := d.checked(c, uniquePartFault)
		if slices.Contains(by, part) && d.is(c, kindString) {
			d.fault(c, "is there twice")
		}
		by = append(by, part)
	}
	if len(by) == 0 {
		d.faultQuietly(i, "must name a part of the job, or be absent")
	}
	return by
}

// uniquePartFault says what is wrong with the name of a part of a job, or "".
func uniquePartFault(part string) string {
	root, rest, below := strings.Cut(part, "/")
	switch {
	case len(part) > maxUniquePart:
		return fmt.Sprintf("must be at most %d bytes long", maxUniquePart)
	case root == uniquePayload && below && !isEscaped(rest):
		return "must be a JSON pointer after payload: ~ is written ~0, and / in a name ~1"
	case root == uniqueLabels && below && !isLabelName(rest):
		return "must have the name of a label after labels/"
	case root == uniquePayload, root == uniqueLabels, part == uniqueTask:
		return ""
	}
	return `must be task, payload, payload/… (a JSON pointer into the payload), labels or labels/NAME`
}

// isEscaped reports whether every ~ of a JSON pointer begins an escape.
func isEscaped(pointer string) bool {
	rest := strings.NewReplacer("~0", "", "~1", "").Replace(pointer)
	return !strings.Contains(rest, "~")
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// finishUnique makes the key of a job that is to be the only one, once all of it was read.
func (r *jobReader) finishUnique() {
	switch {
	case r.uniqueAt == 0:
	case r.hasMany():
		r.d.faultQuietly(r.uniqueAt, "belongs to a one-off job that waits for no other: a job that can have many runs is unique by its name")
	default:
		r.job.Unique.Key = r.uniqueKey(r.job.Unique.By)
	}
}

// uniqueKey returns the hash of the parts of the job that by names, each with its canonical text. A
// part may be absent. The order of by does not matter.
func (r *jobReader) uniqueKey(by []string) string {
	d := r.d
	parts := append([]string{uniqueTask}, by...)
	slices.Sort(parts)
	var text []byte
	for _, part := range slices.Compact(parts) {
		text = append(quote(text, []byte(part)), ':')
		root, rest, below := strings.Cut(part, "/")
		for c := range d.members(0) {
			switch name := string(d.doc.name(c)); {
			case root == uniqueTask && r.runs(name):
				text = append(quote(text, []byte(name)), ':')
				text = d.doc.canonical(text, c, "")
			case root == uniqueTask || name != root:
			case !below:
				text = d.doc.canonical(text, c, "")
			case root == uniqueLabels:
				if at := child(d, c, rest); at > 0 {
					text = d.doc.canonical(text, at, "")
				}
			default:
				at := c
				for token := range strings.SplitSeq(rest, "/") {
					if at = child(d, at, unescapePointer.Replace(token)); at == 0 {
						break
					}
				}
				if at > 0 {
					text = d.doc.canonical(text, at, "")
				}
			}
		}
		text = append(text, '\n')
	}
	return hashText(text)
}

// child returns the member or the element of node i that a token of a pointer names, or 0.
func child(d *Decoder, i int32, token string) int32 {
	n := 0
	if !d.is(i, kindObject) && !d.is(i, kindArray) {
		return 0
	}
	for c := range d.allMembers(i) {
		if d.is(i, kindArray) && strconv.Itoa(n) == token || d.is(i, kindObject) && string(d.doc.name(c)) == token {
			return c
		}
		n++
	}
	return 0
}

// runs reports whether a member of the body says what a job runs.
func (r *jobReader) runs(member string) bool {
	switch member {
	case "task":
		return true
	case "timeout", "retry", "guarantee", "requires":
		return false
	}
	return slices.Contains(workFields, member)
}
