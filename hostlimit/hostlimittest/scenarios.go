package hostlimittest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-politeness/politeness/backoff"
	"github.com/go-politeness/politeness/hostlimit"
)

// Durations of the scenarios: a tick is a delay that is waited for; an age is one that never is.
const (
	tick = 20 * time.Millisecond
	age  = time.Hour
	// A limiter that asks a server knows its clock as well as a reply is quick: on a busy machine, not
	// very.
	skew = time.Second
)

var (
	unpaced = hostlimit.Delay{DangerouslyNone: true, Adaptive: hostlimit.Fixed}
	paced   = hostlimit.Delay{Min: tick}
)

// scenarios are the promises. A scenario that fails prints what is promised.
var scenarios = []scenario{
	{
		"Gaps", gaps,
		"Two starts of a key are never closer than the delay in force since the earlier one.",
	},
	{
		"RandomDelay", randomDelay,
		"The delay is drawn from [Min, Max] anew for each start.",
	},
	{
		"FloorOfEitherRequestHolds", floors,
		"The gap is as long as the floor of the earlier start, and as that of the later one.",
	},
	{
		"NegativeFloorIsNone", negativeFloor,
		"A negative floor asks for no gap.",
	},
	{
		"StampsAreStarts", stamps,
		"Grant.Start is when the start happened, not when it was planned: a late one moves the next.",
	},
	{
		"Slots", slots,
		"No more than Concurrency requests of a key are in flight.",
	},
	{
		"FirstComeFirstServed", firstCome,
		"Requests of a key get their turns in the order in which they came.",
	},
	{
		"NewcomerWaitsBehindTheQueue", newcomer,
		"A request that finds a slot free isn't let past those that wait for it.",
	},
	{
		"ReleaseTwiceFreesOneSlot", releaseTwice,
		"Only the first Release of a lease gives a slot back.",
	},
	{
		"CancelledWaiterGivesItsTurnBack", cancelled,
		"A request whose context is cancelled while it waits gives back its place, and uses up no number.",
	},
	{
		"WhoLeavesTakesNoTime", leavers,
		"A request that leaves the queue makes no later one start later.",
	},
	{
		"RefusedTurnTakesNoNumber", refusedNumber,
		"A turn that is refused uses up no number.",
	},
	{
		"DoneContextTakesNoTurn", doneContext,
		"Acquire and Next return the error of a context that is done already.",
	},
	{
		"DeadlineIsRefusedAtOnce", deadline,
		"A start that is known to come after the context's deadline is refused at once, with RetryAt.",
	},
	{
		"DeadlineBehindAQueueIsRefusedAtOnce", deadlineQueue,
		"That holds for a start behind a queue: each request ahead takes its gap.",
	},
	{
		"MaxWaitIsRefusedAtOnce", maxWait,
		"A wait that is known to be longer than MaxWait is refused at once, with RetryAt.",
	},
	{
		"MaxWaitEndsAWaitForASlot", maxWaitSlot,
		"A wait whose length can't be known ends after MaxWait, not earlier.",
	},
	{
		"SlotTimeout", slotTimeout,
		"A wait for a slot ends after SlotTimeout, not earlier.",
	},
	{
		"SlotTimeoutSparesPacing", slotTimeoutPacing,
		"The clock of SlotTimeout runs only while every slot is held: a long delay times nobody out.",
	},
	{
		"BlockHoldsEveryone", blockHolds,
		"After a refusal no request of the key starts before the block's end, also none that waited already.",
	},
	{
		"BlockRefusesWhoCannotWait", blockRefuses,
		"A request whose deadline comes before the block's end is refused at once, as ErrBlocked.",
	},
	{
		"BlockRefusesBehindTheHeadToo", blockBehind,
		"That holds for those in the middle of the queue.",
	},
	{
		"ProbeGoesAlone", probe,
		"After a block one request probes; the others wait for its answer.",
	},
	{
		"ProbeWithoutAnswerPassesOn", probePasses,
		"A probe that ends without an answer that decides leaves the probing to the next request.",
	},
	{
		"ProbeRefusedEscalates", probeRefused,
		"A refusal of a probe blocks for as long as the policy says for one more in a row.",
	},
	{
		"EarlierRefusalIsPartOfTheBlock", earlierRefusal,
		"A refusal of a request that started before the block was set counts as the same one; it lengthens the block where it asks for longer, and sets one anew where that is over.",
	},
	{
		"EarlierSuccessDoesNotLift", earlierSuccess,
		"A success of a request that started before the block was set doesn't lift it.",
	},
	{
		"WhatCounts", whatCounts,
		"Status 429, Outcome.Refused, what the policy adds, 5xx and no answer block; a context's error never does.",
	},
	{
		"FiveForbiddenAndACheck", forbidden,
		"401, 402, 403 and 451 pause nothing; after the fifth in a row (InARow) one request goes alone: served, the pages were forbidden; refused, it is a ban of a minute and more. Success, 404 among it, begins the count anew; 407 and callers that leave aren't counted.",
	},
	{
		"AFailedProbeIsARefusal", probeFails,
		"To a probe, anything but success counts as one more refusal in a row.",
	},
	{
		"UnsureAnswersTellPageFromHost", unsure,
		"5xx, 408, 425 and no answer pause the host in Fibonacci steps of at most five minutes. A page that is refused again as the probe, while the next one is served, has a trouble of its own, which counts nothing afterwards.",
	},
	{
		"NothingLeftBlocks", reset,
		"Reset blocks until then, capped, whatever the status; it counts as no refusal, and Retry-After goes first.",
	},
	{
		"LearnedDelay", learned,
		"The first 429 of a series makes the delay longer, the others don't; Fixed doesn't learn.",
	},
	{
		"LearnedDelayOfThePagesBefore", learnedMean,
		"A 429 makes the delay the time per page served since the last one, where that is more than one and a half times the delay, at most four times the delay.",
	},
	{
		"OneUnsureAnswerTeachesNoRate", unlearned,
		"A 5xx, no answer, a 403, and a 503 with Retry-After, which is maintenance, leave the delay as it was.",
	},
	{
		"DelayFromTheEnd", fromEnd,
		"With FromEnd the delay, and a floor, count from the Release of the request before.",
	},
	{
		"NoAnswerCountsFromItsEnd", noAnswer,
		"The gap after an attempt that had no answer, such as a dial that failed, counts from its end.",
	},
	{
		"Windows", windows,
		"Outside of Windows nobody starts: Next tells when, and a wait that is too long is refused with RetryAt.",
	},
	{
		"MaxWaitIsAnHour", maxWaitDefault,
		"Without a MaxWait, a wait that is known to be longer than an hour is refused at once, with RetryAt.",
	},
	{
		"DeadlineInTheQueueIsARefusal", deadlinePasses,
		"A deadline that passes in the queue is an *Error with RetryAt, as one that is foreseen; a cancellation is the context's error.",
	},
	{
		"RetryAfterIsCapped", retryAfterCap,
		"No Retry-After blocks for longer than the policy's MaxRetryAfter.",
	},
	{
		"RetryAfterTakesThePolicysPlace", retryAfterPolicy,
		"Retry-After replaces the policy's time, unless AtLeast takes the longer of the two.",
	},
	{
		"QuietTimeForgives", forgiven,
		"After the policy's Forgive without a refusal the counter is zero again.",
	},
	{
		"AsideLiftsNothing", aside,
		"A success aside, as of robots.txt, lifts no block.",
	},
	{
		"LateObserveSaysNothing", lateObserve,
		"A second Observe, and one after Release, changes nothing and returns the zero Effect.",
	},
	{
		"Storm", storm,
		"While a host refuses, only what was in flight and one probe a block is refused.",
	},
	{
		"ReleaseWithoutStartOwesNothing", releaseUnstarted,
		"A lease that is released without a Start leaves the next start where it was before Acquire.",
	},
	{
		"NumbersHaveNoHole", numbersWithoutHoles,
		"Starts are numbered one by one: a lease without a Start uses up no number.",
	},
	{
		"StartAgainMovesTheStamp", startAgain,
		"A further Start voids the stamp of the one before: the delay counts from the last one, which it doesn't hold up itself.",
	},
	{
		"StartAgainKeepsTheGap", startAgainGap,
		"A further Start waits for the gap to the starts of others.",
	},
	{
		"StartWaitsForABlock", startIntoBlock,
		"A Start waits for the end of a block that was set after the turn was granted.",
	},
	{
		"StartIsRefusedWhereItCannotWait", startRefused,
		"A Start that can't come in time is refused at once; one that is cancelled returns the context's error.",
	},
	{
		"RenewedLeaseKeepsItsSlot", renewed,
		"LeaseTTL counts from the last Renew: a body that is being read keeps its slot.",
	},
	{
		"ConfigTellsTheLimits", config,
		"Config returns the limits, MaxWait and LeaseTTL that the limiter was made of.",
	},
	{
		"LeakedLeaseExpires", leaked,
		"The slot of a lease that is neither renewed nor released is taken back after LeaseTTL; the next start tells so.",
	},
	{
		"LeakedLeaseFreesOneSlot", leakedOnce,
		"The late Release of a lease that was taken back frees nobody else's slot.",
	},
	{
		"LeakedLeaseFreesItsPlace", leakedPlace,
		"The place of MaxInFlight of a lease that was taken back is free for every key.",
	},
	{
		"LeakedProbePassesOn", leakedProbe,
		"A probe that is taken back leaves the probing to the next request.",
	},
	{
		"RefusalOfALeakedLeaseBlocks", leakedRefusal,
		"A refusal blocks the key even where the request's lease had been taken back.",
	},
	{
		"Adaptive", adaptive,
		"Slower answers raise the delay, quicker successes lower it, errors never do.",
	},
	{
		"AdaptiveFollowsItsFormula", formulas,
		"Each kind of Adaptive follows its formula, between Min and Ceiling.",
	},
	{
		"SlowAnswerHoldsAtOnce", slowAnswer,
		"A delay that an answer raises holds for the gap that is running.",
	},
	{
		"SlowAnswerRefusesWhoCannotWait", slowRefuses,
		"A request that a raised delay makes too late is refused at once.",
	},
	{
		"Override", override,
		"Override gives a key limits of its own.",
	},
	{
		"KeysAreIndependent", independent,
		"The block of a key isn't felt by another.",
	},
	{
		"MaxInFlight", maxInFlight,
		"No more than MaxInFlight requests are in flight over all keys.",
	},
	{
		"MaxInFlightGoesRound", goesRound,
		"Keys take the places of MaxInFlight in turn, one each.",
	},
	{
		"BlockedKeyHoldsNoPlace", blockedPlace,
		"A key that is blocked or paced holds no place of MaxInFlight.",
	},
	{
		"Next", next,
		"Next tells the earliest start that can be foreseen, and takes nothing.",
	},
	{
		"DebtsAreKept", debts,
		"A key that owes a delay, a block or a counter isn't forgotten, whatever MaxHosts says.",
	},
}

