package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
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

// Load reads the configuration: defaults, then the file (if path is not empty), then the
// environment, then set, the values of flags by key. It reports all faults together, with the
// sources read. An unknown key is a fault in a file, and ignored in the environment. A key without
// a value has its default.
func Load(path string, environ []string, set map[string]any) (Config, error) {
	c, _, err := Source{File: path, Environ: environ, Flags: set}.Load()
	return c, err
}

// A Source is where a configuration is read from, once or again.
type Source struct {
	File    string // empty: none
	Environ []string
	Flags   map[string]any // by key
}

// Load is Load of the source. It also returns the files that were read, or were to be: the
// configuration's own, and those that hold a value each.
func (s Source) Load() (c Config, files []string, err error) {
	c = Default()
	if host, err := os.Hostname(); err == nil {
		c.Node.Name = host
	}
	l := loader{}
	c, err = l.load(c, s.File, s.Environ, s.Flags)
	return c, l.files, err
}

// load reads the configuration over the defaults c.
func (l *loader) load(c Config, path string, environ []string, set map[string]any) (Config, error) {
	l.k, l.defaults = koanf.New("."), make(map[string]any)
	if err := l.k.Load(structs.Provider(c, "koanf"), nil); err != nil {
		return Config{}, fmt.Errorf("defaults: %w", err)
	}
	for _, key := range l.k.Keys() {
		l.defaults[key] = l.k.Get(key)
	}
	var read sources
	if path != "" {
		l.files = append(l.files, path)
		f := koanf.New(".")
		if err := f.Load(file.Provider(path), yaml.Parser()); err != nil {
			return Config{}, fmt.Errorf("read %s: %w", path, err)
		}
		read.file = path
		l.file(path, f)
	}
	e, err := fromEnvironment(environ, l.defaults)
	if err != nil {
		return Config{}, err
	}
	for _, key := range e.Keys() {
		name := variable(key)
		read.variables = append(read.variables, name)
		if of := valueKey(key); of != "" && !isEmpty(e.Get(of)) && !isEmpty(e.Get(key)) {
			l.faults = append(l.faults, fmt.Errorf("%s and %s in the environment: only one may be set", name, variable(valueKey(key))))
			continue
		}
		l.set(name+" in the environment", key, e.Get(key))
	}
	l.fixed = nil // a command offers only flags that can be set
	for _, key := range slices.Sorted(maps.Keys(set)) {
		read.flags = append(read.flags, key)
		l.set("flag", key, set[key])
	}
	var loaded Config
	if err := l.k.Unmarshal("", &loaded); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	faults := errors.Join(errors.Join(l.faults...), loaded.Validate())
	if faults == nil {
		return loaded, nil
	}
	return loaded, fmt.Errorf("%w\n%s", faults, read)
}

// loader puts the values of several sources over each other. A value that it cannot take becomes a
// fault and changes nothing.
type loader struct {
	k        *koanf.Koanf
	defaults map[string]any // by key; a value has the type of its key
	// fixed, if not nil, says why a key cannot be set, "" if it can.
	fixed  func(key string) string
	files  []string // read, or to be read
	faults []error
}

// set sets the value of a key, or of the key whose value lies in the file that this one names.
func (l *loader) set(source, key string, value any) {
	if of := valueKey(key); of != "" {
		l.setFromFile(source, key, of, value)
		return
	}
	def, ok := l.defaults[key]
	if !ok {
		l.faults = append(l.faults, fmt.Errorf("%s: %s: there is no such key", source, key))
		return
	}
	typed, err := convert(value, def)
	if err == nil && typed != nil && l.fixed != nil && !reflect.DeepEqual(typed, def) {
		if why := l.fixed(key); why != "" {
			err = errors.New(why)
		}
	}
	if err == nil && typed != nil {
		err = l.k.Set(key, typed)
	}
	if err != nil {
		l.faults = append(l.faults, fmt.Errorf("%s: %s: %w", source, key, err))
	}
}

// file sets the values of a file.
func (l *loader) file(path string, f *koanf.Koanf) {
	for _, key := range f.Keys() {
		value := f.Get(key)
		if of := valueKey(key); of != "" && f.Get(of) != nil && value != nil {
			l.faults = append(l.faults, fmt.Errorf("%s: %s and %s: only one may be set", path, of, key))
			continue
		}
		if !l.group(key) {
			l.set(path, key, value)
		} else if m, ok := value.(map[string]any); value != nil && (!ok || len(m) > 0) { // else a heading with nothing below
			l.faults = append(l.faults, fmt.Errorf("%s: %s: is %s, want the keys below it", path, key, kindOf(value)))
		}
	}
}

// group reports whether there are keys below key.
func (l *loader) group(key string) bool {
	for known := range l.defaults {
		if strings.HasPrefix(known, key+".") {
			return true
		}
	}
	return false
}

// variable is the name of a key in the environment.
func variable(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// fromEnvironment returns the values of the environment that are known keys.
func fromEnvironment(environ []string, known map[string]any) (*koanf.Koanf, error) {
	keys := make(map[string]string, len(known)+len(inFiles))
	for key := range known {
		keys[variable(key)] = key
	}
	for _, key := range inFiles {
		keys[variable(key+fileSuffix)] = key + fileSuffix
	}
	e := koanf.New(".")
	err := e.Load(env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return environ },
		TransformFunc: func(name, value string) (string, any) {
			key := keys[name] // "" for other names, which is ignored
			if _, list := known[key].([]string); list {
				return key, splitList(value)
			}
			return key, value
		},
	}), nil)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	return e, nil
}

func splitList(value string) []string {
	if value == "" {
		return []string{}
	}
	return strings.Split(value, ",")
}

// sources names what a configuration was read from.
type sources struct {
	file      string
	variables []string
	flags     []string // their keys
}

// String describes the sources in one line, without values.
func (s sources) String() string {
	or := func(list []string, none string) string {
		if len(list) == 0 {
			return none
		}
		return strings.Join(list, ", ")
	}
	from := "no file (--config names one)"
	if s.file != "" {
		from = s.file
	}
	return fmt.Sprintf("read were: %s; of the environment: %s; flags for: %s", from,
		or(s.variables, "no "+envPrefix+"… that is a key"), or(s.flags, "no key"))
}
