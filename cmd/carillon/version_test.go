package main

import (
	"runtime"
	"testing"

	"carillon.dev/carillon/cmd/carillon/clitest"
)

func TestVersion(t *testing.T) {
	was := version
	t.Cleanup(func() { version = was })
	version = "v1.2.3-4-gabcdef0" // as the Makefile stamps it
	for args, want := range map[string]string{
		"version":   "carillon v1.2.3-4-gabcdef0\n" + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n",
		"--version": "carillon v1.2.3-4-gabcdef0\n",
	} {
		t.Run(args, func(t *testing.T) {
			if got := clitest.Succeed(t, args).Stdout; got != want {
				t.Errorf("carillon %s prints %q, want %q", args, got, want)
			}
		})
	}
}