func gaps(s *scene) {
	s.use(hostlimit.Config{Delay: paced, Concurrency: 3})
	s.crowd(8, func(i int) {
		for range 3 {
			t := s.take()
			time.Sleep(time.Duration(i) * tick / 4)
			s.answer(t, 200, 0)
		}
	})
	s.audit()
}

func randomDelay(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick / 2, Max: tick}})
	var seen []time.Duration
	for range 12 {
		t := s.take()
		if t.Delay < tick/2 || t.Delay > tick {
			s.Errorf("delay %v, want %v to %v", t.Delay, tick/2, tick)
		}
		seen = append(seen, t.Delay)
		s.answer(t, 200, 0)
	}
	for _, d := range seen {
		if d != seen[0] {
			s.audit()
			return
		}
	}
	s.Errorf("the random delay is always %v", seen[0])
}

func floors(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	for _, floor := range []time.Duration{0, 3 * tick, 0, 0, tick, 2 * tick} {
		s.answer(s.takeKey(s.key, floor), 200, 0)
	}
	s.audit()
}

func negativeFloor(s *scene) {
	s.use(hostlimit.Config{Delay: paced})
	s.done(s.takeKey(s.key, math.MinInt64))
	s.done(s.takeKey(s.key, -1))
	s.audit()
}

