package main

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"carillon.dev/carillon/cmd/carillon/clitest"
)

// The document that is printed is the one that a node serves.
func TestOpenAPIIsThatOfANode(t *testing.T) {
	was := version
	t.Cleanup(func() { version = was })
	version = "test" // what startNode says
	resp, err := http.Get(clitest.StartNode(t) + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	served, err := io.ReadAll(resp.Body)
	if cerr := resp.Body.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	if printed := clitest.Succeed(t, "openapi").Stdout; !bytes.Equal([]byte(printed), served) {
		t.Errorf("carillon openapi prints %d bytes, a node serves %d others", len(printed), len(served))
	}
	if r := clitest.Run(t.Context(), "", "openapi", "x"); r.Code != 2 {
		t.Errorf("carillon openapi x exits %d, want 2", r.Code)
	}
}
