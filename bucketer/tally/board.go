package tally

import (
	"cmp"
	"encoding/json"
	"slices"

	"carillon.dev/carillon/schema"
)

const (
	// namesMost bounds the names of a kind that are counted each for itself; when there are more, all
	// but namesLeft of them are counted with the others.
	namesMost = 2048
	namesLeft = namesMost / 2
)

// board counts the names of one kind.
type board[K comparable] struct {
	cells  map[K]*schema.NameCounts
	others schema.Counts
	spare  []*schema.NameCounts // of names that are counted no more: for names to come
	weigh  []int64              // for prune
	keep   func(K) bool         // names that are always counted each for itself: fewer than namesLeft; nil: none are
}

func newBoard[K comparable]() board[K] { return board[K]{cells: make(map[K]*schema.NameCounts)} }

// of returns where k is counted, and whether that is new: then the caller says what it is called.
func (b *board[K]) of(k K) (cell *schema.NameCounts, fresh bool) {
	if known := b.cells[k]; known != nil {
		return known, false
	}
	if len(b.cells) >= namesMost {
		b.prune()
	}
	if n := len(b.spare); n > 0 {
		cell, b.spare = b.spare[n-1], b.spare[:n-1]
	} else {
		cell = new(schema.NameCounts)
	}
	b.cells[k] = cell
	return cell, true
}

// prune counts the lightest names with the others, so that namesLeft stay. What comes often is
// heavier than half of the names by then, or was seen so seldom that it is none of the heaviest.
// Light names that are kept may leave a few more.
func (b *board[K]) prune() {
	b.weigh = b.weigh[:0]
	for _, c := range b.cells {
		b.weigh = append(b.weigh, c.Weight())
	}
	slices.Sort(b.weigh)
	limit := b.weigh[len(b.weigh)-namesLeft]
	for pass := range 2 { // those of just that weight only as far as it takes
		for k, c := range b.cells {
			if len(b.cells) <= namesLeft {
				return
			}
			if w := c.Weight(); (w < limit || pass > 0 && w == limit) && (b.keep == nil || !b.keep(k)) {
				b.others.Add(&c.Counts)
				b.free(c)
				delete(b.cells, k)
			}
		}
	}
}

// free keeps a cell for another name.
func (b *board[K]) free(c *schema.NameCounts) {
	*c = schema.NameCounts{}
	b.spare = append(b.spare, c)
}

// copied returns what was counted, in no order.
func (b *board[K]) copied() schema.NameStats {
	s := schema.NameStats{Others: b.others, Names: make([]schema.NameCounts, 0, len(b.cells))}
	for _, c := range b.cells {
		s.Names = append(s.Names, *c)
	}
	return s
}

// reset forgets what was counted.
func (b *board[K]) reset() {
	for _, c := range b.cells {
		b.free(c)
	}
	clear(b.cells)
	b.others = schema.Counts{}
}

// Heaviest orders names by weight, the heaviest first, and leaves at most `most` of them. It returns
// them, and what the rest counted together.
func Heaviest(names []schema.NameCounts, most int) (kept []schema.NameCounts, rest schema.Counts) {
	slices.SortFunc(names, func(a, b schema.NameCounts) int {
		return cmp.Or(cmp.Compare(b.Weight(), a.Weight()), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Name, b.Name), slices.Compare(a.Job[:], b.Job[:]))
	})
	for i := range names[min(most, len(names)):] {
		rest.Add(&names[most+i].Counts)
	}
	return names[:min(most, len(names))], rest
}

// bound leaves the heaviest names of s, at most `most`, and so many that its stored form has at most
// schema.MaxNameStats bytes.
func bound(s *schema.NameStats, most int) {
	for {
		var rest schema.Counts
		s.Names, rest = Heaviest(s.Names, most)
		s.Others.Add(&rest)
		text, err := json.Marshal(s)
		if err != nil || len(text) <= schema.MaxNameStats || len(s.Names) == 0 {
			return // it is made of texts and numbers: no error
		}
		most = len(s.Names) * 3 / 4
	}
}
