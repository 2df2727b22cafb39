package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"carillon.dev/carillon/executor/target"
)

// maxScripts bounds the file of scripts, bytes.
const maxScripts = 1 << 20

// LoadScripts reads and checks the operator's allow list of commands. Only its owner may write the
// list or a command, and no command may be set-uid or set-gid. deploy/scripts.yaml is an example
// that explains every key. The error names every fault.
func LoadScripts(path string) (map[string]target.ScriptCommand, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the list of scripts: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	faults := []error{writableByOthers(path)}
	text, err := io.ReadAll(io.LimitReader(f, maxScripts+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the list of scripts: %w", err)
	case len(text) > maxScripts:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxScripts)
	}
	var list struct {
		Commands map[string]target.ScriptCommand `yaml:"commands"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(list.Commands) == 0 {
		faults = append(faults, fmt.Errorf("%s: names no command", path))
	}
	for _, name := range slices.Sorted(maps.Keys(list.Commands)) {
		for _, check := range []func(string) error{writableByOthers, setID} {
			if err := check(list.Commands[name].Path); err != nil {
				faults = append(faults, fmt.Errorf("script %s: %w", name, err))
			}
		}
	}
	_, err = target.NewScript(target.ScriptConfig{Commands: list.Commands, Root: os.Geteuid() == 0})
	return list.Commands, errors.Join(append(faults, err)...)
}

// writableByOthers returns an error if users other than the owner may write a file: they could make
// the node run anything. A command that does not exist is no fault here; running it fails.
func writableByOthers(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist), path == "":
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others than its owner", path)
	}
	return nil
}

// setID returns an error if a command is set-uid or set-gid. The node may not kill a process of
// another user, the kernel would not kill it with the node, and the list already says which user
// runs a command. A file that cannot be read is a matter of writableByOthers.
func setID(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
		return nil //nolint:nilerr // see above
	}
	return fmt.Errorf("%s is set-uid or set-gid: it could not be ended reliably, and who runs a command is for user and group to say", path)
}
