package main

import (
	"testing"

	"carillon.dev/carillon/cmd/carillon/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m, root, main) }
