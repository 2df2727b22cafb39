package ring

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/buraksezer/consistent"
	"github.com/cespare/xxhash/v2"

	"carillon.dev/carillon/schema"
)

const (
	// Load bounds what a dispatcher may own: Load times the average, rounded up. The closer it is
	// to 1, the more even the ring, and the more shards move between members that stay when one
	// joins or leaves. At 1.1 with 100 points a member, a join moves about 1.1 times the joiner's
	// share with four members, 1.4 times with ten (64 shards).
	Load = 1.1

	// pointsPerMember is the number of points of each member on the circle.
	pointsPerMember = 100
)

// Status says whether a member is live, left or dead.
type Status uint8

// The values of Status.
const (
	// Unknown: never seen, or gone so long that it was forgotten.
	Unknown Status = iota
	// Live: in the view. It may have crashed within the last seconds.
	Live
	// Left: it announced that it leaves. It may still be there for a moment, and does not own
	// anything.
	Left
	// Dead: the others gave it up. It may come back, if it was only cut off or stopped.
	Dead
)

// String returns the status in lower case.
func (f Status) String() string {
	switch f {
	case Live:
		return "live"
	case Left:
		return "left"
	case Dead:
		return "dead"
	default:
		return "unknown"
	}
}

// Snapshot is one view of the ring. It never changes, so it may be kept and shared; what it returns
// is the caller's, but for the slices inside a [Member]. All lookups are answered from memory.
type Snapshot struct {
	version uint64
	madeAt  time.Time

	members     []Member         // by name
	dispatchers []Member         // by name; the unhealthy ones where there are no others
	owners      []int            // shard → index in dispatchers; nil without dispatchers
	owned       [][]schema.Shard // index in dispatchers → its shards, ascending
	shards      int
	gone        map[string]Status // Left or Dead; never a name in members
}

// Assign shares the shards 0 to shards−1 among those of members that dispatch, or, where none does,
// among the unhealthy ones. The result depends neither on the order of members nor on anything but
// their names and shards. It refuses bad and repeated names and more than [schema.MaxShards]
// shards; no dispatcher, no shard, and more dispatchers than shards are all in order.
func Assign(members []Member, shards int) (*Snapshot, error) {
	return build(nil, members, nil, shards)
}

