package ring

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"carillon.dev/carillon/schema"
)

func dispatchers(names ...string) []Member {
	members := make([]Member, 0, len(names))
	for _, n := range names {
		members = append(members, Member{Name: n, Incarnation: 1, Roles: []string{RoleDispatcher}})
	}
	return members
}

func mustAssign(t rapid.TB, members []Member, shards int) *Snapshot {
	t.Helper()
	s, err := Assign(members, shards)
	if err != nil {
		t.Fatalf("Assign(%d members, %d shards) = %v, want no error", len(members), shards, err)
	}
	return s
}

// names draws from..to distinct names of the kinds that are used: ordinals, host names, one letter.
func names(t *rapid.T, from, to int) []string {
	return rapid.SliceOfNDistinct(rapid.StringMatching(`(carillon-[0-9]{1,3}|[a-z]{1,12}(-[0-9a-f]{6})?)`), from, to, rapid.ID[string]).Draw(t, "names")
}

func drawShards(t *rapid.T) int {
	return rapid.SampledFrom([]int{1, 2, 3, 7, 16, 64, 100, 256, 1024}).Draw(t, "shards")
}

// most is what a dispatcher may own: invariant 3.
func most(shards, dispatchers int) int {
	return int(math.Ceil(float64(shards) / float64(dispatchers) * Load))
}

func TestEqualViewsGiveEqualRings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, shards := dispatchers(names(t, 1, 12)...), drawShards(t)
		for i := range members {
			if i > 0 && rapid.Bool().Draw(t, "executor only") {
				members[i].Roles = []string{RoleExecutor}
			}
		}
		other := rapid.Permutation(members).Draw(t, "order")
		// What owners must not depend on: another life, address, role beside dispatching; members
		// that do not dispatch.
		for i := range other {
			other[i].Incarnation, other[i].Addr = 99, "192.0.2.1:1"
			other[i].Roles = append([]string{RoleBucketer}, other[i].Roles...)
		}
		other = slices.DeleteFunc(other, func(m Member) bool { return !m.Has(RoleDispatcher) })

		a, b := mustAssign(t, members, shards), mustAssign(t, other, shards)
		for shard := range schema.Shard(shards) {
			x, _ := a.Owner(shard)
			y, _ := b.Owner(shard)
			if x.Name != y.Name {
				t.Fatalf("Owner(%d) = %q in one order, %q in another; want the same", shard, x.Name, y.Name)
			}
		}
	})
}

func TestEveryShardHasOneOwnerWithinTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// often more dispatchers than shards
		members, shards := dispatchers(names(t, 1, 40)...), drawShards(t)
		s := mustAssign(t, members, shards)
		seen := map[schema.Shard]string{}
		for _, m := range members {
			owned := s.Owned(m.Name)
			if len(owned) > most(shards, len(members)) {
				t.Fatalf("%s of %d owns %d of %d shards, want at most %d", m.Name, len(members), len(owned), shards, most(shards, len(members)))
			}
			if !slices.IsSorted(owned) {
				t.Fatalf("Owned(%q) = %v, want ascending", m.Name, owned)
			}
			for _, shard := range owned {
				if first, twice := seen[shard]; twice {
					t.Fatalf("shard %d is owned by %s and %s", shard, first, m.Name)
				}
				seen[shard] = m.Name
				if owner, ok := s.Owner(shard); !ok || owner.Name != m.Name {
					t.Fatalf("Owner(%d) = %q, %t; want %q as Owned says", shard, owner.Name, ok, m.Name)
				}
			}
		}
		if len(seen) != shards {
			t.Fatalf("%d of %d shards have an owner", len(seen), shards)
		}
		if owner, ok := s.Owner(schema.Shard(shards)); ok {
			t.Fatalf("Owner(%d) of %d shards = %q, want none", shards, shards, owner.Name)
		}
	})
}

// When one dispatcher joins, what moves goes to it, at most its bound, and beside that only what
// the bound pushes between the others: the most seen is a quarter of 16 shards, a sixth of 64, a
// twentieth of 256. A leave is the same backwards. Below four shards a dispatcher nothing is
// claimed: there the bound itself jumps.
func TestFewShardsMoveWhenOneJoinsOrLeaves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, shards := dispatchers(names(t, 2, 20)...), drawShards(t)
		if shards < 4*len(all) {
			t.Skip("few shards")
		}
		before, after := mustAssign(t, all[1:], shards), mustAssign(t, all, shards)
		joiner := all[0].Name
		if got, bound := len(after.Owned(joiner)), most(shards, len(all)); got > bound {
			t.Fatalf("%s joins %d others and takes %d of %d shards, want at most %d", joiner, len(all)-1, got, shards, bound)
		}
		between := 0
		for shard := range schema.Shard(shards) {
			x, _ := before.Owner(shard)
			y, _ := after.Owner(shard)
			if x.Name != y.Name && y.Name != joiner {
				between++
			}
		}
		if allowed := shards/4 + 2; between > allowed {
			t.Fatalf("%s joins %d others: %d of %d shards move between these, want at most %d", joiner, len(all)-1, between, shards, allowed)
		}
	})
}