func slots(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 3})
	var flying atomic.Int32
	s.crowd(12, func(int) {
		for range 3 {
			t := s.take()
			if n := flying.Add(1); n > 3 || t.Slots != 3 {
				s.Errorf("%d in flight, %d slots, want 3", n, t.Slots)
			}
			time.Sleep(tick / 8)
			flying.Add(-1)
			s.answer(t, 200, 0)
		}
	})
	s.audit()
}

func firstCome(s *scene) {
	s.insist(func() (fault string) {
		s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
		holder := s.take()
		var order []int
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				t := s.take()
				order = append(order, i) // one slot: nobody else is here
				s.done(t)
			})
			s.settle(5 * tick)
		}
		s.done(holder)
		wg.Wait()
		s.audit()
		s.book = nil
		if fmt.Sprint(order) != "[0 1 2 3 4 5]" {
			return fmt.Sprintf("requests that came one after the other started in the order %v", order)
		}
		return ""
	})
}

func releaseTwice(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
	first := s.take()
	s.done(first)
	second := s.take()
	s.crowd(4, func(int) { first.lease.Release() })
	ctx, cancel := context.WithTimeout(s.Context(), 2*tick)
	defer cancel()
	if _, err := s.try(ctx, s.key, 0); !errors.Is(err, context.DeadlineExceeded) {
		s.Errorf("with the slot held: %v, want the context's error", err)
	}
	s.done(second)
	s.audit()
}

