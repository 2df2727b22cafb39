package main

import (
	"context"
	"io"
)

func runDemo(ctx context.Context, out io.Writer, api string) error { return nil }
