-- step runs a list of operations on the hosts of one partition, atomically, at
-- the server's time. Every operation may be run twice with the same effect as
-- once, because clients repeat calls whose reply was lost.
--
-- KEYS[1]                 the partition's generation, a hash
-- KEYS[2i], KEYS[2i+1]    host i: its state, a hash, and its queue, a sorted set
--
-- All times are microseconds; a time is the server's clock unless a name says
-- otherwise. A lease's id is PROCESS.SEQ.DELAY.FLOOR: it carries what the lease
-- asks for, so that a hand-over needs nothing but the id. An e at its end says that the gap
-- after it counts from its end.
--
-- Host fields:
--   a, pa    earliest next start; its value before the last start
--   l, pl    latest possible time of the last start (or its end); its value before that
--   lo       lease of the last start
--   b, bs    blocked until; when the block was set or lengthened
--   c        what set it: a status, network, refused or reset
--   f        refusals in a row, one for each block
--   fl       failures in a row since the last success or refusal
--   pr       lease that probes after a block
--   ad       delay by response times
--   le       delay that refusals have taught
--   n        starts since this state was made
--   bg, bn   the counting of starts began at bg, when n was bn: at the first start, the
--            last refusal, or the start after an idle time
--   cn, pc   n when le was set or shortened last, or so much less as idle times count;
--            its value before the last start
--   qs       arrivals at the queue
--   g        generation of the leases
--   ID       a lease: expiry:due:guard:state, state 1 reserved, 2 let go; then the letters of
--            what it has done and must not do twice: a adapted the delay, f counted as a failure,
--            e had no answer, so that the gap after it counts from its end too
--
-- A host goes through these states:
--
--   state    fields           event                        next      why
--   open     f = 0            refused, InARow-th failed    blocked   f = 1; le gets longer if that is learned
--   any      f = 0            nothing left of a limit      paused    b alone: it isn't counted, no probe follows
--   paused   f = 0, b > now   b is over                    open      nobody has refused: no probe
--   blocked  f > 0, b > now   b is over                    waiting   for a request to probe
--   waiting  f > 0, pr = ''   GO                           probed    the others wait for its answer
--   waiting  f > 0            quiet for FORGIVE            open      the refusals are too long ago to count
--   probed   pr = its lease   ok                           open      everybody goes on
--   probed   pr = its lease   refused, failed              blocked   f + 1, for longer
--   probed   pr = its lease   any other end                waiting   the next request probes
--   blocked  gone <= bs       refused, asks for longer     blocked   b is later; f stays: it is the same block
--
-- An answer to a request that was let go before bs decides nothing else.

local CHANNEL, ALONE = ARGV[1], ARGV[2] == '1'
local GEN, STEPPED = ARGV[3], ARGV[4] == '1'
local QUARANTINE, GUARD, LEAD, HORIZON = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local CLAIM, TTL, FORGIVE = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local HOURS = ARGV[12] -- from-to,from-to: times of the day in which requests may start; empty: any
local RESERVED, GONE = 1, 2
local HOUR = 3600000000
local DAY = 24 * HOUR
-- After so many starts without a refusal a learned delay gets shorter, as in kit.Calm.
local CALM = 20

-- int writes a time for keys and arguments, where tostring and .. would make 1.7e+15 of it.
-- Replies do without: Redis makes integers of their numbers, exact below 2^53.
local function int(x) return string.format('%.0f', x) end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- The generation tells whether the leases in this server are those that the
-- clients believe in. It changes when the server has lost its data (or its
-- latest data) and when its clock was stepped; then nothing starts until the
-- clients have told again what they hold.
local gen = {}
do
	local f = redis.call('HMGET', KEYS[1], 'run', 'id', 'q', 'chk', 'x')
	gen.run, gen.id, gen.q = f[1], f[2], tonumber(f[3] or 0)
	local chk, kept = tonumber(f[4] or 0), tonumber(f[5] or 0)
	local why
	if not gen.id or now - chk >= 20000 or now < chk then
		-- INFO costs more than the rest of a step, hence at most every 20 ms. Where
		-- an ACL forbids it, restarts from a dump can't be seen.
		local info = redis.pcall('INFO', 'server')
		local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '?'
		if not gen.id or gen.run ~= run then
			why = 'r'
		elseif now < chk then
			why = 's'
		end
		gen.run = run
		redis.call('HSET', KEYS[1], 'chk', int(now))
	end
	if STEPPED and GEN == gen.id then why = 's' end
	if why then
		gen.id, gen.q = why .. int(now), now + QUARANTINE
		redis.call('HSET', KEYS[1], 'run', gen.run, 'id', gen.id, 'q', int(gen.q), 'chk', int(now))
	end
	gen.kept = why and 0 or kept