// build makes the snapshot that follows prev (which may be nil), without version and time.
func build(prev *Snapshot, members []Member, gone map[string]Status, shards int) (*Snapshot, error) {
	if err := checkShards(shards); err != nil {
		return nil, err
	}
	s := &Snapshot{members: make([]Member, 0, len(members)), shards: shards, gone: maps.Clone(gone)}
	var faults []error
	for _, m := range members {
		if err := checkName(m.Name); err != nil {
			faults = append(faults, err)
		}
		s.members = append(s.members, m.normal())
	}
	slices.SortFunc(s.members, byName)
	for i, m := range s.members {
		if i > 0 && s.members[i-1].Name == m.Name {
			faults = append(faults, fmt.Errorf("two members are called %q", m.Name))
		}
		if m.Has(RoleDispatcher) {
			s.dispatchers = append(s.dispatchers, m)
		}
		delete(s.gone, m.Name)
	}
	if len(s.dispatchers) == 0 {
		// None is healthy: what they need is away for all, and they do what they can.
		for _, m := range s.members {
			if m.Unhealthy {
				s.dispatchers = append(s.dispatchers, m)
			}
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("assign shards: %w", errors.Join(faults...))
	}
	if prev != nil && prev.shards == shards && slices.EqualFunc(prev.dispatchers, s.dispatchers, sameName) {
		// executors come and go more often than dispatchers
		s.owners, s.owned = prev.owners, prev.owned
		return s, nil
	}
	s.owners, s.owned = assignOwners(s.dispatchers, shards)
	return s, nil
}

func checkShards(n int) error {
	if n < 0 || n > schema.MaxShards {
		return fmt.Errorf("%d shards: want 0 to %d", n, schema.MaxShards)
	}
	return nil
}

// point and hasher adapt a member and our hash to the circle.
type point string

func (p point) String() string { return string(p) }

type hasher struct{}

func (hasher) Sum64(b []byte) uint64 { return xxhash.Sum64(b) }

// assignOwners puts the dispatchers, sorted by name, on the circle, and gives each partition (=
// shard) to the first of them that follows it there and has room. There is always room: n members
// may take ⌈Load×shards÷n⌉ ≥ shards÷n each, also where there are more members than shards. So the
// library's panic on a full circle cannot happen while Load ≥ 1.
func assignOwners(dispatchers []Member, shards int) (owners []int, owned [][]schema.Shard) {
	if len(dispatchers) == 0 || shards == 0 {
		return nil, nil // the library takes a count of 0 for its default
	}
	points := make([]consistent.Member, len(dispatchers))
	index := make(map[string]int, len(dispatchers))
	for i, d := range dispatchers {
		points[i], index[d.Name] = point(d.Name), i
	}
	circle := consistent.New(points, consistent.Config{
		Hasher: hasher{}, PartitionCount: shards, ReplicationFactor: pointsPerMember, Load: Load,
	})
	owners = make([]int, shards)
	owned = make([][]schema.Shard, len(dispatchers))
	for shard := range shards {
		i := index[circle.GetPartitionOwner(shard).String()]
		owners[shard] = i
		owned[i] = append(owned[i], schema.Shard(shard)) //nolint:gosec // at most schema.MaxShards
	}
	return owners, owned
}

func byName(a, b Member) int { return cmp.Compare(a.Name, b.Name) }

func sameName(a, b Member) bool { return a.Name == b.Name }

// Version grows by at least one from each published snapshot to the next, within one process. It is
// 0 for what was never published.
func (s *Snapshot) Version() uint64 { return s.version }

// MadeAt is when the snapshot was published; zero for what was never published.
func (s *Snapshot) MadeAt() time.Time { return s.madeAt }

// Shards is how many shards are shared out; they are numbered from 0.
func (s *Snapshot) Shards() int { return s.shards }

// Owner returns the dispatcher that owns a shard; false if there is no such shard or no dispatcher.
func (s *Snapshot) Owner(shard schema.Shard) (Member, bool) {
	if int(shard) >= len(s.owners) {
		return Member{}, false
	}
	return s.dispatchers[s.owners[shard]], true
}

// Owned returns the shards of the member called name, ascending; none if it is not a live
// dispatcher.
func (s *Snapshot) Owned(name string) []schema.Shard {
	i, ok := slices.BinarySearchFunc(s.dispatchers, name, func(m Member, n string) int { return cmp.Compare(m.Name, n) })
	if !ok || i >= len(s.owned) {
		return nil
	}
	return slices.Clone(s.owned[i])
}

// Members returns the live members, by name.
func (s *Snapshot) Members() []Member { return slices.Clone(s.members) }

// Dispatchers returns the live members that dispatch, by name: the unhealthy ones where there are
// no others.
func (s *Snapshot) Dispatchers() []Member { return slices.Clone(s.dispatchers) }

// Member returns the live member called name.
func (s *Snapshot) Member(name string) (Member, bool) {
	i, ok := slices.BinarySearchFunc(s.members, name, func(m Member, n string) int { return cmp.Compare(m.Name, n) })
	if !ok {
		return Member{}, false
	}
	return s.members[i], true
}

// Status returns the status of the member called name, of its last life. The last 256 that left or
// died are remembered.
func (s *Snapshot) Status(name string) Status {
	if _, ok := s.Member(name); ok {
		return Live
	}
	return s.gone[name]
}

// equal reports whether both have the same content, whenever they were made.
func (s *Snapshot) equal(o *Snapshot) bool {
	return s.shards == o.shards && slices.EqualFunc(s.members, o.members, Member.equal) && maps.Equal(s.gone, o.gone)
}
