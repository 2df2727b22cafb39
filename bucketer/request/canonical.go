package request

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
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
