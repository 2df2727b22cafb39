package schema

import (
	"math/bits"
	"slices"
	"strings"
	"time"
)

const (
	// MaxTaskConcurrent bounds max_concurrent of a task: how many of its runs may be under way at
	// once.
	MaxTaskConcurrent = 1_000_000
	// MaxBlocks bounds the executors that have, or wait for, slots of one limit, so that its lease
	// stays below 64 KiB. An executor beyond the bound gets none until another has left.
	MaxBlocks = 256
)

// taskLimit is how the keys of tasks' limits begin.
const taskLimit = "task/"

// TaskLimit returns the key of a task's max_concurrent.
func TaskLimit(task TaskName) LimitKey { return LimitKey(taskLimit + task.Tenant + "/" + task.Name) }

// Task returns the task whose limit it is; false if it is no task's.
func (k LimitKey) Task() (TaskName, bool) {
	text, ok := strings.CutPrefix(string(k), taskLimit)
	if !ok {
		return TaskName{}, false
	}
	tenant, name, ok := strings.Cut(text, "/")
	return TaskName{tenant, name}, ok
}

// tenantLimit is how the keys of tenants' quotas begin.
const tenantLimit = "tenant/"

// TenantLimit returns the key of a tenant's quota of runs at once.
func TenantLimit(tenant string) LimitKey { return LimitKey(tenantLimit + tenant) }

// Tenant returns the tenant whose quota it is; false if it is no tenant's.
func (k LimitKey) Tenant() (string, bool) { return strings.CutPrefix(string(k), tenantLimit) }

// Block is how many slots of a limit an executor has. It hands them out itself, so a run needs no
// conditional write of its own. A block is held until it is given back, the executor's session
// falls, or that says that the block is released (Session.Released).
type Block struct {
	Executor string `json:"executor"`
	Session  string `json:"session"`
	// Home is that of the limit, and Epoch that in which the executor's region served it when this
	// was written. None: there are no regions.
	Home  string `json:"home,omitempty"`
	Epoch int64  `json:"epoch,omitempty"`
	Held  int    `json:"held,omitempty"`
	// Wanted is about how many more it could use; 1 where it has its share. Since is from when on
	// an executor without slots has waited. UTC, ms.
	Wanted int       `json:"wanted,omitempty"`
	Since  time.Time `json:"since,omitzero"`
}

func (b *Block) ref() SessionRef {
	return SessionRef{Executor: b.Executor, ID: b.Session, Guarded: true, Home: b.Home, Epoch: b.Epoch}
}

// BlockRequest is what an executor needs of a limit.
type BlockRequest struct {
	Executor, Session string
	Home              string // of the limit
	Epoch             int64  // in which our region serves that home
	Limit             int    // as it is now
	Busy              int    // slots of its block that are in use
	Want              int    // slots that it could use, with those that are in use
	// Spare is how many slots it would have, in use or not, while nobody else wants them.
	Spare int
	// Over: it has had its turn. Where there are fewer slots than executors, one that waits may
	// have it.
	Over bool
	Now  time.Time
}

// Apportion decides how many of the limit's slots are an executor's own.
//
// It returns held, how many the executor has; use, how many of these it may use; and whether s has
// changed. use is lower than held if others are to get some of those that are busy now.
//
//	in all              never more than the limit, and never what another has
//	nobody else wants   an executor may have all that are free
//	several want        each may have limit ÷ executors. What is above that is given up, as soon
//	                    as it is not busy, to those who have less
//	share below 1       who has waited longest is next; who has had its turn (Over) gives up all
func (s *Slots) Apportion(n BlockRequest) (held, use int, changed bool) {
	i := slices.IndexFunc(s.Blocks, func(b Block) bool { return b.Executor == n.Executor && b.Session == n.Session })
	mine := Block{Executor: n.Executor, Session: n.Session}
	if i >= 0 {
		mine = s.Blocks[i]
	}
	was := mine
	mine.Home, mine.Epoch = n.Home, n.Epoch
	use, share := s.share(&mine, i, n)
	held = max(use, min(n.Busy, mine.Held))
	mine.Held = held
	mine.want(n, share, held != was.Held)
	switch {
	case mine.Held == 0 && mine.Wanted == 0:
		if i < 0 {
			return 0, 0, false
		}
		s.Blocks = slices.Delete(slices.Clone(s.Blocks), i, i+1)
		return 0, 0, true
	case i >= 0 && mine == was:
		return held, use, false
	case i >= 0:
		s.Blocks = slices.Clone(s.Blocks)
		s.Blocks[i] = mine
	case len(s.Blocks) >= MaxBlocks:
		return 0, 0, false
	default:
		s.Blocks = append(slices.Clone(s.Blocks), mine)
	}
	return held, use, true
}

// share returns how many slots block number i (-1: it is not there yet) may use, and the share
// below which a block comes before others.
func (s *Slots) share(mine *Block, i int, n BlockRequest) (use, share int) {
	parties, hungry, ahead, gaps := 1, 0, 0, 0
	for j := range s.Blocks {
		if j != i {
			parties++
		}
	}
	each := n.Limit / parties
	share = max(each, 1) // a block with fewer that wants more comes before others
	for j := range s.Blocks {
		b := &s.Blocks[j]
		if j == i || b.Wanted == 0 || b.Held >= share {
			continue
		}
		gaps += min(b.Wanted, share-b.Held)
		hungry++
		if mine.Since.IsZero() || b.Since.Before(mine.Since) {
			ahead++
		}
	}
	free := max(n.Limit-(s.taken()-mine.Held), 0) // with those that it has
	like := max(n.Want, n.Spare)
	switch {
	case each > 0:
		use = max(min(n.Want, share, free), min(like, free-gaps))
		if s.taken() > n.Limit { // it was lowered: all give some up, none of them everything
			use = max(use, min(n.Want, mine.Held, share))
		}
	case mine.Held > 0 && n.Over && hungry > 0:
		use = 0
	case mine.Held > 0:
		use = min(like, max(free-hungry, min(free, 1)))
	case hungry > 0:
		use = min(n.Want, 1, max(free-ahead, 0))
	default:
		use = min(like, free)
	}
	return use, share
}

// want notes what the executor could use beyond what it has. The number is rough, so that the lease
// does not change all the time: of an executor that has its share it only says that it wants more.
func (b *Block) want(n BlockRequest, share int, moved bool) {
	more := n.Want - b.Held
	switch {
	case b.Held >= share && more > 0:
		b.Wanted = 1
	case b.Held >= share && !moved:
	case more <= 0:
		b.Wanted = 0
	case b.Wanted < more || b.Wanted > 4*more:
		b.Wanted = 1 << bits.Len(uint(more-1))
	}
	switch {
	case b.Wanted == 0 || b.Held > 0:
		b.Since = time.Time{}
	case b.Since.IsZero():
		b.Since = n.Now.UTC().Truncate(time.Millisecond)
	}
}

// Contested reports whether another executor than that of this session could use more slots.
func (s *Slots) Contested(session string) bool {
	return slices.ContainsFunc(s.Blocks, func(b Block) bool { return b.Wanted > 0 && b.Session != session })
}

// Waits reports whether the executor of this session is noted as wanting more slots.
func (s *Slots) Waits(session string) bool {
	return slices.ContainsFunc(s.Blocks, func(b Block) bool { return b.Wanted > 0 && b.Session == session })
}

// taken returns how many slots are held.
func (s *Slots) taken() int {
	n := len(s.Taken)
	for i := range s.Blocks {
		n += s.Blocks[i].Held
	}
	return n
}
