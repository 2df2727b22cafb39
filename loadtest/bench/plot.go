package bench

// plot draws the series of r into a file.
func (r *Result) plot(string) error { return nil }
