package config

import (
	"reflect"
	"slices"
)

// Changes returns the keys whose values differ, in order.
func Changes(a, b Config) (keys []string) {
	changes("", reflect.ValueOf(a), reflect.ValueOf(b), &keys)
	slices.Sort(keys)
	return keys
}

func changes(prefix string, a, b reflect.Value, keys *[]string) {
	for i := range a.NumField() {
		key := prefix + a.Type().Field(i).Tag.Get("koanf")
		x, y := a.Field(i), b.Field(i)
		switch {
		case x.Kind() == reflect.Struct:
			changes(key+".", x, y, keys)
		case x.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0: // nil or empty
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			*keys = append(*keys, key)
		}
	}
}

// Contents returns the files that a node reads once besides its configuration, by the key that names
// each. What they hold belongs to the configuration. Those of nats.tls and nats.credentials are read
// at each connection.
func (c Config) Contents() map[string]string {
	files := map[string]string{
		"executor.scripts": c.Executor.Scripts, "email.ca": c.Email.CA,
		"api.tls.cert": c.API.TLS.Cert, "api.tls.key": c.API.TLS.Key, "api.tls.client_ca": c.API.TLS.ClientCA,
		"cassandra.tls.ca": c.Cassandra.TLS.CA, "cassandra.tls.cert": c.Cassandra.TLS.Cert, "cassandra.tls.key": c.Cassandra.TLS.Key,
	}
	for key, file := range files {
		if file == "" {
			delete(files, key)
		}
	}
	return files
}
