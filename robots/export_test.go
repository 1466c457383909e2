package robots

// Steps returns the cost of Test in steps that no machine and no load changes: searches in the
// path, and bytes of it that they looked at with the help of sorted suffixes.
func (r *Rules) Steps(target string) (searches, scanned int) {
	q := question{path: r.normal(target), best: -1}
	r.walk(&q)
	if q.rank != unsorted {
		return q.searches, q.scanned
	}
	sorted := question{path: q.path, best: -1, suffixes: appendSuffixes(nil, q.path)}
	r.walk(&sorted)
	return q.searches + sorted.searches, sorted.scanned
}

// UsageSteps is Steps for Preferences.
func (r *Rules) UsageSteps(target string) (searches, scanned int) {
	q := question{path: r.normal(target)}
	r.usage(&q)
	return q.searches, q.scanned
}

// LongestTry returns the number of rules that one try goes through at most.
func (r *Rules) LongestTry() int {
	longest := 0
	n := 0
	for i := range r.rules {
		n++
		if r.rules[i].link&last != 0 {
			longest = max(longest, n)
			n = 0
		}
	}
	return longest
}
