package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// suspicious is how keys are called that may hold a secret. Each that is one is in secretKeys, or
// here with the reason why not.
var suspicious = regexp.MustCompile(`key|secret|password|token|credential|user|passphrase|cert`)

var harmless = map[string]string{
	"cassandra.tls.cert": "names a file", "cassandra.tls.key": "names a file", "nats.tls.cert": "names a file", "nats.tls.key": "names a file",
	"api.tls.cert": "names a file", "api.tls.key": "names a file",
	"nats.credentials": "names a file", "cassandra.keyspace": "a name", "regions.keyspace": "a name",
}

func TestEverySuspiciousKeyIsHiddenOrHarmless(t *testing.T) {
	var all []string
	walk("", reflect.ValueOf(Default()), func(key string, v reflect.Value) {
		all = append(all, key)
		if suspicious.MatchString(key) && harmless[key] == "" && !slices.Contains(secretKeys, key) {
			t.Errorf("%s may hold a secret: name it in secretKeys, or say why it is harmless", key)
		}
		if strings.Contains(key, "url") && !slices.Contains(urlKeys, key) {
			t.Errorf("%s holds URLs: name it in urlKeys", key)
		}
	})
	for _, key := range slices.Concat(secretKeys, urlKeys) {
		if !slices.Contains(all, key) {
			t.Errorf("%s is no key", key)
		}
	}
	for _, key := range inFiles {
		if !slices.Contains(secretKeys, key) {
			t.Errorf("%s can lie in a file of its own, and is shown", key)
		}
	}
}

func TestRedacted(t *testing.T) {
	c := Default()
	c.Ring.Key, c.API.CursorKey = "plant-ring", "plant-cursor"
	c.Cassandra.Username, c.Cassandra.Password = "plant-u1", "plant-p1"
	c.NATS.User, c.NATS.Password, c.NATS.Token = "plant-u2", "plant-p2", "plant-t"
	c.Email.Username, c.Email.Password = "plant-u6", "plant-p6"
	c.Secrets.Keys = []string{"k1:plant-k1", "k2:plant-k2"}
	c.NATS.URLs = []string{"nats://plant-u3:plant%2Fp3@a:4222", "nats://plant-t2@b:4222"}
	c.Regions.API = []string{"eu=https://plant-u4:plant-p4@eu.example.com/x?key=plant-q"}
	c.API.Advertise = "http://plant-u5:plant-p5@10.0.0.1:8080"
	shown := fmt.Sprint(c.Redacted())
	if strings.Contains(shown, "plant") {
		t.Errorf("Redacted shows a secret: %s", shown)
	}
	for _, want := range []string{"nats://a:4222", "nats://b:4222", "eu=https://eu.example.com/x", "http://10.0.0.1:8080", "ring.key:" + Hidden, "cassandra.keyspace:carillon"} {
		if !strings.Contains(shown, want) {
			t.Errorf("Redacted = %s, want %s in it", shown, want)
		}
	}
	if c := Default().Redacted(); c["ring.key"] != "" || c["secrets.keys"] == Hidden {
		t.Errorf("Redacted of nothing hides keys that are not set: %v, %v", c["ring.key"], c["secrets.keys"])
	}
	values := c.SecretValues()
	for _, want := range []string{
		"plant-ring", "plant-cursor", "plant-u1", "plant-p1", "plant-u2", "plant-p2", "plant-t", "k1:plant-k1", "plant-k1", "plant-k2",
		"plant-u3", "plant/p3", "plant%2Fp3", "plant-t2", "plant-p4", "plant-q", "plant-p5",
	} {
		if !slices.Contains(values, want) {
			t.Errorf("SecretValues lacks %q", want)
		}
	}
}
