package admission

import (
	"testing"
)

func TestHostOf(t *testing.T) {
	for url, want := range map[string]string{
		"http://a.test/x?y#z": "http://a.test", "https://A.test:8443": "https://a.test:8443", "http://a.test?u=http://b.test": "http://a.test", "http://[::1]:80/": "http://[::1]:80", "x": "x", "": "",
	} {
		if got := hostOf(url); got != want {
			t.Errorf("hostOf(%q): got %q, want %q", url, got, want)
		}
	}
}
