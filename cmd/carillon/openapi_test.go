package main

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// The document that is printed is the one that a node serves.
func TestOpenAPIIsThatOfANode(t *testing.T) {
	was := version
	t.Cleanup(func() { version = was })
	version = "test" // what startNode says
	resp, err := http.Get(startNode(t) + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	served, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if printed := succeed(t, "openapi").stdout; !bytes.Equal([]byte(printed), served) {
		t.Errorf("carillon openapi prints %d bytes, a node serves %d others", len(printed), len(served))
	}
	if r := carillon(t.Context(), "", "openapi", "x"); r.code != 2 {
		t.Errorf("carillon openapi x exits %d, want 2", r.code)
	}
}
