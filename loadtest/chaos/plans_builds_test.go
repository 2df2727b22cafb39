package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestOlderCommit(t *testing.T) {
	top := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=n", "-c", "user.email=e"}, args...)...)
		cmd.Dir = top
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	commit := func(file string) string {
		t.Helper()
		path := filepath.Join(top, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
		git("commit", "-q", "-m", file)
		return git("rev-parse", "HEAD")[:40]
	}
	older := func(want string) {
		t.Helper()
		if got, err := olderCommit(t.Context(), top); err != nil || got != want {
			t.Errorf("olderCommit = %q, %v, want %q", got, err, want)
		}
	}
	git("init", "-q")
	commit("README")
	if got, err := olderCommit(t.Context(), top); err == nil {
		t.Errorf("olderCommit without migrations = %q, want an error", got)
	}
	commit(migrationsDir + "/0001_initial.cql")
	second := commit(migrationsDir + "/0002_more.cql")
	commit("a")
	older(second) // it changes what was there: nothing older runs beside it
	third := commit(migrationsDir + "/0003_third.additive.cql")
	commit("b")
	older(third + "^")
}