end

-- owe keeps the generation alive until t; it must outlive the state it vouches for.
local function owe(t)
	if t > gen.kept - 3600000000 then
		gen.kept = t + 2 * 3600000000
		redis.call('HSET', KEYS[1], 'x', int(gen.kept))
		redis.call('PEXPIRE', KEYS[1], int(math.ceil((gen.kept - now) / 1000)))
	end
end
owe(now + DAY)

local numbers = {a = true, pa = true, l = true, pl = true, b = true, bs = true, f = true, fl = true, ad = true, le = true,
	n = true, bg = true, bn = true, cn = true, pc = true, qs = true}
local hosts = {}

local function set(h, field, value)
	if h[field] ~= value then
		h[field] = value
		h.dirty[field] = true
	end
end

local function drop(h, id)
	if h.leases[id] then
		h.leases[id] = nil
		h.live = h.live - 1
	end
	h.dirty[id] = true
	if h.pr == id then set(h, 'pr', '') end
end

local function hold(h, id, due, guard, state)
	if not h.leases[id] then h.live = h.live + 1 end
	local proc, delay, floor, ends = string.match(id, '^(%w+)%.%d+%.(%d+)%.(%d+)(e?)$')
	-- A lease starts within its guard at the latest.
	local expiry = state == GONE and due + guard + TTL or math.max(due, now) + CLAIM
	local lease = {id = id, proc = proc, delay = tonumber(delay), floor = tonumber(floor), ends = ends == 'e',
		expiry = expiry, due = due, guard = guard, state = state, did = h.leases[id] and h.leases[id].did or ''}
	h.leases[id] = lease
	h.dirty[id] = true
	return lease
end

-- gap is what the next start owes to one with that delay.
local function gap(h, delay)
	return math.max(delay, h.ad, h.le)
end

-- later makes l and a at least that, also for the case that the last start is undone.
local function later(h, l, a)
	set(h, 'l', math.max(h.l, l))
	set(h, 'pl', math.max(h.pl, l))
	set(h, 'a', math.max(h.a, a))
	set(h, 'pa', math.max(h.pa, a))
end

-- finish makes the end of a lease, where it counts, what the next start keeps its gap from.
local function finish(h, lease, at)
	if lease.state ~= GONE or not (lease.ends or string.find(lease.did, 'e', 1, true)) then return end
	if h.lo == lease.id then
		set(h, 'a', math.max(h.a, at + h.a - h.l))
		set(h, 'l', math.max(h.l, at))
	else
		later(h, at, at + gap(h, lease.delay))
	end
end

-- raise makes the gap that is running longer, if d is. A shorter delay holds from the next
-- start on only: the gap was promised.
local function raise(h, d)
	if h.l > 0 then set(h, 'a', math.max(h.a, h.l + d)) end
	if h.pl > 0 then set(h, 'pa', math.max(h.pa, h.pl + d)) end
end

