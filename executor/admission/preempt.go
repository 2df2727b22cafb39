package admission

// Holds reports whether the attempt has a place of what is under way to a target, or of a tenant.
func (p *Permit) Holds(l *Load) bool { return p.loads[ofHost] == l || p.loads[ofTenant] == l }

// wakeFirst wakes an attempt of a class that waits at a load, and reports whether there is one. The
// caller holds mu.
func (l *Load) wakeFirst(class int) bool {
	w := &l.waits[class]
	if w.n == 0 {
		return false
	}
	select {
	case w.wakeUp <- struct{}{}:
	default:
	}
	return true
}
