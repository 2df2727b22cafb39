package config

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/structs"
	"github.com/knadh/koanf/v2"
)

// envPrefix is before every key in the environment.
const envPrefix = "CARILLON_"

// Load reads the configuration: defaults, then the file (if path is not empty), then the environment, then set,
// which maps keys to values as flags give them. It reports every fault at once; keys that do not exist are faults in a
// file, and passed over in the environment.
func Load(path string, environ []string, set map[string]any) (Config, error) {
	k := koanf.New(".")
	c := Default()
	if host, err := os.Hostname(); err == nil {
		c.Node.Name = host
	}
	if err := k.Load(structs.Provider(c, "koanf"), nil); err != nil {
		return Config{}, fmt.Errorf("defaults: %w", err)
	}
	known := k.Keys()
	var faults []error
	if path != "" {
		f := koanf.New(".")
		if err := f.Load(file.Provider(path), yaml.Parser()); err != nil {
			return Config{}, fmt.Errorf("read %s: %w", path, err)
		}
		for _, key := range f.Keys() {
			if !slices.Contains(known, key) {
				faults = append(faults, fmt.Errorf("%s: there is no such key", key))
			}
		}
		if err := k.Merge(f); err != nil {
			return Config{}, fmt.Errorf("merge %s: %w", path, err)
		}
	}
	byEnv := make(map[string]string, len(known))
	for _, key := range known {
		byEnv[envPrefix+strings.ToUpper(strings.ReplaceAll(key, ".", "_"))] = key
	}
	fromEnv := env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			key := byEnv[name]
			if isList(key) {
				return key, strings.Split(value, ",")
			}
			return key, value
		},
	})
	if err := k.Load(fromEnv, nil); err != nil {
		return Config{}, fmt.Errorf("environment: %w", err)
	}
	for key, value := range set {
		if err := k.Set(key, value); err != nil {
			return Config{}, fmt.Errorf("flag for %s: %w", key, err)
		}
	}
	var loaded Config
	if err := k.Unmarshal("", &loaded); err != nil {
		faults = append(faults, err)
		return Config{}, errors.Join(faults...)
	}
	return loaded, errors.Join(errors.Join(faults...), loaded.Validate())
}

func isList(key string) bool {
	return slices.Contains([]string{"roles", "ring.seeds", "cassandra.hosts", "nats.urls", "executor.allow_cidrs"}, key)
}