func cancelled(s *scene) {
	s.use(hostlimit.Config{Delay: paced, Concurrency: 1})
	holder := s.take()
	ctx, cancel := context.WithCancel(s.Context())
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := s.try(ctx, s.key, age); !errors.Is(err, context.Canceled) {
				s.Errorf("cancelled: %v", err)
			}
		})
	}
	time.Sleep(tick)
	wg.Go(func() { s.done(s.take()) })
	time.Sleep(tick)
	cancel()
	s.done(holder)
	wg.Wait()
	s.whole = true // with a turn lost, the numbers have a hole
	s.audit()
}

func doneContext(s *scene) {
	s.use(hostlimit.Config{Delay: paced})
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if _, err := s.limiter.Acquire(ctx, s.key, 0); !errors.Is(err, context.Canceled) {
		s.Errorf("Acquire: %v", err)
	}
	if _, err := s.limiter.Next(ctx, s.key, 0); !errors.Is(err, context.Canceled) {
		s.Errorf("Next: %v", err)
	}
	s.done(s.take())
	s.audit()
}

// refused checks a refusal that must not have been waited for.
func (s *scene) refused(err error, begin, retryAt time.Time, kinds ...error) {
	s.Helper()
	var e *hostlimit.Error
	if !errors.As(err, &e) {
		s.Fatalf("error %v, want an *Error", err)
	}
	for _, kind := range kinds {
		if !errors.Is(err, kind) {
			s.Errorf("error %v, want one that is %v", err, kind)
		}
	}
	if e.Key == "" || e.RetryAt.Before(retryAt) || e.RetryAt.After(retryAt.Add(age/2)) {
		s.Errorf("error of %q, RetryAt %v, want about %v", e.Key, e.RetryAt, retryAt)
	}
	if d := time.Since(begin); d > age/2 {
		s.Errorf("refused after %v, want at once", d)
	}
}

func deadline(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	first := s.takeKey(s.key, age)
	s.done(first)
	begin := time.Now()
	ctx, cancel := context.WithTimeout(s.Context(), age/2)
	defer cancel()
	_, err := s.try(ctx, s.key, 0)
	s.refused(err, begin, first.Start.Add(first.Delay), hostlimit.ErrBusy, context.DeadlineExceeded)
}

func maxWait(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxWait: age / 2})
	first := s.takeKey(s.key, age)
	s.done(first)
	begin := time.Now()
	_, err := s.try(s.Context(), s.key, 0)
	s.refused(err, begin, first.Start.Add(first.Delay), hostlimit.ErrBusy)
	if errors.Is(err, context.DeadlineExceeded) {
		s.Error("refused by the context's deadline, which it has none of")
	}
}

func maxWaitSlot(s *scene) {
	const most = 20 * tick
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1, MaxWait: most})
	holder := s.insistent()
	begin := time.Now()
	_, err := s.try(s.Context(), s.key, 0)
	if d := time.Since(begin); !errors.Is(err, hostlimit.ErrBusy) || d < most {
		s.Errorf("after %v: %v, want ErrBusy after %v", d, err, most)
	}
	s.done(holder)
	s.done(s.insistent())
	s.audit()
}

