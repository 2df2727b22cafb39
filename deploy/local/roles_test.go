package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRoles(t *testing.T) {
	a, ab := []string{"a"}, []string{"a", "b"}
	for _, c := range []struct {
		name   string
		values []string
		nodes  int
		want   [][]string
		fault  bool
	}{
		{name: "nothing said", nodes: 2},
		{name: "for every node", values: []string{"a,b"}, nodes: 2, want: [][]string{ab, ab}},
		{name: "for one node", values: []string{"2=a"}, nodes: 3, want: [][]string{nil, a, nil}},
		{name: "one differs, said first", values: []string{"1=a", "a,b"}, nodes: 2, want: [][]string{a, ab}},
		{name: "one differs, said last", values: []string{"a,b", "1=a"}, nodes: 2, want: [][]string{a, ab}},
		{name: "node out of range", values: []string{"3=a"}, nodes: 2, fault: true},
		{name: "node zero", values: []string{"0=a"}, nodes: 2, fault: true},
		{name: "not a number", values: []string{"x=a"}, nodes: 2, fault: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseRoles(c.values, c.nodes)
			if (err != nil) != c.fault {
				t.Fatalf("parseRoles(%q, %d): error %v, want one: %t", c.values, c.nodes, err, c.fault)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("parseRoles(%q, %d) (-want +got):\n%s", c.values, c.nodes, diff)
			}
		})
	}
}
