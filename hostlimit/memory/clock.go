package memory

import (
	"hash/maphash"
	"time"

	"github.com/go-politeness/politeness/hostlimit/rules"
)

// now counts from the first use: a Limiter that was made outside of a synctest bubble, perhaps as
// part of a preset, works inside of one.
func (m *Limiter) now() time.Duration {
	m.began.Do(m.begin) // not in New, which may have run in another bubble
	return time.Since(m.base)
}

// begin begins the count of now.
func (m *Limiter) begin() {
	m.base = time.Now()
	if store, ok := m.config.Store.(interface{ Since() time.Time }); ok {
		m.made = laterOf(m.made, store.Since()) // until then another process used the Store
	}
	// If New ran in another bubble, or the clock was set since, the shorter time is right, or leads
	// to the longer wait.
	byWall := m.base.Round(0).Sub(m.made.Round(0))
	m.born = -max(0, min(m.base.Sub(m.made), byWall))
}

// open returns the earliest time from t on that is in Config.Windows. Those are times of the clock
// on the wall, which may have been set since the first use.
func (m *Limiter) open(t time.Duration) time.Duration {
	if len(m.hours) == 0 || t == rules.Never {
		return t
	}
	return rules.Add(t, m.hours.Wait(m.wall(t)))
}

// closes returns a time before which Config.Windows stop no request, or never without Windows.
func (m *Limiter) closes(now time.Duration) time.Duration {
	if left := m.hours.Left(m.wall(now)); left > 0 {
		return rules.Add(now, left)
	}
	return rules.Never
}

// wall returns t by the present wall clock. at returns it by the wall clock of the first use.
func (m *Limiter) wall(t time.Duration) time.Time { return time.Now().Add(t - m.now()) }

// at returns the time of day of t.
func (m *Limiter) at(t time.Duration) time.Time { return m.base.Add(t) }

// shard returns the shard of key.
func (m *Limiter) shard(key string) *shard {
	return &m.shards[maphash.String(m.seed, key)&uint64(len(m.shards)-1)]
}

// laterOf returns the later one of two times.
func laterOf(t, o time.Time) time.Time {
	if o.After(t) {
		return o
	}
	return t
}