func slotTimeout(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, SlotTimeout: 3 * tick})
	a, b := s.insistent(), s.insistent()
	begin := time.Now()
	_, err := s.try(s.Context(), s.key, 0)
	if d := time.Since(begin); !errors.Is(err, hostlimit.ErrBusy) || d < 3*tick {
		s.Errorf("after %v: %v, want ErrBusy after %v", d, err, 3*tick)
	} else {
		for _, part := range []string{"timeout waiting for host concurrency slot", s.key, "2", "bodies"} {
			if !strings.Contains(err.Error(), part) {
				s.Errorf("the error reads %q, without %q", err, part)
			}
		}
		var e *hostlimit.Error
		if !errors.As(err, &e) || !e.RetryAt.After(begin) {
			s.Errorf("timed out at %v: %#v, want a RetryAt", time.Now(), err)
		}
	}
	s.done(a)
	s.done(b)
	s.done(s.insistent())
	s.audit()
}

func slotTimeoutPacing(s *scene) {
	const timeout = 24 * tick
	s.insist(func() (fault string) {
		s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: timeout + tick}, Concurrency: 1, SlotTimeout: timeout})
		var mu sync.Mutex
		var refused error
		var held time.Duration // the longest that a request held the slot
		s.crowd(3, func(int) {
			t, err := s.try(s.Context(), s.key, 0)
			if err == nil {
				time.Sleep(tick)
				s.answer(t, 200, 0)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				refused = err
			} else {
				held = max(held, time.Since(t.Start))
			}
		})
		s.audit()
		if refused != nil && held < timeout/2 {
			return fmt.Sprintf("paced by more than SlotTimeout: %v", refused)
		}
		return ""
	})
}

func blockHolds(s *scene) {
	s.use(hostlimit.Config{Delay: paced, Concurrency: 1})
	first := s.take() // its slot holds the others until the block does
	var until atomic.Pointer[time.Time]
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			t := s.take()
			if u := until.Load(); u == nil || t.Start.Before(*u) {
				s.Errorf("started %v, blocked until %v", t.Start, u)
			}
			s.answer(t, 200, 0)
		})
	}
	before := time.Now()
	e := first.lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 8 * tick})
	if !e.Blocked || e.Refusals != 1 || e.Cleared || e.Until.Before(before.Add(8*tick)) {
		s.Errorf("effect %+v, want a block for %v", e, 8*tick)
	}
	until.Store(&e.Until)
	s.done(first)
	wg.Wait()
	s.audit()
}

func blockRefuses(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 1})
	first := s.take()
	begin := time.Now()
	var wg sync.WaitGroup
	for range 3 { // in the queue, or coming when it is blocked: both are refused
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(s.Context(), age/2)
			defer cancel()
			t, err := s.try(ctx, s.key, 0)
			if err == nil {
				s.done(t)
				s.Error("started into the block")
				return
			}
			s.refused(err, begin, begin.Add(age), hostlimit.ErrBlocked, context.DeadlineExceeded)
		})
	}
	s.answer(first, 429, age)
	wg.Wait()
}

// probe lets the probe take its time: nobody may start before its answer.
func probe(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	s.answer(s.take(), 429, 2*tick)
	var mu sync.Mutex
	var answered time.Time
	s.crowd(6, func(int) {
		t := s.take()
		if t.Probe {
			time.Sleep(3 * tick)
			mu.Lock()
			answered = time.Now()
			mu.Unlock()
			if e := s.answer(t, 200, 0); !e.Cleared || e.Refusals != 0 || !e.Until.IsZero() {
				s.Errorf("effect of the probe's success: %+v", e)
			}
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if answered.IsZero() || t.Start.Before(answered) {
			s.Errorf("started %v, the probe was answered %v", t.Start, answered)
		}
		s.answer(t, 200, 0)
	})
	s.audit()
}

func probePasses(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	s.answer(s.take(), 429, tick)
	for i, end := range []func(*turn){
		func(t *turn) { s.done(t) },           // no answer
		func(t *turn) { s.answer(t, 407, 0) }, // an answer that says nothing
		func(t *turn) { t.lease.Observe(hostlimit.Outcome{Err: context.Canceled}); s.done(t) }, // the caller left
	} {
		t := s.take()
		if !t.Probe {
			s.Errorf("request %d after the block is no probe", i+1)
		}
		end(t)
	}
	t := s.take()
	if e := s.answer(t, 404, 0); !t.Probe || !e.Cleared {
		s.Errorf("probe %v, effect %+v", t.Probe, e)
	}
	if t := s.take(); t.Probe {
		s.Error("a probe after a success")
	}
	s.audit()
}

func probeRefused(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Doubling{Start: 2 * tick}})
	for i := range 3 {
		t := s.take()
		if t.Probe != (i > 0) {
			s.Errorf("request %d: probe %v", i+1, t.Probe)
		}
		before := time.Now()
		e := s.answer(t, 429, 0)
		if stay := 2 * tick << i; e.Refusals != i+1 || !e.Blocked || e.Until.Before(before.Add(stay)) {
			s.Errorf("refusal %d at %v: %+v, want a block of %v", i+1, before, e, stay)
		}
		if s.cfg.Backoff.Delay(i+1) != 2*tick<<i {
			s.Fatal("the policy isn't what the scenario thinks")
		}
		if next, err := s.limiter.Next(s.Context(), s.key, 0); err != nil || next.Before(e.Until) {
			s.Errorf("next %v, %v; blocked until %v", next, err, e.Until)
		}
	}
	t := s.take()
	s.answer(t, 200, 0)
	if e := s.answer(s.take(), 429, 0); e.Refusals != 1 {
		s.Errorf("%d refusals in a row after a success, want 1", e.Refusals)
	}
	s.audit()
}

