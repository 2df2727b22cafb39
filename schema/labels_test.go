package schema_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"carillon.dev/carillon/schema"
)

func TestLabelsMeetWhatIsRequired(t *testing.T) {
	for _, c := range []struct {
		has, required schema.Labels
		want          bool
	}{
		{nil, nil, true},
		{schema.Labels{"gpu": "true"}, nil, true},
		{nil, schema.Labels{"gpu": "true"}, false},
		{schema.Labels{"gpu": "true", "zone": "a"}, schema.Labels{"gpu": "true"}, true},
		{schema.Labels{"gpu": "true", "zone": "a"}, schema.Labels{"zone": "a", "gpu": "true"}, true},
		{schema.Labels{"gpu": "true"}, schema.Labels{"gpu": "true", "zone": "a"}, false},
		{schema.Labels{"zone": "b"}, schema.Labels{"zone": "a"}, false},
		{schema.Labels{"zone": ""}, schema.Labels{"gpu": ""}, false},
	} {
		if got := c.has.Meet(c.required); got != c.want {
			t.Errorf("%q meet %q = %v, want %v", c.has, c.required, got, c.want)
		}
	}
	has, required := schema.Labels{"gpu": "true", "zone": "a"}, schema.Labels{"zone": "a"}
	if n := testing.AllocsPerRun(100, func() { has.Meet(required) }); n > 0 {
		t.Errorf("Meet allocates %v times, want 0", n)
	}
}

func TestLabelsRoundTrip(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"gpu=true", "gpu=true"},
		{"zone=a, gpu=true", "gpu=true,zone=a"},
		{"os=linux-6.1,A_b=C", "A_b=C,os=linux-6.1"},
	} {
		labels, err := schema.ParseLabels(c.text)
		if err != nil || labels.String() != c.want {
			t.Errorf("ParseLabels(%q) = %q, %v, want %q", c.text, labels, err, c.want)
		}
		again, err := schema.ParseLabels(labels.String())
		if err != nil || !maps.Equal(again, labels) {
			t.Errorf("ParseLabels(%q) = %q, %v, want the same labels", labels, again, err)
		}
	}
	for _, bad := range []string{"gpu", "=true", "gpu=", "gpu=a b", "gpu=true,gpu=false", ",", "a=" + strings.Repeat("b", 33), "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1"} {
		if labels, err := schema.ParseLabels(bad); !errors.Is(err, schema.ErrLabels) {
			t.Errorf("ParseLabels(%q) = %q, %v, want ErrLabels", bad, labels, err)
		}
	}
}
