package importer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
)

// stateSuffix follows the name of an imported file in the name of its state file.
const stateSuffix = ".carillon-import"

// span is a range of lines, both ends included.
type span [2]int64

// lineSet is a set of lines: spans in ascending order that neither overlap nor touch.
type lineSet []span

// add adds a span to the set.
func (s *lineSet) add(a span) {
	if a[0] > a[1] {
		return
	}
	first, _ := slices.BinarySearchFunc(*s, a[0], func(x span, n int64) int { return compare(x[1]+1, n) })
	last := first
	for ; last < len(*s) && (*s)[last][0] <= a[1]+1; last++ {
		a = span{min(a[0], (*s)[last][0]), max(a[1], (*s)[last][1])}
	}
	*s = slices.Replace(*s, first, last, a)
}

// remove removes a span from the set.
func (s *lineSet) remove(a span) {
	if a[0] > a[1] {
		return
	}
	first, _ := slices.BinarySearchFunc(*s, a[0], func(x span, n int64) int { return compare(x[1], n) })
	last := first
	var rest []span
	for ; last < len(*s) && (*s)[last][0] <= a[1]; last++ {
		if x := (*s)[last]; x[0] < a[0] {
			rest = append(rest, span{x[0], a[0] - 1})
		}
		if x := (*s)[last]; x[1] > a[1] {
			rest = append(rest, span{a[1] + 1, x[1]})
		}
	}
	*s = slices.Replace(*s, first, last, rest...)
}

// has reports whether line n is in the set.
func (s lineSet) has(n int64) bool {
	i, _ := slices.BinarySearchFunc(s, n, func(x span, n int64) int { return compare(x[1], n) })
	return i < len(s) && s[i][0] <= n
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// spans returns the lines of a block for which f holds.
func spans(lines []line, f func(*line) bool) lineSet {
	var s lineSet
	for i := range lines {
		if l := &lines[i]; f(l) {
			s.add(span{l.number, l.number})
		}
	}
	return s
}

// tally counts lines by result.
type tally struct {
	Created  int64 `json:"created,omitempty"`
	Existing int64 `json:"existing,omitempty"` // or valid, where nothing is written
	Failed   int64 `json:"failed,omitempty"`
}

func (t *tally) add(o tally) {
	t.Created += o.Created
	t.Existing += o.Existing
	t.Failed += o.Failed
}

func (t *tally) total() int64 { return t.Created + t.Existing + t.Failed }

// record is a line of the state file.
type record struct {
	Sent     lineSet `json:"sent,omitempty"`     // about to be sent
	Unsent   lineSet `json:"unsent,omitempty"`   // of "sent", but certainly not written by the API
	Answered lineSet `json:"answered,omitempty"` // settled
	tally
}

// stateHead is the first line of the state file. It names the import.
type stateHead struct {
	Version     int    `json:"carillon_import"`
	Fingerprint string `json:"print"` // of the file
	Tenant      string `json:"tenant"`
}

// importState records on disk which lines of a file were sent and answered, so that the next import
// can go on. Lines are recorded as sent before they are sent. A lock keeps other processes out.
type importState struct {
	path     string
	resumed  bool
	answered lineSet // when it was opened
	sent     lineSet // and not answered, when it was opened
	earlier  tally   // of the answered

	mu   sync.Mutex // guards what follows
	file *os.File   // nil remembers nothing
}

// openState opens or creates the state of an import.
func openState(path string, head stateHead) (_ *importState, err error) {
	s := &importState{path: path}
	if s.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, fmt.Errorf("open the state of the import: %w", err)
	}
	if err := lockFile(s.file); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: another import of the file is under way: %w", path, err), s.file.Close())
	}
	if err := s.load(head); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// load reads the file, and removes a torn last line.
func (s *importState) load(want stateHead) error {
	r := bufio.NewReader(s.file)
	var good int64
	for first := true; ; first = false {
		text, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read the state of the import: %w", err)
		}
		if first {
			var head stateHead
			switch err := json.Unmarshal(text, &head); {
			case err != nil || head.Version != want.Version:
				return fmt.Errorf("%s is not the state of an import", s.path)
			case head != want:
				return fmt.Errorf("%s tells of another file or tenant: remove it to import this one from its start", s.path)
			}
			good, s.resumed = int64(len(text)), true
			continue
		}
		var rec record
		if err := json.Unmarshal(text, &rec); err != nil {
			return fmt.Errorf("read %s: %w", s.path, err)
		}
		s.apply(rec)
		good += int64(len(text))
	}
	if err := s.file.Truncate(good); err != nil {
		return fmt.Errorf("cut the state of the import: %w", err)
	}
	if _, err := s.file.Seek(good, io.SeekStart); err != nil {
		return fmt.Errorf("open the state of the import: %w", err)
	}
	if !s.resumed {
		return s.append(want, true)
	}
	return nil
}

func (s *importState) apply(r record) {
	for _, a := range r.Sent {
		s.sent.add(a)
	}
	for _, a := range r.Unsent {
		s.sent.remove(a)
	}
	for _, a := range r.Answered {
		s.sent.remove(a)
		s.answered.add(a)
	}
	s.earlier.add(r.tally)
}

// save writes a record. It syncs lines that are about to be sent.
func (s *importState) save(r record) error {
	if s == nil || len(r.Sent)+len(r.Unsent)+len(r.Answered) == 0 {
		return nil
	}
	return s.append(r, len(r.Sent) > 0)
}

func (s *importState) append(v any, sync bool) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the state of the import: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.file.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write the state of the import: %w", err)
	}
	if sync {
		if err := s.file.Sync(); err != nil {
			return fmt.Errorf("write the state of the import: %w", err)
		}
	}
	return nil
}

// close closes the state, and removes the file if the import is finished.
func (s *importState) close(finished bool) error {
	if s == nil {
		return nil
	}
	if finished {
		if err := os.Remove(s.path); err != nil {
			return errors.Join(fmt.Errorf("remove the state of the import: %w", err), s.file.Close())
		}
	}
	if err := s.file.Close(); err != nil {
		return fmt.Errorf("close the state of the import: %w", err)
	}
	return nil
}
