package schema

import (
	"slices"
	"testing"
	"time"
)

func TestRolesCoverTheWeaker(t *testing.T) {
	for i, r := range Roles {
		for j, need := range Roles {
			if got, want := r.Covers(need), i >= j; got != want {
				t.Errorf("%s.Covers(%s) = %v, want %v", r, need, got, want)
			}
		}
		if r.Covers("") || Role("").Covers(r) || Role("root").Covers(r) || r.Covers("root") {
			t.Errorf("a role that is none covers %s, or is covered by it", r)
		}
	}
}

func TestAuditIDsAreInOrder(t *testing.T) {
	begin := time.Date(2030, 1, 1, 0, 0, 0, 999_998_000, time.UTC)
	var ids []AuditID
	for us := range 4 { // over the end of a ms
		for _, number := range []uint16{0, 1, 255, 256, 16383} {
			ids = append(ids, MakeAuditID(begin.Add(time.Duration(us)*time.Microsecond), number, RandomHash()))
		}
	}
	if !slices.IsSortedFunc(ids, AuditID.Compare) {
		t.Errorf("ids are not in the order of instant and number: %v", ids)
	}
	if got, want := ids[0].Time(), begin.Truncate(time.Millisecond); !got.Equal(want) {
		t.Errorf("Time of an id = %v, want %v", got, want)
	}
	var back AuditID
	if text, err := ids[0].MarshalText(); err != nil || back.UnmarshalText(text) != nil || back != ids[0] {
		t.Errorf("UnmarshalText(%s) = %s, want it back", text, back)
	}
	if back.UnmarshalText([]byte("x")) == nil {
		t.Error("UnmarshalText of nonsense = nil, want an error")
	}
}

func TestKeyHashIsReadBack(t *testing.T) {
	h := HashKey("secret")
	var back KeyHash
	if text, err := h.MarshalText(); err != nil || back.UnmarshalText(text) != nil || back != h {
		t.Errorf("UnmarshalText(%s) = %s, want it back", text, back)
	}
	for _, text := range []string{"", "00", h.String() + "00", "zz" + h.String()[2:]} {
		if back.UnmarshalText([]byte(text)) == nil {
			t.Errorf("UnmarshalText(%q) = nil, want an error", text)
		}
	}
}
