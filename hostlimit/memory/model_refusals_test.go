package memory_test

import (
	"slices"
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// modelTrouble is what the answers of a host have led to, by the sentences of the guide. It shares no
// code with hostlimit.Refusals.
type modelTrouble struct {
	until     time.Duration
	alone     bool // one request at a time
	refusals  int  // in a row: 429 and the like
	unsure    int  // in a row: 503 and the like
	forbidden int  // in a row: 403 and the like
	bans      int
	checking  bool

	learned  time.Duration
	taughtAt time.Duration // delay that was in force when learned was taught last
	easedAt  time.Duration
	steps    int
	slow     bool
	lessons  int
	waited   time.Duration // as answers have asked, since the last lesson

	pages   []modelPage // refused ones, at most 8, the oldest first
	pending uint64
	served  uint64 // 0 until the first refusal: a host that refuses nothing costs no memory
	met     bool   // a refusal that held the host
	own     int
	thirds  int // refusals of new pages, in thirds, less the pages served
	proofs  int // refused pages served, in thirtieths, less the pages served
	taught  bool

	failed       bool          // known to have pages in trouble, or to refuse
	rested, took time.Duration // blocks of this row of refusals, and of the one before
	stated       bool          // by Retry-After
	restedAt     time.Duration // of the count of pages
	from, before time.Duration // delays in force, and learned, before the lessons in doubt
	share        int
	doubts       int           // answers in doubt since the last lesson
	vain         int           // pages to be served in a row until the next lesson
	vainAt       time.Duration // when lessons were taken back
	long         int           // lessons as long as a page took
}

type modelPage struct {
	resource   uint64
	lessons    int
	asked, own bool
	rests      bool
}

func (t *modelTrouble) inARow() int { return t.refusals + t.unsure + t.bans }

func (t *modelTrouble) page(resource uint64) int {
	if resource == 0 {
		return -1
	}
	return slices.IndexFunc(t.pages, func(p modelPage) bool { return p.resource == resource })
}

// clear is what a person, or a long quiet time, does.
func (t *modelTrouble) clear() {
	*t = modelTrouble{
		met: t.met, learned: t.learned, taughtAt: t.taughtAt, easedAt: t.easedAt, steps: t.steps, slow: t.slow, lessons: t.lessons, waited: t.waited,
		failed: t.failed, restedAt: t.restedAt, from: t.from, before: t.before, share: t.share, doubts: t.doubts, vain: t.vain, vainAt: t.vainAt, long: t.long,
	}
}

// An answered is what the model knows of an answer.
type answered struct {
	hostlimit.Outcome
	now, gap, since time.Duration
	served          int
	earlier, probe  bool
	delay           hostlimit.Delay
	inARow          int                       // as configured
	stay            func(n int) time.Duration // of the n-th refusal in a row
	asked           time.Duration             // by the answer itself
	heeds           bool                      // by its Retry-After
	outlasts        bool                      // pauses go on after the longest
}

// inForce is the delay in force.
func (t *modelTrouble) inForce(a *answered) time.Duration {
	force := a.gap
	if force <= a.delay.Max { // what was drawn is as good as any other: the mean
		force = a.delay.Min + (a.delay.Max-a.delay.Min)/2
	}
	return min(max(force, t.learned, time.Millisecond), a.delay.Ceiling)
}

// doubtful is a lesson of answers that may have other reasons than the delay.
func (t *modelTrouble) doubtful(a *answered) {
	if !learns(a.delay.Adaptive) || t.vain > 0 && a.now < t.vainAt+time.Hour {
		return
	}
	t.vain = 0
	force := t.inForce(a)
	now := 100*t.doubts/(t.doubts+a.served+1) + 1
	from, before, share, long := t.from, t.before, t.share, t.long
	if share > 0 && 2*now <= share && a.served >= 20 {
		from, share, long = 0, 0, 0
	}
	if from == 0 {
		from, before = force, t.learned
	} else if share == 0 {
		share = now
	}
	if force >= 8*from && long >= 2 && now >= share*4/5 {
		t.learned = min(t.learned, before)
		t.taughtAt, t.easedAt, t.steps, t.slow, t.thirds, t.waited = 0, a.now, 0, false, 0, 0
		t.from, t.before, t.share, t.doubts, t.long, t.vain, t.vainAt = 0, 0, 0, 0, 0, 20, a.now
		return
	}
	t.teach(a, 3)
	t.from, t.before, t.share, t.long = from, before, share, t.long+long
}

// teach makes the delay longer, to that many halves of the one in force.
func (t *modelTrouble) teach(a *answered, halves int64) {
	if !learns(a.delay.Adaptive) {
		return
	}
	force := t.inForce(a)
	t.from, t.before, t.share, t.doubts, t.vain, t.vainAt, t.restedAt, t.long = 0, 0, 0, 0, 0, 0, 0, 0
	perPage := max(a.since-t.waited, 0) / time.Duration(max(1, a.served))
	if min(perPage, a.delay.Ceiling) <= force*4 {
		t.long = 1
	}
	t.learned = max(t.learned, min(max(time.Duration(int64(force)*halves/2), perPage), force*4, a.delay.Ceiling))
	t.lessons++
	t.taughtAt, t.easedAt, t.steps, t.slow, t.thirds, t.waited = force, a.now, 0, false, 0, 0
}

func (t *modelTrouble) block(a *answered, stay time.Duration) bool {
	t.until, t.alone = max(t.until, a.now+stay), true
	return true
}

// refuse is a refusal that counts.
func (t *modelTrouble) refuse(a *answered, teaches bool) bool {
	t.refusals = min(t.refusals+1, 255)
	t.unsure, t.forbidden, t.pending, t.steps = 0, 0, 0, 0
	if teaches && t.refusals == 1 {
		t.teach(a, 3)
	}
	if t.refusals == 1 {
		t.waited += a.asked
	}
	stay := a.stay(t.refusals)
	if learns(a.delay.Adaptive) {
		// As the last row has shown: a half, then quarters.
		part := t.took / 4
		if t.refusals == 1 {
			part = t.took / 2
		}
		stay = max(stay, min(part, 10*time.Minute))
		t.rested += stay
		t.stated = a.heeds
	}
	return t.block(a, stay)
}

// forbid is a 403 or the like.
func (t *modelTrouble) forbid(a *answered) (blocked bool) {
	switch {
	case t.checking || t.bans > 0:
		t.checking = false
		t.bans = min(t.bans+1, 255)
		if t.bans == 1 {
			t.teach(a, 4)
			t.slow = true
		}
		t.easedAt = a.now
		return t.block(a, max(banned(t.bans), a.stay(t.bans)))
	default:
		t.forbidden++
		if t.forbidden == a.inARow {
			t.forbidden, t.checking, t.alone = 0, true, true
			t.until = max(t.until, a.now)
			return false
		}
	}
	return false
}

// banned is the length of the n-th ban in a row.
func banned(n int) time.Duration {
	steps := []time.Duration{1, 2, 4, 8, 10, 10, 20, 40, 80, 160, 240}
	return steps[min(n, len(steps))-1] * time.Minute //nolint:durationcheck // minutes
}

// doubt is a 503 or the like: the host's, or the page's.
func (t *modelTrouble) doubt(a *answered) (blocked, own bool) {
	i := t.page(a.Resource)
	if i >= 0 && t.pages[i].own {
		return false, true
	}
	if i >= 0 && a.probe && !a.earlier && !t.pages[i].asked {
		t.pages[i].asked, t.pending = true, a.Resource
		return false, false
	}
	if !a.earlier && t.pending != 0 {
		t.unsure, t.pending = t.unsure+1, 0
		if a.Resource == t.served {
			t.proofs += 42
		}
	}
	if i < 0 && a.Resource != 0 {
		t.pages = append(t.pages, modelPage{resource: a.Resource, lessons: t.lessons, rests: a.heeds})
		if len(t.pages) > 8 {
			t.pages = t.pages[1:]
		}
	}
	t.steps = 0
	t.doubts++
	if t.vain > 0 {
		t.vain = 20
	}
	if a.earlier {
		return false, false
	}
	t.unsure = min(t.unsure+1, 255)
	if i < 0 {
		t.thirds += 3
		if !t.taught && (t.thirds >= 15 || t.thirds >= 6 && t.learned > 0 && t.own == 0) {
			t.taught = true
			t.doubtful(a)
		}
	}
	t.waited += a.asked
	pause := fibonacci(t.unsure, time.Second, 5*time.Minute)
	if t.vain > 0 {
		pause = max(pause, 8*time.Second)
	}
	if a.outlasts {
		pause = max(pause, outlasting(t.unsure, 5*time.Minute))
	}
	pause = max(a.asked, pause)
	if learns(a.delay.Adaptive) {
		if t.unsure > 1 { // as the host's last row has shown
			pause = max(pause, min(t.took, 20*time.Second)/2)
		}
		t.rested += pause
	}
	return t.block(a, pause), false // programs are too short for 200 pages in trouble
}

// serve is a success. It reports whether that has cleared the host.
func (t *modelTrouble) serve(a *answered) (cleared bool) {
	remembers := t.met || t.forbidden > 0 || t.served != 0 || a.asked > 0
	quick := t.unsure <= 1 && t.refusals+t.bans == 0
	if !a.earlier {
		if t.refusals >= 10 && t.refusals < 14 { // as many as a ban of a minute, and no limit by the minute or the hour
			t.teach(a, 4)
			t.slow = t.learned > 0
		}
		if t.refusals > 1 || t.refusals == 1 && !t.stated {
			t.took = t.rested
		}
		t.stated = false
		cleared = t.alone
		t.until, t.alone, t.checking, t.refusals, t.unsure, t.forbidden, t.bans = 0, false, false, 0, 0, 0, 0
	}
	fades := 3
	if t.learned > 0 {
		fades = 1
	}
	t.thirds, t.proofs, t.vain, t.taught = max(t.thirds-1, 0), max(t.proofs-fades, 0), max(t.vain-1, 0), false
	if t.pending != 0 && t.pending != a.Resource && !a.earlier {
		if i := t.page(t.pending); i >= 0 {
			t.pages[i].own = true
		}
		t.own++
		t.failed = true
		t.thirds = max(t.thirds-3, 0)
	}
	if t.pending == a.Resource || !a.earlier {
		t.pending = 0
		for i := range t.pages {
			t.pages[i].asked = false
		}
	}
	if a.Resource != t.served && remembers {
		t.served, t.own = a.Resource, 0
	}
	if i := t.page(a.Resource); i >= 0 {
		t.prove(a, i, quick)
	}
	every, percent := 20*time.Second, []int64{2, 4, 8, 16}[min(t.steps/5, 3)]
	if t.slow {
		every, percent = 3*time.Minute, 2
	}
	if t.learned > 0 && a.now >= t.easedAt+every {
		t.easedAt = a.now
		t.steps++
		t.learned -= time.Duration(int64(t.learned) / 100 * percent)
		if t.learned <= max(a.delay.Min, time.Microsecond) {
			t.learned, t.taughtAt, t.easedAt, t.steps, t.slow, t.waited = 0, 0, 0, 0, false, 0
			t.from, t.before, t.share, t.doubts, t.long = 0, 0, 0, 0, 0
		}
	}
	return cleared
}

// prove is the i-th of the refused pages, served. quick is whether nothing else was refused since.
func (t *modelTrouble) prove(a *answered, i int, quick bool) {
	page := t.pages[i]
	t.pages[i] = modelPage{} // its place stays, as it is one of the last 8
	if t.took <= 20*time.Second {
		t.took = min(t.rested, 20*time.Second)
	}
	t.proofs += 30
	first := !t.failed
	t.failed = true
	if page.lessons != t.lessons {
		return
	}
	teaches := t.proofs >= 75 || t.taughtAt > 0 && a.gap <= t.taughtAt+t.taughtAt*3/20
	if !teaches && page.rests {
		teaches = t.restedAt > 0 && a.since >= t.restedAt && a.since <= t.restedAt+time.Hour
		t.restedAt = max(a.since, 1)
	} else if !teaches {
		teaches = first && quick
	}
	if !teaches {
		return
	}
	t.proofs = 0
	lessons := t.lessons
	t.doubtful(a)
	if page.rests && t.lessons > lessons {
		t.restedAt = 1
	}
}
