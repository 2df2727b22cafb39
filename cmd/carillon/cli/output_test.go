package cli

import "testing"

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
