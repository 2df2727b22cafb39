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

// LoadScripts reads the operator's allow list of commands and checks it, that neither the list nor
// a command can be written by others than its owner, and that no command is set-uid or set-gid.
// deploy/scripts.yaml is an example that explains every key. The error names every fault.
func LoadScripts(path string) (map[string]target.ScriptCommand, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the list of scripts: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	faults := []error{foreign(path)}
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
		for _, check := range []func(string) error{foreign, changing} {
			if err := check(list.Commands[name].Path); err != nil {
				faults = append(faults, fmt.Errorf("script %s: %w", name, err))
			}
		}
	}
	_, err = target.NewScript(target.ScriptConfig{Commands: list.Commands, Root: os.Geteuid() == 0})
	return list.Commands, errors.Join(append(faults, err)...)
}

// foreign reports that others than its owner may write a file: whoever can, can have the node run
// what they like. A command that is not there (yet) is found to be missing when it is run.
func foreign(path string) error {
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

// changing reports that a command is set-uid or set-gid. The node might not be allowed to end what
// has become another user's, the kernel would not end it with the node, and the list says whose a
// command is. What cannot be looked at is foreign's matter.
func changing(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
		return nil //nolint:nilerr // see above
	}
	return fmt.Errorf("%s is set-uid or set-gid: it could not be ended reliably, and who runs a command is for user and group to say", path)
}