func earlierRefusal(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 4})
	a, b, c, d := s.take(), s.take(), s.take(), s.take()
	first := s.answer(a, 429, 4*tick)
	second := s.answer(b, 429, 12*tick)
	if !second.Blocked || second.Refusals != 1 || !second.Until.After(first.Until) {
		s.Errorf("a second refusal, of which the block is longer, did %+v after %+v", second, first)
	}
	if third := s.answer(c, 429, tick); third.Blocked || third.Refusals != 1 || !third.Until.Equal(second.Until) {
		s.Errorf("a third refusal, of which the block is shorter, did %+v after %+v", third, second)
	}
	t := s.take()
	if !t.Probe || t.Start.Before(second.Until) {
		s.Errorf("probe %v, started %v, blocked until %v", t.Probe, t.Start, second.Until)
	}
	s.answer(t, 200, 0)
	// Once the block is lifted it still counts as that one, but what the host asks for is asked now.
	at := time.Now()
	e := s.answer(d, 429, 12*tick)
	if !e.Blocked || e.Refusals != 0 || e.Until.Before(at.Add(4*tick)) {
		s.Errorf("a refusal from before the block, which has been lifted, did %+v", e)
	}
	if t = s.take(); t.Probe || t.Start.Before(e.Until) {
		s.Errorf("probe %v, started %v, blocked until %v", t.Probe, t.Start, e.Until)
	}
	s.done(t)
	s.audit()
}

func earlierSuccess(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxWait: age / 2})
	a, b := s.take(), s.take()
	begin := time.Now()
	first := s.answer(a, 429, age)
	if e := s.answer(b, 200, 0); e.Cleared || e.Refusals != 1 || !e.Until.Equal(first.Until) {
		s.Errorf("a success from before the block did %+v after %+v", e, first)
	}
	_, err := s.try(s.Context(), s.key, 0)
	s.refused(err, begin, first.Until, hostlimit.ErrBlocked)
}

