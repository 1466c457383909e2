package traps

// every is how often a turn goes to the next level: 3 % of the requests. Levels that only waited
// for the ones before them would starve in a site without end.
const every = 32

// Turns says from which level the next URL of a host is taken.
type Turns struct {
	n     int // turns so far, up to every*every*every
	every int // 0: 32, for tests
}

// Next returns the level of the next turn, and counts it. has are the levels that have URLs; ok is
// false if none has.
func (t *Turns) Next(has [Levels]bool) (level int, ok bool) {
	level = following(has, -1)
	if level < 0 {
		return 0, false
	}
	period := t.every
	if period == 0 {
		period = every
	}
	t.n++
	for n := t.n; n%period == 0; n /= period {
		next := following(has, level)
		if next < 0 {
			break
		}
		level = next
	}
	if t.n == period*period*period {
		t.n = 0
	}
	return level, true
}

// Further returns how many levels further than the first one the next turn goes: 0 but for each
// 32nd.
func (t *Turns) Further() (levels int) {
	for n := t.n + 1; n%every == 0 && levels < Levels-1; n /= every {
		levels++
	}
	return levels
}

// following returns the first level after one that has URLs; below 0: none has.
func following(has [Levels]bool, level int) int {
	for next := level + 1; next < Levels; next++ {
		if has[next] {
			return next
		}
	}
	return -1
}
