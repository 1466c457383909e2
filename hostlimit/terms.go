package hostlimit

import "time"

// Terms are a Config, checked and completed. They are for implementations of
// [Limiter] in other packages, so that these mean the same by the same Config.
type Terms struct{ rules rules }

// Terms checks c, naming every field that is wrong, and fills in the defaults.
func (c Config) Terms() (*Terms, error) {
	r, err := c.compile()
	if err != nil {
		return nil, err
	}
	return &Terms{r}, nil
}

// MaxInFlight is the bound on requests over all keys, 0 if there is none.
func (t *Terms) MaxInFlight() int { return t.rules.maxInFlight }

// SlotTimeout is the longest wait for a slot.
func (t *Terms) SlotTimeout() time.Duration { return time.Duration(t.rules.slotTimeout) }

// LeaseTTL is the time after which a lease is taken back.
func (t *Terms) LeaseTTL() time.Duration { return time.Duration(t.rules.leaseTTL) }

// MaxWait is the longest wait for a turn; ok is false if there is no limit.
func (t *Terms) MaxWait() (d time.Duration, ok bool) {
	return time.Duration(t.rules.maxWait), t.rules.maxWait != never
}

// Forgive is the quiet time after a block's end that resets the counter of refusals.
func (t *Terms) Forgive() time.Duration { return time.Duration(t.rules.refusals.forgive) }

// Meaning reports what o says of its host: that it refused, that it serves
// (success), or neither.
func (t *Terms) Meaning(o Outcome) (refusal, ok bool) {
	m := t.rules.refusals.meaning(o)
	return m == refused, m == success
}

// Stay is how long the n-th refusal in a row blocks a key.
func (t *Terms) Stay(n int, retryAfter time.Duration) time.Duration {
	return time.Duration(t.rules.refusals.stay(n, retryAfter))
}

// KeyTerms are the Terms of one key.
type KeyTerms struct{ limits *limits }

// Key asks the Config's Override about key.
func (t *Terms) Key(key string) (KeyTerms, error) {
	if t.rules.override != nil {
		if l, ok := t.rules.override(key); ok {
			c, err := l.compile(t.rules.limits)
			return KeyTerms{c}, err
		}
	}
	return KeyTerms{t.rules.limits}, nil
}

// Slots is the number of slots.
func (k KeyTerms) Slots() int { return k.limits.slots }

// Least is the smallest delay that Draw returns.
func (k KeyTerms) Least() time.Duration { return time.Duration(k.limits.min) }

// Draw picks a delay at random.
func (k KeyTerms) Draw() time.Duration { return time.Duration(k.limits.draw()) }

// Adaptive reports whether the delay moves with response times.
func (k KeyTerms) Adaptive() bool { return k.limits.adaptive.kind != fixed }

// Adapt returns the adaptive delay after o, where it was old. An answer of status
// 400 and more never lowers it, and no answer leaves it as it was.
func (k KeyTerms) Adapt(old time.Duration, o Outcome) time.Duration {
	if !k.Adaptive() || o.Status == 0 {
		return old
	}
	d := time.Duration(k.limits.adaptive.next(old, o.Latency, k.limits.min, k.limits.ceiling))
	if o.Status >= 400 {
		d = max(d, old)
	}
	return d
}

// TooLate returns the reason for refusing a turn that comes after the context's
// deadline (else after MaxWait), because of a block (else because others are ahead).
func TooLate(byContext, blocked bool) error { return tooLate(byContext, blocked) }

// Ended returns the reason for refusing the Start of a lease that has ended.
func Ended() error { return errEnded }

// SlotTimedOut returns the reason for refusing a turn after SlotTimeout.
func SlotTimedOut() error { return errSlotTimeout }