local function load(i)
	local h = hosts[i]
	if h then return h end
	h = {key = KEYS[2 * i], queue = KEYS[2 * i + 1], a = 0, pa = 0, l = 0, pl = 0, b = 0, bs = 0, f = 0, fl = 0, ad = 0, le = 0,
		n = 0, bg = 0, bn = 0, cn = 0, pc = 0, qs = 0, lo = '', pr = '', g = '', c = '', leases = {}, live = 0, expired = 0, dirty = {}}
	hosts[i] = h
	local raw = redis.call('HGETALL', h.key)
	for j = 1, #raw, 2 do
		local k, v = raw[j], raw[j + 1]
		if numbers[k] then
			h[k] = tonumber(v)
		elseif #k <= 2 then
			h[k] = v
		else
			local expiry, due, guard, state, did = string.match(v, '^(%d+):(%d+):(%d+):(%d)(%a*)$')
			if expiry then
				local lease = hold(h, k, tonumber(due), tonumber(guard), tonumber(state))
				lease.expiry, lease.did = tonumber(expiry), did
				h.dirty[k] = nil
			else
				h.dirty[k] = true -- nobody wrote this; save deletes it
			end
		end
	end
	if h.g ~= gen.id then
		for id in pairs(h.leases) do drop(h, id) end
		if h.pr ~= '' then set(h, 'pr', '') end
		set(h, 'lo', '')
		if h.g ~= '' and string.sub(gen.id, 1, 1) == 's' then
			-- These times were told by another clock. The clients bring theirs along.
			for _, k in ipairs({'a', 'pa', 'l', 'pl', 'b', 'bs', 'bg'}) do set(h, k, 0) end
			if h.f > 0 then set(h, 'b', now) end
		end
		set(h, 'g', gen.id)
	end
	for id, lease in pairs(h.leases) do
		if lease.expiry <= now then
			if lease.state == GONE then h.expired = h.expired + 1 end
			finish(h, lease, lease.expiry)
			drop(h, id)
		end
	end
	if h.f > 0 and now > h.b + FORGIVE then
		set(h, 'f', 0)
		set(h, 'b', 0)
		set(h, 'c', '')
	end
	return h
end