func whatCounts(s *scene) {
	failure := errors.New("connection refused")
	for _, c := range []struct {
		name    string
		policy  backoff.Policy
		outcome hostlimit.Outcome
		blocks  bool
	}{
		{"429", nil, hostlimit.Outcome{Status: 429}, true},
		{"503 by default", nil, hostlimit.Outcome{Status: 503}, true},
		{"503 with Retry-After by default", nil, hostlimit.Outcome{Status: 503, RetryAfter: age}, true},
		{"403 with Retry-After by default", nil, hostlimit.Outcome{Status: 403, RetryAfter: age}, false},
		{"200 that is none", nil, hostlimit.Outcome{Status: 200, Refused: "a challenge"}, true},
		{"a challenge aside", nil, hostlimit.Outcome{Status: 403, Refused: "a challenge", Aside: true}, true},
		{"403 by default", nil, hostlimit.Outcome{Status: 403}, false},
		{"503", backoff.Refusals{Statuses: []int{403, 503}}, hostlimit.Outcome{Status: 503}, true},
		{"403", backoff.Refusals{Statuses: []int{403, 503}}, hostlimit.Outcome{Status: 403}, true},
		{"525", backoff.Refusals{Statuses: backoff.Range(520, 530)}, hostlimit.Outcome{Status: 525}, true},
		{"531", backoff.Refusals{Statuses: backoff.Range(520, 530)}, hostlimit.Outcome{Status: 531}, true},
		{"429 beside others", backoff.Refusals{Statuses: []int{403}}, hostlimit.Outcome{Status: 429}, true},
		{"network by default", nil, hostlimit.Outcome{Err: failure}, true},
		{"network", backoff.Refusals{Network: true}, hostlimit.Outcome{Err: failure}, true},
		{"cancelled", backoff.Refusals{Network: true}, hostlimit.Outcome{Err: context.Canceled}, false},
		{"deadline", backoff.Refusals{Network: true}, hostlimit.Outcome{Err: fmt.Errorf("get: %w", context.DeadlineExceeded)}, false},
		{"nothing", backoff.Refusals{Network: true}, hostlimit.Outcome{}, false},
		{"odd status", nil, hostlimit.Outcome{Status: 99999}, false},
		{"negative status", nil, hostlimit.Outcome{Status: -429}, false},
	} {
		s.use(hostlimit.Config{Delay: unpaced, Backoff: c.policy})
		t := s.take()
		if e := t.lease.Observe(c.outcome); e.Blocked != c.blocks || (e.Refusals > 0) != c.blocks || e.Until.IsZero() == c.blocks || e.Cleared {
			s.Errorf("%s: effect %+v, want a block: %v", c.name, e, c.blocks)
		}
		s.done(t)
	}
}

func retryAfterCap(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Backoff: backoff.Refusals{MaxRetryAfter: age}})
	t := s.take()
	before := time.Now()
	e := s.answer(t, 429, math.MaxInt64)
	if e.Until.Before(before.Add(age)) || e.Until.After(time.Now().Add(age+age/2)) {
		s.Errorf("blocked at %v until %v, want %v", before, e.Until, age)
	}
}

func lateObserve(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	t := s.take()
	s.done(t)
	if e := t.lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: age}); e != (hostlimit.Effect{}) {
		s.Errorf("Observe after Release did %+v", e)
	}
	t = s.take()
	t.lease.Observe(hostlimit.Outcome{Status: 200})
	if e := t.lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: age}); e != (hostlimit.Effect{}) {
		s.Errorf("a second Observe did %+v", e)
	}
	s.done(t)
	s.done(s.take())
	s.audit()
}

// storm has a host refuse for a while from its first answer on: it must not get more refused
// requests than were in flight at the first refusal, and one for each end of a block.
func storm(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, Concurrency: 4})
	var mu sync.Mutex
	var over time.Time
	type block struct{ seen, until time.Time }
	var blocks []block
	refusals := 0
	s.crowd(16, func(int) {
		for served := 0; served < 2; {
			t := s.take()
			time.Sleep(tick / 4)
			mu.Lock()
			if over.IsZero() {
				over = time.Now().Add(15 * tick)
			}
			isOver := time.Now().After(over)
			mu.Unlock()
			if isOver {
				s.answer(t, 200, 0)
				served++
				continue
			}
			e := t.lease.Observe(hostlimit.Outcome{Status: 429, RetryAfter: 3 * tick})
			mu.Lock()
			refusals++
			if e.Blocked {
				blocks = append(blocks, block{time.Now(), e.Until})
			}
			mu.Unlock()
			s.done(t)
		}
	})
	if most := 4 + len(blocks) - 1; refusals > most || len(blocks) == 0 {
		s.Errorf("%d refused requests in %d blocks, want at most %d", refusals, len(blocks), most)
	}
	for _, t := range s.book {
		for _, b := range blocks {
			if t.Start.After(b.seen) && t.Start.Before(b.until) {
				s.Errorf("started %v, into the block from %v to %v", t.Start, b.seen, b.until)
			}
		}
	}
	s.audit()
}

