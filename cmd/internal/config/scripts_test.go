package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// list writes a file of scripts with that mode.
func list(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scripts.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask says
		t.Fatal(err)
	}
	return path
}

func TestLoadScriptsTakesTheExample(t *testing.T) {
	got, err := LoadScripts("../../../deploy/scripts.yaml")
	if os.Geteuid() != 0 {
		if err == nil || err.Error() != "script report: user: only a node that runs as root can start processes of others" {
			t.Errorf("LoadScripts(example), not as root: got %v, want that one fault", err)
		}
	} else if err != nil {
		t.Errorf("LoadScripts(example): %v", err)
	}
	if c := got["report"]; c.User != "nobody" || c.Grace != 5*time.Second || c.MaxRunning != 4 || len(c.AllowArgs) != 2 || c.Env["LANG"] != "C.UTF-8" {
		t.Errorf("LoadScripts(example): got %+v", c)
	}
}

func TestLoadScriptsNamesEveryFault(t *testing.T) {
	loose := list(t, "#!/bin/sh\n", 0o777)
	sudo, group := list(t, "", 0o755|os.ModeSetuid), list(t, "", 0o775|os.ModeSetgid)
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want []string
	}{
		"nothing":               {"", 0o600, []string{"names no command"}},
		"not YAML":              {"{", 0o600, []string{"yaml"}},
		"an unknown key":        {"commands: {a: {path: /bin/true, shell: true}}", 0o600, []string{"shell"}},
		"an unknown key, above": {"command: {}", 0o600, []string{"command"}},
		"writable by others":    {"commands: {a: {path: /no/such}}", 0o622, []string{"scripts.yaml can be written by others"}},
		"a command that is":     {"commands: {a: {path: " + loose + "}, b: {path: bin}}", 0o600, []string{"script a: " + loose + " can be written by others", `script b: path "bin"`}},
		"a command is no file":  {"commands: {a: {path: /tmp}}", 0o600, []string{"script a: /tmp is not a file"}},
		"commands that become others'": {"commands: {a: {path: " + sudo + "}, b: {path: " + group + "}}", 0o600, []string{
			"script a: " + sudo + " is set-uid or set-gid", "script b: " + group + " is set-uid or set-gid", "script b: " + group + " can be written by others",
		}},
		"a number for a text": {"commands: {a: {path: [1]}}", 0o600, []string{"line 1"}},
	} {
		_, err := LoadScripts(list(t, c.text, c.mode))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: LoadScripts: got %v, want it to name %q", name, err, want)
			}
		}
	}
	if _, err := LoadScripts(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("LoadScripts of no file: got nil, want an error")
	}
	c := Default()
	c.Node.Name, c.Executor.Scripts = "n", loose
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "executor.scripts: ") {
		t.Errorf("Validate with a faulty list: got %v, want it to name executor.scripts", err)
	}
}