local function save(h)
	local put, del = {}, {}
	local owed = math.max(h.a, h.l, h.ad > 0 and now + HOUR / 6 or 0, h.fl > 0 and now + HOUR or 0, h.le > 0 and now + 7 * DAY or 0)
	if h.f > 0 or h.b > now then owed = math.max(owed, h.b + FORGIVE) end
	for _, lease in pairs(h.leases) do owed = math.max(owed, lease.expiry) end
	for k in pairs(h.dirty) do
		local lease = h.leases[k]
		if lease then
			put[#put + 1] = k
			put[#put + 1] = int(lease.expiry) .. ':' .. int(lease.due) .. ':' .. int(lease.guard) .. ':' .. lease.state .. lease.did
		elseif numbers[k] and h[k] ~= 0 then
			put[#put + 1] = k
			put[#put + 1] = int(h[k])
		elseif not numbers[k] and #k <= 2 and h[k] ~= '' then
			put[#put + 1] = k
			put[#put + 1] = h[k]
		else
			del[#del + 1] = k
		end
	end
	if #del > 0 then redis.call('HDEL', h.key, unpack(del)) end
	if #put > 0 then
		redis.call('HSET', h.key, unpack(put))
		redis.call('PEXPIRE', h.key, int(math.ceil((math.max(owed, now) - now) / 1000) + 60000))
		owe(owed)
	end
end

-- count returns the number of leases that were let go, other than that of id,
-- since when started requests hold all n slots (0: they don't), and when the first of those started.
local function count(h, n, id)
	local gone, last, first = 0, 0, now
	for k, lease in pairs(h.leases) do
		if k ~= id and lease.state == GONE then
			gone = gone + 1
			last, first = math.max(last, lease.due), math.min(first, lease.due)
		end
	end
	return gone, gone >= n and last <= now and last or 0, first
end

local function sooner(x, y)
	return x.due < y.due or (x.due == y.due and x.id < y.id)
end

-- reservations returns the leases that wait for their start, in the order of it.
local function reservations(h)
	local order = {}
	for _, r in pairs(h.leases) do
		if r.state == RESERVED then order[#order + 1] = r end
	end
	table.sort(order, sooner)
	return order
end

-- earliest returns the next start that lease id may have, were there no block,
-- behind all reservations, or those that are sooner than me. They are followed one by one, because
-- each is moved by what has moved those before it.
local function earliest(h, id, floor, me)
	local s, l = math.max(now, h.a, gen.q), h.l
	for _, r in ipairs(reservations(h)) do
		if r.id ~= id and (not me or sooner(r, me)) then
			local at = math.max(s, l + r.floor, r.due)
			local d = gap(h, r.delay)
			s, l = at + (d > 0 and r.guard or 0) + d, at + r.guard
		end
	end
	return math.max(s, l + floor)
end

local function push(lease, due, why)
	return redis.call('PUBLISH', CHANNEL .. lease.proc, lease.id .. ' ' .. int(due) .. ' ' .. why)
end

-- open returns the earliest time from t on at which a request may start by HOURS, and go on
-- doing so for as long as a start may be late.
local function open(t)
	local at, wait = t % DAY, HOURS == '' and 0 or DAY
	for from, to in string.gmatch(HOURS, '(%d+)-(%d+)') do
		from, to = tonumber(from), tonumber(to)
		local after, before = at >= from, at < to - LEAD - GUARD
		if after and before or from > to and (after or before) then return t end
		wait = math.min(wait, (from - at) % DAY)
	end
	return t + wait
end

-- start returns when lease id may start, behind those that earliest says, and why not sooner:
-- d for the delay, b for a block, h for HOURS.
local function start(h, id, floor, me)
	local s, why = earliest(h, id, floor, me), 'd'
	if h.b > now and h.b >= s then s, why = h.b, 'b' end
	local at = open(s)
	if at > s then s, why = at, 'h' end
	return s, why
end

-- hand gives free slots to the longest waiting, with a time to start.
local function hand(h, n)
	while h.live < n do
		local first = redis.call('ZRANGE', h.queue, 0, 0)[1]
		if not first then return end
		redis.call('ZREM', h.queue, first)
		local lease = hold(h, first, now, GUARD, RESERVED)
		local s, why = start(h, first, lease.floor)
		hold(h, first, s, GUARD, RESERVED)
		-- Nobody listens: that process is gone. On a cluster, PUBLISH counts only
		-- the node's own listeners; there the reservation lapses unless it is claimed.
		if push(lease, s, why) == 0 and ALONE then drop(h, first) end
	end
end

-- again plans the reservations anew after a turn was given back or a block
-- lifted, and tells those that may start earlier; all of them if they wait for a probe.
local function again(h, probed)
	for _, r in ipairs(reservations(h)) do
		local s, why = start(h, r.id, r.floor, r)
		if probed or s < r.due - 1000 then push(hold(h, r.id, s, r.guard, RESERVED), s, why) end
	end
end

-- back undoes the letting go of a lease. One that has started nevertheless keeps the
-- number, which its next start doesn't get.
local function back(h, lease, started)
	if lease.state ~= GONE then return end
	if h.lo == lease.id then
		set(h, 'a', h.pa)
		set(h, 'l', h.pl)
		set(h, 'cn', h.pc)
		if not started then set(h, 'n', math.max(h.n - 1, 0)) end
		set(h, 'lo', '')
	end
	if h.pr == lease.id then set(h, 'pr', '') end
	lease.state = RESERVED
	h.dirty[lease.id] = true
end

-- tally counts a start at s, of a key that nobody had asked for, although it was free, for
-- idle. The delay that it gets is as short as the starts before it have made it. Where idle is longer
-- than a delay can be, the counting begins anew: how often a crawler that had nothing to
-- fetch asked says nothing about how often it may.
local function tally(h, s, idle, shortest, ceiling)
	while h.le > 0 and h.n - h.cn >= CALM do
		local d = h.le - math.floor(h.le / 50)
		set(h, 'le', d > math.max(shortest, 50) and d or 0)
		set(h, 'cn', h.cn + CALM)
	end
	if h.bg == 0 or idle > ceiling then
		set(h, 'bg', s)
		set(h, 'bn', h.n)
	end
	set(h, 'pc', h.cn)
	if h.le > 0 and idle >= ceiling then set(h, 'cn', h.cn - math.floor(idle / ceiling)) end
	set(h, 'n', h.n + 1)
end

-- told is what a client keeps of a host, to tell it after a loss of data: refusals, failures
-- in a row, delay by response times, next start, learned delay, starts since the last refusal
-- (or since an idle time), since when they are counted (0: not yet), and the cause of the block.
local function told(h)
	return h.f, h.fl, h.ad, h.a, h.le, h.n - h.bn, h.bg, h.c
end

local ops = {}

-- take asks for a turn, again and again until the reply is GO. After that it takes the
-- turn back and asks for another; started says whether the turn has been a start.
--   GO     start, guard, delay, seq, slots in use, probe, expired, guard asked for, and what told returns
--   AT     start, why               come again shortly before that time
--   WAIT   place, busy since, why, expiry, first start   every slot is taken, until then or until a push comes (if the caller listens)
--   PROBE                           a probe is on its way; a push will come
--   LATE   start, why               that is later than the caller may wait
-- why is as start tells it, or s for slots. shortest and ceiling bound the learned delay.
function ops.take(h, id, n, wait, ahead, least, listens, started, shortest, ceiling)
	n, wait, ahead, least, shortest, ceiling = tonumber(n), tonumber(wait), tonumber(ahead), tonumber(least), tonumber(shortest), tonumber(ceiling)
	local me = h.leases[id]
	if me then
		back(h, me, started == '1')
	else
		hand(h, n)
		me = h.leases[id] -- it may have been mine
	end
	if me and count(h, n, id) >= n then
		-- Restored leases have filled the slots.
		drop(h, id)
		me = nil
		redis.call('ZADD', h.queue, 0, id)
	end
	if not me then
		local place = redis.call('ZRANK', h.queue, id)
		if h.live >= n then
			local waiting = place or redis.call('ZCARD', h.queue)
			local _, since, first = count(h, n, '')
			local floor = tonumber(string.match(id, '(%d+)e?$'))
			local s, why = start(h, id, floor)
			s = s + (waiting + ahead) * least
			if wait >= 0 and s - now > wait then
				redis.call('ZREM', h.queue, id)
				return {'LATE', s, why}
			end
			if listens == '1' then
				if not place then
					set(h, 'qs', h.qs + 1)
					redis.call('ZADD', h.queue, int(h.qs), id)
				end
				redis.call('PEXPIRE', h.queue, 120000)
			end
			local expiry = now + TTL
			for _, lease in pairs(h.leases) do
				-- That a reservation lapses is for the first in the queue to see.
				if lease.state == GONE or waiting == 0 then expiry = math.min(expiry, lease.expiry) end
			end
			return {'WAIT', waiting, since, since > 0 and 's' or why, expiry, first}
		end
		-- hand left the queue empty, else the slots would be taken.
		me = hold(h, id, now, GUARD, RESERVED)
		me.due = start(h, id, me.floor)
	end
	local s, why = start(h, id, me.floor, me)
	if wait >= 0 and s + ahead * least - now > wait then
		drop(h, id)
		again(h)
		hand(h, n)
		return {'LATE', s, why}
	end
	if h.f > 0 and h.pr ~= '' and h.pr ~= id and h.leases[h.pr] then
		hold(h, id, s, GUARD, RESERVED).expiry = now + CLAIM + 1000000
		return {'PROBE'}
	end
	if s - now > HORIZON then
		hold(h, id, s, GUARD, RESERVED)
		return {'AT', s, why}
	end
	-- The reply is LEAD under way, which counts only where it arrives after s.
	local guard = math.max(GUARD, now + LEAD + GUARD - s)
	hold(h, id, s, guard, GONE)
	tally(h, s, started ~= '1' and h.l > 0 and s - math.max(h.a, h.l + me.floor, h.b) or 0, shortest, ceiling)
	local d = gap(h, me.delay)
	set(h, 'pa', h.a)
	set(h, 'pl', h.l)
	-- Without a delay there is no gap to protect, so the guard doesn't pace.
	set(h, 'a', math.max(h.a, s + (d > 0 and guard or 0) + d))
	set(h, 'l', s + guard)
	set(h, 'lo', id)
	if h.f > 0 then set(h, 'pr', id) end
	local expired = h.expired
	h.expired = 0
	return {'GO', s, guard, d, h.n, (count(h, n, '')), h.pr == id and 1 or 0, expired, GUARD, told(h)}
end

-- release gives a slot back; undone says that the request never started.
function ops.release(h, id, n, undone)
	local lease = h.leases[id]
	if lease then
		local probed = h.pr == id
		if undone == '1' then back(h, lease) else finish(h, lease, now) end
		drop(h, id)
		if probed or undone == '1' then again(h, probed) end
	else
		redis.call('ZREM', h.queue, id)
	end
	hand(h, tonumber(n))
	return lease and 1 or 0
end

-- once reports whether lease id does something for the first time, as far as is known.
local function once(h, id, what)
	local lease = h.leases[id]
	if not lease then return true end
	local did = string.find(lease.did, what, 1, true)
	if not did then
		lease.did = lease.did .. what
		h.dirty[id] = true
	end
	return not did
end

-- adapt moves the delay by response times, within least and most: atonce is what it must
-- be, and it moves half the way to half (-1: nowhere) from what it was. longer says that it
-- gets no shorter.
function ops.adapt(h, id, least, most, atonce, half, longer)
	if not once(h, id, 'a') then return 1 end
	least, half = tonumber(least), tonumber(half)
	local d = tonumber(atonce)
	if half >= 0 then d = math.max(d, (math.max(h.ad, least) + half) / 2) end
	d = math.max(least, math.min(math.ceil(d), tonumber(most)))
	if longer == '1' then d = math.max(d, h.ad) end
	if d ~= h.ad then
		raise(h, d)
		set(h, 'ad', d)
	end
	return 1
end

-- block stays away for so long, after one more refusal in a row. The first one of a series
-- makes the learned delay longer, if ceiling isn't 0: as in kit.Limits.Learn.
local function block(h, stay, cause, shortest, ceiling)
	if h.f == 0 and ceiling > 0 then
		local d, starts = math.max(h.l > 0 and h.a - h.l or 0, shortest), h.n - h.bn
		d = math.max(d + math.floor(d / 2), h.bg > 0 and starts > 0 and math.floor((now - h.bg) / starts) or 0)
		set(h, 'le', math.min(d, ceiling))
		raise(h, h.le)
	end
	set(h, 'f', math.min(h.f + 1, 255))
	set(h, 'fl', 0)
	set(h, 'bg', now)
	set(h, 'bn', h.n)
	set(h, 'cn', h.n)
	set(h, 'b', math.max(h.b, now + stay))
	set(h, 'bs', now)
	set(h, 'c', cause)
end

-- observe learns from an answer: kind is refused, failed, ok or neutral. gone is when
-- the lease was let go: what left before a block says little about it. asked is for how long
-- to stay away although it isn't counted: because it left before, or tells that nothing is left
-- of a limit. The rest is of refused and failed ones: cause is the answer; row failures are a
-- refusal; known is the number of refusals that the caller knew when it was let go, more how
-- long to stay away after one more of them, first after a first one; shortest and
-- ceiling bound what it teaches (ceiling 0: nothing).
-- Returns whether it blocked, whether it cleared, blocked until, the latest time at which a
-- request that was let go before may still start, and what told returns.
function ops.observe(h, id, n, gone, kind, asked, cause, row, known, more, first, shortest, ceiling)
	asked = tonumber(asked)
	local lease = cause == 'network' and h.leases[id]
	if lease then
		-- The attempt ends in this moment; its release comes later, and moves the gap once more.
		once(h, id, 'e')
		finish(h, lease, now)
	end
	local before, blocked, cleared = tonumber(gone) <= h.bs, 0, 0
	if kind == 'ok' then
		set(h, 'fl', 0)
		if h.f > 0 and not before then
			set(h, 'f', 0)
			set(h, 'b', 0)
			set(h, 'c', '')
			cleared = 1
		end
	elseif kind == 'failed' and not before then
		if once(h, id, 'f') then set(h, 'fl', h.fl + 1) end
		if h.fl >= tonumber(row) or h.f > 0 then kind = 'refused' end
	end
	if kind == 'refused' and not before then
		block(h, tonumber(h.f == tonumber(known) and more or first), cause, tonumber(shortest), tonumber(ceiling))
		blocked = 1
	elseif asked > 0 and now + asked > h.b and (kind ~= 'refused' or h.f > 0 or h.b > now) then
		set(h, 'b', now + asked)
		set(h, 'bs', now)
		set(h, 'c', kind == 'refused' and cause or 'reset')
		blocked = 1
	end
	local latest = 0
	if blocked == 1 or lease then
		for _, lease in pairs(h.leases) do
			if lease.state == GONE then latest = math.max(latest, lease.due + lease.guard) end
		end
	end
	if blocked == 1 or cleared == 1 or h.pr == id then
		-- A probe that told nothing leaves it to the next one.
		set(h, 'pr', '')
		again(h, true)
		hand(h, tonumber(n))
	end
	return {blocked, cleared, h.b, latest, told(h)}
end

-- served tells of a success that changes nothing else.
function ops.served(h)
	set(h, 'fl', 0)
	return 1
end

-- renew prolongs a lease whose body is still being read.
function ops.renew(h, id)
	local lease = h.leases[id]
	if lease and lease.state == GONE then
		lease.expiry = now + TTL
		h.dirty[id] = true
	end
	return lease and 1 or 0
end

-- restore tells what a client knows of a host, times as durations from now, in the past where
-- they are negative: the next start, the last start, the block with its cause, refusals and failures in a row,
-- the learned delay, the starts since so long ago, and its leases with the time they have left.
function ops.restore(h, a, l, b, cause, f, fl, le, starts, since, ...)
	later(h, now + l, now + a)
	if tonumber(b) > 0 or tonumber(f) > 0 then -- over, but with a probe to come
		if now + b > h.b then set(h, 'c', cause) end
		set(h, 'b', math.max(h.b, now + b))
	end
	if tonumber(b) > 0 then set(h, 'bs', now) end
	set(h, 'f', math.max(h.f, tonumber(f)))
	set(h, 'fl', math.max(h.fl, tonumber(fl)))
	if tonumber(le) > h.le then
		set(h, 'le', tonumber(le))
		set(h, 'cn', h.n)
	end
	if tonumber(starts) > 0 and (h.bg == 0 or tonumber(starts) > h.n - h.bn) then
		set(h, 'bg', now - since)
		set(h, 'bn', h.n - starts)
	end
	local leases = {...}
	for i = 1, #leases, 2 do
		if not h.leases[leases[i]] or h.leases[leases[i]].state ~= GONE then
			hold(h, leases[i], now, GUARD, GONE).expiry = now + leases[i + 1]
		end
	end
	return 1
end

-- peek returns the earliest start of a newcomer, without taking a place.
function ops.peek(h, floor, n, least)
	local waiting = redis.call('ZCARD', h.queue)
	return {open(start(h, '', tonumber(floor)) + waiting * tonumber(least))}
end

local replies = {now, gen.id, math.max(gen.q - now, 0)}
local i = 13
while ARGV[i] do
	local name, host, args = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
	local h = load(host)
	replies[#replies + 1] = ops[name](h, unpack(ARGV, i + 3, i + 2 + args))
	i = i + 3 + args
end
for _, h in pairs(hosts) do save(h) end
return replies