func leaked(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, LeaseTTL: 5 * tick})
	a, b := s.take(), s.take()
	c := s.take()
	if told := append(b.TakenBack, c.TakenBack...); len(told) == 0 || told[0].Key != s.key || c.Start.Before(a.Start.Add(5*tick)) {
		s.Errorf("started %v after the leaked turn, taken back: %v", c.Start.Sub(a.Start), told)
	}
	s.crowd(4, func(int) { a.lease.Release() })
	if !a.lease.Release() {
		s.Error("the leaked lease doesn't say that it has expired")
	}
	s.done(b)
	if s.done(c) && time.Since(c.Start) < 5*tick {
		s.Error("a lease has expired before its time")
	}
	s.done(s.take())
	s.audit()
}

func adaptive(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: tick / 4, Adaptive: hostlimit.Squared, Ceiling: 5 * tick}})
	answer := func(status int, latency time.Duration) {
		t := s.take()
		t.lease.Observe(hostlimit.Outcome{Status: status, Latency: latency})
		s.done(t)
	}
	delay := func(want time.Duration) {
		s.Helper()
		t := s.take()
		if t.Delay != want {
			s.Errorf("delay %v, want %v", t.Delay, want)
		}
		s.done(t)
	}
	delay(tick / 4)
	answer(200, 200*time.Millisecond)
	delay(40 * time.Millisecond)
	answer(503, time.Millisecond) // a quick error doesn't lower it
	answer(404, time.Millisecond)
	delay(40 * time.Millisecond)
	answer(200, time.Minute)
	delay(5 * tick)
	answer(200, time.Millisecond)
	delay(tick / 4)
	s.audit()
}

func override(s *scene) {
	slow := newKey()
	s.use(hostlimit.Config{Delay: unpaced, Override: func(key string) (hostlimit.Limits, bool) {
		return hostlimit.Limits{Concurrency: 5, Delay: hostlimit.Delay{Min: 2 * tick}}, key == slow
	}})
	for range 3 {
		t := s.takeKey(slow, 0)
		if t.Slots != 5 || t.Delay != 2*tick {
			s.Errorf("%d slots, delay %v", t.Slots, t.Delay)
		}
		s.done(t)
		if t := s.take(); t.Slots != 2 || t.Delay != 0 {
			s.Errorf("a key without override: %d slots, delay %v", t.Slots, t.Delay)
		} else {
			s.done(t)
		}
	}
	s.audit()
}

func independent(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced})
	s.answer(s.take(), 429, age)
	other := newKey()
	if t := s.takeKey(other, 0); t.Probe || t.WaitBlock != 0 {
		s.Errorf("another key's block is felt: %+v", t.Grant)
	}
	s.audit()
}

func maxInFlight(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxInFlight: 3})
	var flying atomic.Int32
	keys := []string{newKey(), newKey(), newKey(), newKey(), newKey()}
	s.crowd(20, func(i int) {
		for range 2 {
			t := s.takeKey(keys[i%5], 0)
			if n := flying.Add(1); n > 3 {
				s.Errorf("%d requests in flight, want 3 at most", n)
			}
			time.Sleep(tick / 8)
			flying.Add(-1)
			s.answer(t, 200, 0)
		}
	})
	s.audit()
}

func blockedPlace(s *scene) {
	s.use(hostlimit.Config{Delay: unpaced, MaxInFlight: 1})
	s.answer(s.take(), 429, age)
	ctx, cancel := context.WithCancel(s.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := s.try(ctx, s.key, 0); !errors.Is(err, context.Canceled) {
				s.Errorf("on the blocked key: %v", err)
			}
		})
	}
	for range 3 {
		time.Sleep(tick / 2)
		s.done(s.takeKey(newKey(), 0))
	}
	cancel()
	wg.Wait()
	s.audit()
}

func next(s *scene) {
	s.use(hostlimit.Config{Delay: hostlimit.Delay{Min: age}})
	if n := s.next(age); n.After(time.Now().Add(age / 2)) {
		s.Errorf("next start on a new key is %v", n)
	}
	t := s.take()
	for range 3 { // it takes nothing
		if n := s.next(0); n.Before(t.Start.Add(age)) || n.After(t.Start.Add(age+age/2)) {
			s.Errorf("next start is %v, want %v", n, t.Start.Add(age))
		}
	}
	if n := s.next(2 * age); n.Before(t.Start.Add(2 * age)) {
		s.Errorf("next start is %v, want %v", n, t.Start.Add(2*age))
	}
	e := s.answer(t, 429, 3*age)
	if n := s.next(0); n.Before(e.Until) {
		s.Errorf("next start is %v, blocked until %v", n, e.Until)
	}
}
