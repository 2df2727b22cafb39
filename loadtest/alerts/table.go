package alerts

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// A Table says which alerts a fault fires.
type Table struct {
	// Faults has a row for each scenario that breaks something, and one for calm.
	Faults []Row `yaml:"faults"`
	// Untried are alerts that no row states, with why.
	Untried map[string]string `yaml:"untried"`
}

// A Row is what one fault fires. Must and May are alerts by name, each with why.
type Row struct {
	Scenario string            `yaml:"scenario"`
	Fault    string            `yaml:"fault"`
	Must     map[string]string `yaml:"must"`
	May      map[string]string `yaml:"may"`
}

// ReadTable reads a table; a key that it does not know is an error.
func ReadTable(r io.Reader) (Table, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return Table{}, fmt.Errorf("read table of alerts: %w", err)
	}
	var t Table
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&t); err != nil {
		return Table{}, fmt.Errorf("read table of alerts: %w", err)
	}
	if len(t.Faults) == 0 {
		return Table{}, errors.New("read table of alerts: it has no faults")
	}
	return t, nil
}

// Of returns the row of a scenario.
func (t Table) Of(scenario string) (Row, error) {
	for _, r := range t.Faults {
		if r.Scenario == scenario {
			return r, nil
		}
	}
	return Row{}, fmt.Errorf("the table of alerts has no row for %q", scenario)
}
