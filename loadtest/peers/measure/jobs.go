package measure

import "time"

// A Spread says when the runs of a wave are due.
type Spread struct {
	From time.Time     // in whole milliseconds
	Span time.Duration // runs are due in [From, From+Span), evenly at random; 0 = all at From
	Seed uint64
}

// Due returns the instant of run i, in whole milliseconds.
func (s Spread) Due(i int) time.Time {
	ms := s.Span.Milliseconds()
	if ms <= 0 {
		return s.From
	}
	return s.From.Add(time.Duration(mix(s.Seed, uint64(i))%uint64(ms)) * time.Millisecond) // #nosec G115 -- not negative, below the span
}

// mix is the finaliser of SplitMix64 over seed and n: what it gives is as good as random, and the same each time.
func mix(seed, n uint64) uint64 {
	x := seed*0x9e3779b97f4a7c15 + n*0xbf58476d1ce4e5b9
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
