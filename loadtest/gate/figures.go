package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
)

// Figure is the cost of an operation.
type Figure struct {
	Allocs int64 `json:"allocs"` // an operation
	// time of an operation / time of one turn of the calibration loop
	Ratio float64 `json:"ratio"`
}

// best returns the lower of each.
func (f Figure) best(g Figure) Figure {
	return Figure{Allocs: min(f.Allocs, g.Allocs), Ratio: min(f.Ratio, g.Ratio)}
}

// Figures are all figures that are compared.
type Figures struct {
	Go         string            `json:"go"` // the version that they were measured with
	Benchmarks map[string]Figure `json:"benchmarks"`
	Statements map[string]int    `json:"statements"`
}

// Load reads figures from a file.
func Load(path string) (Figures, error) {
	var f Figures
	text, err := os.ReadFile(path) // #nosec G304 -- the file that the caller names
	if err != nil {
		return f, fmt.Errorf("read the committed figures: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("read the committed figures in %s: %w", path, err)
	}
	return f, nil
}

// Save writes figures to a file.
func (f Figures) Save(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}

// clone returns a deep copy.
func (f Figures) clone() Figures {
	f.Benchmarks, f.Statements = maps.Clone(f.Benchmarks), maps.Clone(f.Statements)
	return f
}