// A ring of mixed releases must agree on the owners, so they are pinned: who has to change them
// changes them for a cluster that runs, and every shard may have two owners until the last node is
// replaced.
func TestOwnersArePinned(t *testing.T) {
	s := mustAssign(t, dispatchers("a", "b", "c"), 64)
	var got strings.Builder
	for shard := range schema.Shard(64) {
		owner, _ := s.Owner(shard)
		got.WriteString(owner.Name)
	}
	const want = "caabccabbbacbabccccaacaccccbbacccbbacbcbacacbccacacbbbabbaaaabba"
	if got.String() != want {
		t.Errorf("owners of a, b, c:\n got %s\nwant %s", &got, want)
	}
}

func TestAssignRefuses(t *testing.T) {
	tests := []struct {
		name    string
		members []Member
		shards  int
		want    string
	}{
		{"a name twice", dispatchers("a", "b", "a"), 4, `two members are called "a"`},
		{"no name", dispatchers(""), 4, `name ""`},
		{"a name with a slash", dispatchers("a/b"), 4, `name "a/b"`},
		{"negative shards", nil, -1, "-1 shards"},
		{"more shards than ids can hold", nil, schema.MaxShards + 1, "4097 shards"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Assign(tt.members, tt.shards); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Assign = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestNobodyOwnsWhereNobodyDispatches(t *testing.T) {
	executor := Member{Name: "x", Roles: []string{RoleExecutor}}
	tests := []struct {
		name    string
		members []Member
		shards  int
	}{
		{"no members", nil, 8},
		{"only an executor", []Member{executor}, 8},
		{"no shards", dispatchers("a"), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustAssign(t, tt.members, tt.shards)
			if m, ok := s.Owner(0); ok {
				t.Errorf("Owner(0) = %q, want none", m.Name)
			}
			for _, name := range []string{"a", "x", "nobody"} {
				if got := s.Owned(name); len(got) != 0 {
					t.Errorf("Owned(%q) = %v, want none", name, got)
				}
			}
		})
	}
}

func TestSnapshotLookups(t *testing.T) {
	in := []Member{
		{Name: "x", Incarnation: 3, Roles: []string{RoleExecutor}},
		{Name: "b", Incarnation: 2, Roles: []string{RoleExecutor, RoleDispatcher, RoleExecutor}},
		{Name: "a", Incarnation: 1, Roles: []string{RoleDispatcher}},
	}
	s := mustAssign(t, in, 8)
	if got, want := fmt.Sprint(nameList(s.Members())), "[a b x]"; got != want {
		t.Errorf("Members() = %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(nameList(s.Dispatchers())), "[a b]"; got != want {
		t.Errorf("Dispatchers() = %s, want %s", got, want)
	}
	if m, ok := s.Member("b"); !ok || m.Incarnation != 2 || !slices.Equal(m.Roles, []string{RoleDispatcher, RoleExecutor}) {
		t.Errorf("Member(b) = %+v, %t; want its roles sorted, each once", m, ok)
	}
	if m, ok := s.Member("c"); ok {
		t.Errorf("Member(c) = %+v, want none", m)
	}
	if got := s.Shards(); got != 8 {
		t.Errorf("Shards() = %d, want 8", got)
	}
	// What was returned is the caller's, what was passed in stays the caller's.
	s.Members()[0].Name, s.Dispatchers()[0].Name, in[0].Name = "spoilt", "spoilt", "spoilt"
	if owned := s.Owned("a"); len(owned) > 0 {
		owned[0] = 4095
	}
	if again := mustAssign(t, dispatchers("a", "b"), 8); !slices.Equal(s.Owned("a"), again.Owned("a")) {
		t.Errorf("Owned(a) = %v after a caller wrote to it, want %v", s.Owned("a"), again.Owned("a"))
	}
	if got, want := fmt.Sprint(nameList(s.Members())), "[a b x]"; got != want {
		t.Errorf("Members() = %s after a caller wrote to them, want %s", got, want)
	}
}

func nameList(members []Member) []string {
	list := make([]string, 0, len(members))
	for _, m := range members {
		list = append(list, m.Name)
	}
	return list
}

func TestOwnerAllocatesNothing(t *testing.T) {
	s := mustAssign(t, dispatchers("a", "b", "c"), 64)
	if n := testing.AllocsPerRun(100, func() { _, _ = s.Owner(17) }); n != 0 {
		t.Errorf("Owner allocates %v times, want 0", n)
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, size := range []struct{ members, shards int }{{3, 64}, {20, 256}, {100, 4096}} {
		b.Run(fmt.Sprintf("members=%d/shards=%d", size.members, size.shards), func(b *testing.B) {
			list := make([]string, size.members)
			for i := range list {
				list[i] = fmt.Sprintf("carillon-%d", i)
			}
			members := dispatchers(list...)
			for b.Loop() {
				if _, err := Assign(members, size.shards); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
