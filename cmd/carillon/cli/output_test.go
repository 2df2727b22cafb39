package cli

import (
	"strings"
	"testing"
)

func TestClean(t *testing.T) {
	for name, row := range map[string]struct{ in, want string }{
		"plain":     {"grün ✓ 日本", "grün ✓ 日本"},
		"escape":    {"a\x1b]0;x\ab", `a\u001b]0;x\u0007b`},
		"line feed": {"a\nb", `a\u000ab`},
		"turned":    {"a\u202eb", `a\u202eb`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Clean(row.in); got != row.want {
				t.Errorf("clean(%q) = %q, want %q", row.in, got, row.want)
			}
		})
	}
}

// An optional column is on the pages that have something in it, and the head is written again where
// that changes.
func TestColumnsThatMayBeLeftOut(t *testing.T) {
	var out strings.Builder
	table := pagedTable{head: []string{"ID", "WAITS", "END"}, optional: []string{"WAITS"}}
	for _, page := range [][][]string{
		{{"1", "", "x"}, {"2", "", ""}}, {{"3", "", "x"}}, {{"4", "", "x"}, {"5", "rate", "x"}}, {{"6", "quota", "x"}}, {{"7", "", "x"}}, nil,
	} {
		table.rows = page
		if err := table.write(&out); err != nil {
			t.Fatal(err)
		}
	}
	want := "ID  END\n1   x\n2   -\n3  x\nID  WAITS  END\n4   -      x\n5   rate   x\n6  quota  x\nID  END\n7   x\n"
	if got := out.String(); got != want {
		t.Errorf("the pages are\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	none := pagedTable{head: []string{"ID", "WAITS"}, optional: []string{"WAITS"}}
	if err := none.write(&out); err != nil || out.String() != "ID\n" {
		t.Errorf("a table without rows is %q, %v", out.String(), err)
	}
}
