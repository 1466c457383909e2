package hostlimittest

import (
	"time"

	"github.com/go-politeness/politeness/hostlimit"
)

// Durations of the scenarios: a tick is a delay that is waited for; an age is one that never is.
const (
	tick = 20 * time.Millisecond
	age  = time.Hour
	// A limiter that asks a server knows the server's clock only to within the time of a reply,
	// which is long on a busy machine.
	skew = time.Second
)

var (
	unpaced = hostlimit.Delay{DangerouslyNone: true, Adaptive: hostlimit.Fixed}
	paced   = hostlimit.Delay{Min: tick}
)

// scenarios are the promises. A scenario that fails prints its promise.
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
		"A negative floor asks for no gap, if no request of the key has had another one.",
	},
	{
		"UnknownFloorIsTheLastOne", unknownFloor,
		"A request with FloorUnknown keeps the floor of the last request that had one.",
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
		"The clock of SlotTimeout runs only while every slot is in use: no request times out by a long delay.",
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
		"RetryAfterHoldsOnAnyStatus", retryAfterAnywhere,
		"RetryAfter from 300 on blocks until then and counts as no refusal; on a page that was served it does nothing.",
	},
	{
		"RefusalFoundLateCounts", foundLate,
		"Revise makes an answer that was observed as a success the refusal that it is: it blocks, and the row goes on.",
	},
	{
		"RefusalFoundLateIsPartOfABlock", foundLateBeside,
		"A refusal found late, of a request from before a block, lengthens the block and isn't counted.",
	},
	{
		"ReviseComesOnceAfterObserve", revisedOnce,
		"Revise does nothing before Observe, without a reason, and for the second time.",
	},
	{
		"ProbeWithoutAnswerPassesOn", probePasses,
		"A probe that ends without a response that decides leaves the probing to the next request.",
	},
	{
		"ProbeRefusedEscalates", probeRefused,
		"A refusal of a probe blocks for as long as the policy says for one more in a row.",
	},
	{
		"EarlierRefusalIsPartOfTheBlock", earlierRefusal,
		"A refusal of a request that started before the block was set counts as the same one; it " +
			"lengthens the block where it asks for longer, and sets one anew where that is over.",
	},
	{
		"EarlierSuccessDoesNotLift", earlierSuccess,
		"A success of a request that started before the block was set doesn't lift it.",
	},
	{
		"WhatCounts", whatCounts,
		"Status 429, Outcome.Refused, statuses of the policy, 5xx and no response block; a context's error never does.",
	},
	{
		"FiveForbiddenAndACheck", forbidden,
		"403, its like and unknown words pause nothing; after the fifth in a row (InARow) one request goes alone: " +
			"served, the pages were forbidden; refused, it is a ban of a minute and more. Success, 404 among " +
			"it, begins the count anew; 407 and callers that leave aren't counted.",
	},
	{
		"AFailedProbeIsARefusal", probeFails,
		"To a probe, anything but success counts as one more refusal in a row.",
	},
	{
		"UnsureAnswersTellPageFromHost", unsure,
		"5xx, 408, 425 and no response pause the host in Fibonacci steps of at most five minutes. A page " +
			"that is refused again as the probe, while the next one is served, has a trouble of its own, " +
			"which counts nothing afterwards.",
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
		"A 429 makes the delay the time per page served since the last one, where that is more than one " +
			"and a half times the delay, at most four times the delay.",
	},
	{
		"OneUnsureAnswerTeachesNoRate", unlearned,
		"A 5xx, no response, a 403, and a 503 with Retry-After, which is maintenance, leave the delay as it was.",
	},
	{
		"DelayFromTheEnd", fromEnd,
		"With FromEnd the delay, and a floor, count from the Release of the request before.",
	},
	{
		"NoAnswerCountsFromItsEnd", noAnswer,
		"The gap after an attempt that had no response, such as a dial that failed, counts from its end.",
	},
	{
		"Windows", windows,
		"Outside of Windows no request starts: Next returns when, and a wait that is too long is refused with RetryAt.",
	},
	{
		"MaxWaitIsAnHour", maxWaitDefault,
		"Without a MaxWait, a wait that is known to be longer than an hour is refused at once, with RetryAt.",
	},
	{
		"DeadlineInTheQueueIsARefusal", deadlinePasses,
		"A deadline that passes in the queue is an *Error with RetryAt, as one that is foreseen; a " +
			"cancellation is the context's error.",
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
		"While a host refuses, only the requests in flight and one probe a block are refused.",
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
		"A further Start voids the stamp of the one before: the delay counts from the last one, which it " +
			"doesn't hold up itself.",
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
		"The slot of a lease that is neither renewed nor released is taken back after LeaseTTL; the next " +
			"start reports it.",
	},
	{
		"LeakedLeaseFreesOneSlot", leakedOnce,
		"The late Release of a lease that was taken back frees no slot of another one.",
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
		"PerSite", perSite,
		"No more than PerSite requests are in flight over all names and ports of a site; others go on.",
	},
	{
		"BlockedKeyHoldsNoPlace", blockedPlace,
		"A key that is blocked or paced holds no place of MaxInFlight.",
	},
	{
		"Next", next,
		"Next returns the earliest start that can be foreseen, and takes nothing.",
	},
	{
		"DebtsAreKept", debts,
		"A key that owes a delay, a block or a counter isn't forgotten, whatever MaxHosts says.",
	},
}
