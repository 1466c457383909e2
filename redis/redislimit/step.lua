#!lua
-- (The first line makes a server that is full, or has too few replicas, refuse a call whole.)
--
-- step runs a list of operations on the hosts of one partition, atomically, at the server's time.
-- Every operation may be run twice with the same effect as once, because clients repeat calls
-- whose reply was lost. A call that comes too late, or for another generation, does nothing; nor does
-- one to a host to which a later call of its process, or the same one, has come.
--
-- KEYS[1]     the partition's generation
-- KEYS[2]     its processes, a hash: PROCESS -> {last sign of life, name, promise}
-- KEYS[2+i]   host i: its state
-- ARGV[1]     {header, {operation, i, arguments...}...}
-- returns     {now, generation, stale, listeners, lapsed, number of the call, answers...}
--
-- Keys, arguments and the answer are MessagePack, which costs a fraction of hashes and lists.
-- All times are microseconds; a time is the server's clock unless a name says otherwise.
--
-- Fields of a host; those that are missing are 0 or empty:
--   a, pa    earliest next start; its value before the last start
--   l, pl    latest possible time of the last start (or its end); its value before that
--   lo       lease of the last start
--   b, bs    blocked until; when the block was set or lengthened
--   c        what set it, as in hostlimit.Refusals
--   al       whether requests start one at a time, until one succeeds
--   pr       lease that does, the probe
--   f        refusals in a row
--   ad       delay by response times
--   le, ea   delay that refusals have taught; when it was set or shortened last
--   R        the rest of the host's hostlimit.Refusals: clients write and read it
--   v        version of b, c, al, f, le and R: a time, and larger after each change
--   rv       version when R was written
--   n        starts since this state was made
--   e        stamp of the latest start that has ended
--   X        turns whose slots were taken back, until a GO tells of them: {process, number of the start}
--   sv, bg   successes since bg: the first start, the last lesson, or the start after an idle time
--   k        until when it is remembered that a block was lifted, which a Store or a client may still have
--   g        generation of the turns
--   s        the generation's s when these times were written
--   lc       when their processes were last looked for
--   L        turns, see below, in the order in which they go
--   P, O     of each process that has called since t, and in the time before: the number of its last call
--   t        when P began
--
-- The states of a host are those of hostlimit.Refusals: clients compute what an answer does, and
-- write it if nothing has changed meanwhile (ops.outcome).
--
-- A turn goes through these:
--
--   state     event                              next       why
--   -         take, every slot is taken          QUEUED     first by priority, then by the time of arrival
--   -         take, a slot is free               RESERVED   or GONE at once, if its start is near
--   QUEUED    a slot is free                     RESERVED   a push tells, if somebody listens
--   QUEUED    not asked again for WAITING        -
--   RESERVED  take, shortly before its start     GONE
--   RESERVED  the start before owes less         the same   earlier than was said: a push tells
--   RESERVED  CLAIM after its start              -          its process is gone
--   GONE      started, or its release            the same   its window ends with its start
--   GONE      take with a larger number          RESERVED   it missed its window, or starts again
--   GONE      TTL after its start or renewal     -          nobody reads the body
--   any       release; another generation        -
--   any       its process shows no life for DEAD -

local VERSION = 6
local ID, SEQ, DELAY, FLOOR, ENDS, PRIO, CAME, EXPIRY, DUE, GUARD, STATE, DID, NUMBER = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
local QUEUED, RESERVED, GONE = 0, 1, 2
local SECOND = 1000000
local HOUR = 3600 * SECOND
local DAY = 24 * HOUR
local WAITING = 2 * 60 * SECOND
-- No copy of a call comes so long after it: clients' patience ends before.
local LATEST = 20 * SECOND

local call = cmsgpack.unpack(ARGV[1])
local CHANNEL, ALONE, GEN, STEPPED, NOTAFTER, QUARANTINE, WINDOW, LEAD, HORIZON, CLAIM, TTL, FORGIVE, HOURS,
	PROC, BEAT, PROMISE, DEAD, SPREAD, CALL = unpack(call[1])

local time = redis.call('TIME')
local now = time[1] * SECOND + time[2]

local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil

-- process reads what KEYS[2] has of a process: nil where that is nothing, or broken.
local function process(raw)
	local ok, p = pcall(cmsgpack.unpack, raw)
	return ok and type(p) == 'table' and type(p[1]) == 'number' and p or nil
end

-- The generation tells whether the leases in this server are those that the
-- clients believe in. It changes when the server has lost its data (or its
-- latest data) and when its clock was stepped; then nothing starts until the
-- clients have told again what they hold.
--   id     names it
--   run    the server process that made it
--   q      end of the quarantine
--   chk    when the server process was last looked for
--   x      until when it is kept
--   m      processes that live
--   p, pd  end and length of a pause that a person has ordered
--   s      sum of the steps of the clock, as far as they are known
local gen, unsaved
do
	local raw = redis.pcall('GET', KEYS[1])
	local ok, value = true, nil
	if type(raw) == 'table' then
		return redis.error_reply('BADKEY ' .. KEYS[1] .. ': ' .. raw.err)
	elseif raw then
		ok, value = pcall(cmsgpack.unpack, raw)
	end
	if not ok or value and type(value) ~= 'table' then
		return redis.error_reply('BADKEY ' .. KEYS[1] .. ': not written by redislimit')
	end
	gen = value or {v = VERSION, q = 0, chk = 0, x = 0, m = 1}
	-- One of an older version is taken over when no process has shown life for DEAD.
	local older = gen.v ~= VERSION and type(gen.v) == 'number' and gen.v < VERSION
	for _, raw in ipairs(older and redis.call('HVALS', KEYS[2]) or {}) do
		local p = process(raw)
		if not p or p[1] > now - DEAD and p[1] <= now then older = false end
	end
	if older then
		redis.call('DEL', KEYS[2])
		gen = {v = VERSION, q = 0, chk = 0, x = 0, m = 1}
	elseif gen.v ~= VERSION then
		return redis.error_reply('BADVERSION ' .. KEYS[1] .. ' is of version ' .. tostring(gen.v) .. ', this process speaks ' .. VERSION)
	end
	gen.s = gen.s or 0
	local why, shift
	if not gen.id or now - gen.chk >= SECOND / 10 or now < gen.chk then
		-- INFO costs more than the rest of a step, hence at most every 100 ms: a server that has lost
		-- what it stored takes longer to be back. Where
		-- an ACL forbids it, restarts from a dump can't be seen.
		local info = redis.pcall('INFO', 'server')
		local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '?'
		if now < gen.chk then
			why, shift = 's', now - gen.chk -- also that of another server, after a failover
		elseif not gen.id or gen.run ~= run then
			why = 'r'
		end
		gen.run = run
		unsaved = true
	end
	if STEPPED ~= 0 and GEN == gen.id then why, shift = 's', STEPPED end
	if why then
		gen.id, gen.q, gen.x = why .. string.format('%.0f', now), now + QUARANTINE, 0
		if why == 's' then
			redis.call('DEL', KEYS[2])
			gen.s = gen.s + shift
			if gen.p then gen.p = min(gen.p + shift, now + gen.pd) end
		end
		if not ALONE then redis.call('PUBLISH', CHANNEL .. 'all', KEYS[1]) end
		unsaved = true
	end
	if unsaved then gen.chk = now end
end

-- owe keeps the generation alive until t; it must outlive the state it vouches for.
local function owe(t)
	if t > gen.x - HOUR then
		gen.x = t + 2 * HOUR
		unsaved = true
	end
end
owe(now + DAY)

local function finishGen()
	if unsaved then redis.call('SET', KEYS[1], cmsgpack.pack(gen), 'PX', ceil((gen.x - now) / 1000)) end
end

-- A call that was under way for so long that its client has given it up, or that speaks of leases of
-- another generation, does nothing.
if GEN ~= gen.id or now > NOTAFTER then
	finishGen()
	return cmsgpack.pack({now, gen.id, true, -1, false, CALL})
end

-- A sign of life comes along with a call of a process now and then.
local listeners, lapsed = -1, false
if BEAT == '-' then
	redis.call('HDEL', KEYS[2], PROC)
elseif BEAT ~= '' then
	local was = process(redis.call('HGET', KEYS[2], PROC))
	lapsed = not was or was[1] < now - DEAD
	redis.call('HSET', KEYS[2], PROC, cmsgpack.pack({now, BEAT, PROMISE}))
	redis.call('PEXPIRE', KEYS[2], DAY / 1000)
	listeners = redis.call('PUBLISH', CHANNEL .. PROC, '')
	if lapsed or SPREAD > 0 then
		local live = 0
		local all = redis.call('HGETALL', KEYS[2])
		for i = 1, #all, 2 do
			local p = process(all[i + 1]) or {0}
			if p[1] > now - 1500000 then live = live + 1 end
			if p[1] < now - HOUR then redis.call('HDEL', KEYS[2], all[i]) end
		end
		if gen.m ~= live then gen.m, unsaved = live, true end
	end
end
-- Where processes that can't reach this server go on by themselves, those that can leave them their share.
local SHARE = SPREAD > gen.m and SPREAD / max(gen.m, 1) or 1

local defaults = {__index = {a = 0, pa = 0, l = 0, pl = 0, b = 0, bs = 0, f = 0, al = false, ad = 0, k = 0, le = 0, ea = 0, n = 0, sv = 0, bg = 0, s = 0,
	v = 0, rv = 0, lc = 0, e = 0, t = 0, lo = '', pr = '', g = '', c = '', R = ''}}
local hosts, keys, failed = {}, {}, {} -- states by number, their keys, and why nothing is done to a host

-- set stores a field; the value of a missing one isn't stored.
local function set(h, field, value)
	if value == defaults.__index[field] then value = nil end
	rawset(h, field, value)
end

-- sooner reports whether x goes before y.
local function sooner(x, y)
	if x[PRIO] ~= y[PRIO] then return x[PRIO] > y[PRIO] end
	if x[CAME] ~= y[CAME] then return x[CAME] < y[CAME] end
	return x[ID] < y[ID]
end

-- enter gives r its place.
local function enter(h, r)
	local i = #h.L + 1
	while i > 1 and sooner(r, h.L[i - 1]) do i = i - 1 end
	table.insert(h.L, i, r)
end

local function find(h, id)
	for i, r in ipairs(h.L) do
		if r[ID] == id then return r, i end
	end
end

local function drop(h, id)
	local _, i = find(h, id)
	if i then table.remove(h.L, i) end
	if h.pr == id then set(h, 'pr', '') end
end

-- live returns the number of slots that are taken.
local function live(h)
	local n = 0
	for _, r in ipairs(h.L) do
		if r[STATE] ~= QUEUED then n = n + 1 end
	end
	return n
end

-- reserve gives r a slot and a time to start.
local function reserve(r, due)
	r[DUE], r[GUARD], r[STATE], r[EXPIRY] = due, WINDOW, RESERVED, max(due, now) + CLAIM
end

-- gap is what the next start owes to one with that delay.
local function gap(h, delay)
	return ceil(max(delay, h.ad, h.le) * SHARE)
end

-- later makes l and a at least that, also for the case that the last start is undone.
local function later(h, l, a)
	set(h, 'l', max(h.l, l))
	set(h, 'pl', max(h.pl, l))
	set(h, 'a', max(h.a, a))
	set(h, 'pa', max(h.pa, a))
end

-- finish makes the end of a lease, where it counts, what the next start keeps its gap from.
local function finish(h, r, at)
	if r[STATE] ~= GONE or not r[ENDS] and not string.find(r[DID], 'e', 1, true) then return end
	if h.lo == r[ID] then
		set(h, 'a', max(h.a, at + h.a - h.l))
		set(h, 'l', max(h.l, at))
	else
		later(h, at, at + gap(h, r[DELAY]))
	end
end

-- raise makes the gap that is running longer, if d is. A shorter delay holds from the next
-- start on only: the gap was promised.
local function raise(h, d)
	if h.l > 0 then set(h, 'a', max(h.a, h.l + d)) end
	if h.pl > 0 then set(h, 'pa', max(h.pa, h.pl + d)) end
end

-- leak notes that the slot of r is taken back.
local function leak(h, r)
	if r[STATE] ~= GONE then return end
	h.X = h.X or {}
	if #h.X < 64 then h.X[#h.X + 1] = {string.match(r[ID], '^[^.]+'), r[NUMBER] or 0} end
end

-- fail makes nothing happen to host i: its key is broken or, with OLD, a later call was here.
local function fail(i, why, kind)
	failed[i] = {kind or 'ERR', KEYS[2 + i] .. ': ' .. tostring(type(why) == 'table' and why.err or why)}
end

local function load(i)
	if hosts[i] or failed[i] then return hosts[i] end
	local raw = redis.pcall('GET', KEYS[2 + i])
	if type(raw) == 'table' then return fail(i, raw) end
	local ok, h = true, {}
	if raw then ok, h = pcall(cmsgpack.unpack, raw) end
	if not ok or type(h) ~= 'table' then return fail(i, 'not written by redislimit') end
	setmetatable(h, defaults)
	if now - h.t > LATEST then h.P, h.O, h.t = nil, h.P, now end
	h.P = h.P or {}
	if max(h.P[PROC] or 0, h.O and h.O[PROC] or 0) >= CALL then return fail(i, 'a later call was here', 'OLD') end
	h.P[PROC] = CALL
	h.L = h.L or {}
	keys[h] = KEYS[2 + i]
	hosts[i] = h
	if h.g ~= gen.id then
		h.L = {}
		set(h, 'pr', '')
		set(h, 'lo', '')
		h.g = gen.id
	end
	if h.s ~= gen.s then
		-- These times were told by another clock. Where a process has slept, which looks the same, what
		-- is owed gets no longer than it was at first.
		for _, times in ipairs({{'l', 'a'}, {'pl', 'pa'}, {'bs', 'b', 'k'}}) do
			local by = min(gen.s - h.s, now - h[times[1]])
			for _, k in ipairs(times) do set(h, k, h[k] > 0 and h[k] + by or 0) end
		end
		for _, k in ipairs({'bg', 'ea', 'lc', 'e', 't'}) do set(h, k, 0) end
		set(h, 's', gen.s)
	end
	for j = #h.L, 1, -1 do
		local r = h.L[j]
		if r[EXPIRY] <= now then
			leak(h, r)
			finish(h, r, r[EXPIRY])
			drop(h, r[ID])
		end
	end
	if h.al and now > h.b + FORGIVE then
		for _, k in ipairs({'f', 'al', 'b', 'c'}) do set(h, k, nil) end
		set(h, 'v', h.v + 1) -- the same each time, as it may not be stored
	end
	return h
end

local function save(h)
	local owed = max(now, h.a, h.l, h.k)
	if h.ad > 0 then owed = max(owed, now + HOUR / 6) end
	if h.R ~= '' then owed = max(owed, now + HOUR) end
	if h.le > 0 then owed = max(owed, now + 7 * DAY) end
	if h.al or h.b > now then owed = max(owed, h.b + FORGIVE) end
	for _, r in ipairs(h.L) do owed = max(owed, r[EXPIRY]) end
	local L = h.L
	if #L == 0 then h.L = nil end
	redis.call('SET', keys[h], cmsgpack.pack(h), 'PX', ceil((owed - now) / 1000) + 60000)
	h.L = L
	owe(owed)
end

-- count returns the number of leases that were let go, other than that of id,
-- since when started requests hold all n slots (0: they don't), and when the first of those started.
local function count(h, n, id)
	local gone, last, first = 0, 0, now
	for _, r in ipairs(h.L) do
		if r[STATE] == GONE and r[ID] ~= id then
			gone = gone + 1
			last, first = max(last, r[DUE]), min(first, r[DUE])
		end
	end
	return gone, gone >= n and last <= now and last or 0, first
end

-- those returns the turns of a state, in the order in which they go.
local function those(h, state)
	local order = {}
	for _, r in ipairs(h.L) do
		if r[STATE] == state then order[#order + 1] = r end
	end
	return order
end

-- open returns the earliest time from t on at which a request may start by HOURS, and go on
-- doing so for as long as a start may be late.
local function open(t)
	if not HOURS[1] then return t end
	local at, wait = t % DAY, DAY
	for _, window in ipairs(HOURS) do
		local from, to = unpack(window)
		local after, before = at >= from, at < to - LEAD - WINDOW
		if after and before or from > to and (after or before) then return t end
		wait = min(wait, (from - at) % DAY)
	end
	return t + wait
end

-- start returns when a turn may start, behind the reservations that are sooner than me, or behind
-- all, and why not sooner: d for the delay, b for a block, h for HOURS. The reservations are followed
-- one by one, because each is moved by what has moved those before it.
local function start(h, least, me)
	local s, l, why = max(now, h.a, h.b, gen.q, gen.p or 0), h.l, 'd'
	for _, r in ipairs(those(h, RESERVED)) do
		if r ~= me and (not me or sooner(r, me)) then
			local at = max(s, l + r[FLOOR])
			local d = gap(h, r[DELAY])
			s, l = at + (d > 0 and r[GUARD] or 0) + d, at + r[GUARD]
		end
	end
	s = max(s, l + least)
	if h.b > now and h.b >= s then why = 'b' end
	local at = open(s)
	if at > s then s, why = at, 'h' end
	return s, why
end

-- push tells the process of r when it may start.
local function push(r, due, why)
	return redis.call('PUBLISH', CHANNEL .. string.match(r[ID], '^[^.]+'), cmsgpack.pack({r[ID], due, now, why}))
end

-- told is what a client keeps of a host, to compute what an answer does, and to tell it after a loss
-- of data.
local function told(h)
	return h.a, h.ad, h.l > 0 and max(0, floor((h.a - h.l) / SHARE)) or 0, h.sv, h.bg > 0 and h.bg or now, h.b, h.bs, h.c, h.al, h.f, h.le, h.ea, h.v, h.R
end

-- proclaim tells every process of a block, or that there is none any more; act is 1 if a person has
-- blocked the host, and 2 if one has lifted the block.
local function proclaim(h, act)
	redis.call('PUBLISH', CHANNEL .. 'all', cmsgpack.pack({keys[h], now, act, told(h)}))
end

-- byHand reports whether a person has blocked the host.
local function byHand(h)
	return h.b > now and string.sub(h.c, 1, 9) == 'by hand: '
end

-- latest returns when the last request that was let go may still start. Of those that were let go
-- before a loss of data nothing is known, but that they start within the quarantine.
local function latest(h)
	local t = gen.q > now and gen.q or 0
	for _, r in ipairs(h.L) do
		if r[STATE] == GONE then t = max(t, r[DUE] + r[GUARD]) end
	end
	return t
end

-- hand gives free slots to the longest waiting, with a time to start. me is asking, and needs no push.
local function hand(h, n, me)
	local free = n - live(h)
	if free <= 0 or #h.L == n - free then return end
	for _, r in ipairs(those(h, QUEUED)) do
		local s, why = start(h, r[FLOOR], r)
		-- Where nobody listens it will ask. On a cluster, PUBLISH counts only the node's own
		-- listeners; there the reservation lapses unless it is claimed.
		if r == me or push(r, s, why) > 0 or not ALONE then
			reserve(r, s)
			free = free - 1
			if free == 0 then return end
		end
	end
end

-- replan plans a reservation anew, and tells its process if that is earlier than was said, or if tell.
local function replan(h, r, tell)
	local s, why = start(h, r[FLOOR], r)
	if tell or s < r[DUE] - 1000 then
		reserve(r, s)
		push(r, s, why)
	end
end

-- again plans the reservations anew after a turn was given back or a block
-- lifted, and tells those that may start earlier; all of them if they wait for a probe.
local function again(h, probed)
	for _, r in ipairs(those(h, RESERVED)) do replan(h, r, probed) end
end

-- follow does so for the first of them after a start, which may be owed less than was planned. It
-- returns whether there is one.
local function follow(h)
	local first = those(h, RESERVED)[1]
	if first then replan(h, first) end
	return first ~= nil
end

-- began ends the window of r, which has started when this clock showed at, at the latest: what is
-- left of the window isn't added to the gap. It does nothing where the gap counts from an end, or
-- from another start.
local function began(h, r, at)
	at = max(at, r[DUE], h.pl) -- pl and pa are what others owe
	if h.lo ~= r[ID] or h.l ~= r[DUE] + r[GUARD] or at >= h.l or h.a <= h.l or string.find(r[DID], 'e', 1, true) then return end
	set(h, 'a', max(at + h.a - h.l, h.pa))
	set(h, 'l', at)
	r[GUARD] = at - r[DUE]
	follow(h)
end

-- back undoes the letting go of a lease. started is the take by which it has started, 0 if it has
-- never started: what it was let go for after that was no start.
local function back(h, r, started)
	if r[STATE] ~= GONE then return end
	if r[SEQ] ~= started then set(h, 'n', max(h.n - 1, 0)) end
	if h.lo == r[ID] then
		set(h, 'a', h.pa)
		set(h, 'l', h.pl)
		set(h, 'lo', '')
	end
	if h.pr == r[ID] then set(h, 'pr', '') end
	r[STATE] = RESERVED
end

-- bury drops the turns of processes that show no life.
local function bury(h)
	if now - h.lc < SECOND / 2 then return end
	h.lc = now
	local seen, dead = {[PROC] = true}, {}
	for _, r in ipairs(h.L) do
		local proc = string.match(r[ID], '^[^.]+')
		if seen[proc] == nil then
			local p = process(redis.call('HGET', KEYS[2], proc))
			seen[proc] = p and p[1] > now - DEAD or false
		end
		if not seen[proc] then dead[#dead + 1] = r end
	end
	for _, r in ipairs(dead) do
		leak(h, r)
		finish(h, r, now)
		drop(h, r[ID])
	end
end

-- tally counts a start at s, of a key that nobody had asked for, although it was free, for idle.
-- Where that is longer than a delay can be, the counting of successes begins anew: how often a
-- crawler that had nothing to fetch asked says nothing about how often it may.
local function tally(h, s, idle, ceiling)
	if h.bg == 0 or idle > ceiling then
		set(h, 'bg', s)
		set(h, 'sv', 0)
	end
	set(h, 'n', h.n + 1)
end

local ops = {}

-- take asks for a turn, again and again until the reply is GO. After that it takes the
-- turn back and asks for another; started is the seq of the take by which the turn has started, 0 if
-- it hasn't. seq numbers the takes of the lease.
--   GO     start, guard, delay, slots in use, probe, X, e, whether others wait, and what told returns
--   AT     start, why, and what told returns   come again shortly before that time
--   WAIT   place, why, busy since, expiry, first start   every slot is taken, until then or until a push comes
--   LATE   start, why, and what told returns   that is later than the caller may wait, or a person has blocked the host
-- why is as start tells it, s for slots, or p for the answer to a probe that is on its way. ceiling bounds the learned delay. Turns go by priority,
-- then by when they came, which is so long ago.
function ops.take(h, id, seq, n, wait, least, started, ceiling, delay, least2, ends, prio, ago)
	local me, at = find(h, id)
	if me then
		back(h, me, started)
		me[SEQ], me[DELAY], me[FLOOR], me[ENDS] = seq, delay, least2, ends
		if me[PRIO] ~= prio then
			me[PRIO] = prio
			enter(h, table.remove(h.L, at))
		end
	else
		me = {id, seq, delay, least2, ends, prio, now - ago, 0, now, WINDOW, QUEUED, ''}
	end
	if byHand(h) then
		drop(h, id)
		return {'LATE', h.b, 'b', told(h)}
	end
	if me[STATE] == RESERVED and count(h, n, id) >= n then
		me[STATE] = QUEUED -- restored leases have filled the slots
	end
	if me[STATE] == QUEUED and live(h) >= n or h.pr ~= '' and h.pr ~= id then bury(h) end
	if me[STATE] == QUEUED then
		hand(h, n, me)
		if me[STATE] == QUEUED and live(h) >= n then
			if not find(h, id) then enter(h, me) end
			local place = 0
			for i, r in ipairs(those(h, QUEUED)) do
				if r == me then place = i - 1 end
			end
			local _, since, first = count(h, n, '')
			local s, why = start(h, me[FLOOR])
			s = s + place * least
			if s - now > wait then
				drop(h, id)
				return {'LATE', s, why, told(h)}
			end
			me[EXPIRY] = now + WAITING
			local expiry = now + TTL
			for _, r in ipairs(h.L) do
				-- That a reservation lapses is for the first in the queue to see.
				if r[STATE] == GONE or r[STATE] == RESERVED and place == 0 then expiry = min(expiry, r[EXPIRY]) end
			end
			return {'WAIT', place, since > 0 and 's' or why, since, expiry, first}
		end
		if not find(h, id) then enter(h, me) end
		me[STATE] = RESERVED
	end
	local s, why = start(h, me[FLOOR], me)
	if s - now > wait then
		drop(h, id)
		again(h)
		hand(h, n)
		return {'LATE', s, why, told(h)}
	end
	reserve(me, s)
	if h.al and h.pr ~= '' and h.pr ~= id and find(h, h.pr) then
		me[EXPIRY] = now + CLAIM + SECOND
		return {'WAIT', 0, 'p', 0, now + TTL, 0}
	end
	if s - now > HORIZON then return {'AT', s, why, told(h)} end
	-- The reply is LEAD under way, which counts only where it arrives after s.
	local guard = max(WINDOW, now + LEAD + WINDOW - s)
	-- A lease starts within its guard at the latest.
	me[GUARD], me[STATE], me[EXPIRY] = guard, GONE, s + guard + TTL
	tally(h, s, started == 0 and h.l > 0 and s - max(h.a, h.l + me[FLOOR], h.b, gen.p or 0) or 0, ceiling)
	me[NUMBER] = nil
	-- It owes as much where it counts from its end, although the delay may be shorter by then.
	me[DELAY] = max(me[DELAY], h.ad, h.le)
	local d = ceil(me[DELAY] * SHARE)
	set(h, 'pa', h.a)
	set(h, 'pl', h.l)
	-- Without a delay there is no gap to protect, so the guard doesn't pace.
	set(h, 'a', max(h.a, s + (d > 0 and guard or 0) + d))
	set(h, 'l', s + guard)
	set(h, 'lo', id)
	if h.al then set(h, 'pr', id) end
	local awaited = follow(h)
	local taken = h.X or {}
	h.X = nil
	return {'GO', s, guard, d, (count(h, n, '')), h.pr == id, taken, h.e, awaited, told(h)}
end

-- release gives a slot back; undone says that the request hasn't started since it was let go, and
-- started is as for take: the turn may have been let go once more since then. at is the stamp of its
-- start, 0 if that is void, and by as for started.
function ops.release(h, id, n, undone, started, at, by)
	set(h, 'e', max(h.e, at))
	local r = find(h, id)
	if r then
		if not undone and r[SEQ] == started then began(h, r, by) end
		local probed, held = h.pr == id, r[STATE] ~= QUEUED
		local oncemore = r[STATE] == GONE and started > 0 and r[SEQ] ~= started
		if not undone and oncemore and (r[ENDS] or string.find(r[DID], 'e', 1, true)) then
			later(h, now, now + gap(h, r[DELAY])) -- the start before that ends now
		end
		if undone or oncemore then back(h, r, started) else finish(h, r, now) end
		drop(h, id)
		if held and (probed or undone) then again(h, probed) end
	end
	hand(h, n)
	return {}
end

-- once reports whether lease id does something for the first time, as far as is known.
local function once(h, id, what)
	local r = find(h, id)
	if not r then return true end
	local did = string.find(r[DID], what, 1, true)
	if not did then r[DID] = r[DID] .. what end
	return not did
end

-- outcome takes in what became of lease id, or what a person does: act is 1 for a block, 2 for a
-- clearing. Of that it does no part twice, as far as is known.
--
-- It moves the delay by response times, within least and most (0: not at all): atonce is what it must
-- be, and it moves half the way to half (-1: nowhere) from what it was. longer says that it gets no
-- shorter. ok says that the outcome is a success.
--
-- It stores the host's refusals as a client has changed them, if they still are of version v: stay is
-- what is left of the block (-1: it ends as before), newly whether that is set or lengthened, taught
-- and eased whether le is longer or shorter, ended whether the attempt has ended without an answer,
-- and owes delay from now on. Without v nothing is to be changed where the host has no refusals.
--
-- It returns false where the client has to compute anew, the latest time at which a request that was let
-- go before may still start, if there is a block now, and what told returns.
function ops.outcome(h, id, least, most, atonce, half, longer, ok, v, n, R, f, al, stay, newly, c, le, taught, eased, blocked, cleared, act, ended, delay)
	if most > 0 and once(h, id, 'a') then
		local d = atonce
		if half >= 0 then d = max(d, (max(h.ad, least) + half) / 2) end
		d = max(least, min(ceil(d), most))
		if longer then d = max(d, h.ad) end
		if d ~= h.ad then
			raise(h, d)
			set(h, 'ad', d)
		end
	end
	if not v then
		if ok and (h.R ~= '' or h.le > 0 or h.al or h.f > 0) then return {false, 0, told(h)} end
		if ok and once(h, id, 's') then set(h, 'sv', h.sv + 1) end
		return {true}
	end
	local lease = find(h, id)
	if lease and string.find(lease[DID], 'o', 1, true) then return {true, latest(h), told(h)} end
	if v ~= h.v then return {false, 0, told(h)} end
	once(h, id, 'o')
	if ended and lease then
		-- The attempt ends in this moment; its release comes later, and moves the gap once more.
		once(h, id, 'e')
		finish(h, lease, now)
	elseif ended then
		-- The lease was lost with the server's data, and may be told of by a restore that comes later.
		later(h, now, now + max(delay, gap(h, 0)))
	end
	if cleared then set(h, 'k', max(h.b, now) + FORGIVE) end
	if blocked then set(h, 'k', 0) end
	if stay ~= -1 then set(h, 'b', now + stay) end
	if newly then set(h, 'bs', now) end
	if ok then set(h, 'sv', h.sv + 1) end
	if taught then
		raise(h, le)
		set(h, 'bg', now)
		set(h, 'sv', 0)
	end
	if taught or eased then set(h, 'ea', now) end
	set(h, 'c', c)
	set(h, 'al', al)
	set(h, 'f', f)
	set(h, 'le', le)
	set(h, 'R', R)
	set(h, 'v', max(now, h.v + 1))
	set(h, 'rv', h.v)
	if blocked or cleared then proclaim(h, act) end
	if blocked or cleared or h.pr == id then
		-- A probe that told nothing leaves it to the next one.
		set(h, 'pr', '')
		again(h, true)
		hand(h, n)
	end
	return {true, (blocked or ended) and latest(h) or 0, told(h)}
end

-- started tells the number of a start by the take seq, and the latest time that this clock may have
-- shown then.
function ops.started(h, id, seq, number, by)
	local r = find(h, id)
	if r and r[STATE] == GONE and r[SEQ] == seq then
		r[NUMBER] = number
		began(h, r, by)
	end
	return {}
end

-- renew prolongs a lease whose body is still being read.
function ops.renew(h, id)
	local r = find(h, id)
	if r and r[STATE] == GONE then r[EXPIRY] = now + TTL end
	return {}
end

-- restore tells what a client knows of a host, times as durations from now, in the past where
-- they are negative: the next start, the last start, and its leases, lists of five: id, number, the time
-- they have left, delay, and whether the gap counts from their end. all says that the server may
-- have lost the rest too: the block with its cause, al, f, le, when that was set, v, R, and the
-- successes since so long ago. Of two clients the later version holds, and the later block.
function ops.restore(h, all, a, l, leases, b, cause, al, f, le, ea, v, R, served, since)
	later(h, now + l, now + a)
	if all then
		if h.k >= now and v <= h.rv then b, al, f = 0, false, 0 end -- that was lifted since
		if b > 0 or al then -- over, but with a probe to come
			if now + b > h.b then set(h, 'c', cause) end
			set(h, 'b', max(h.b, now + b))
		end
		if b > 0 then set(h, 'bs', now) end
		set(h, 'al', h.al or al)
		set(h, 'f', max(h.f, f))
		set(h, 'le', max(h.le, le))
		set(h, 'ea', max(h.ea, now + ea))
		if v > h.rv then
			set(h, 'R', R)
			set(h, 'rv', v)
		end
		set(h, 'v', max(now, h.v + 1))
		if h.bg == 0 or served > h.sv then
			set(h, 'bg', now + since)
			set(h, 'sv', served)
		end
	end
	for _, lease in ipairs(leases) do
		local id, seq, left, delay, ends = unpack(lease)
		local r = find(h, id)
		if not r then
			enter(h, {id, seq, delay, 0, ends, 0, 0, now + left, now, WINDOW, GONE, ''})
		elseif r[STATE] ~= GONE then
			r[SEQ], r[EXPIRY], r[DUE], r[STATE] = max(seq, r[SEQ]), now + left, now, GONE
		end
	end
	return {}
end

-- recall tells what a client's Store has of a host: the end of the block as a duration from now, its
-- cause, refusals, the learned delay. It returns what told returns.
function ops.recall(h, b, cause, f, le)
	if h.k < now then
		local blocks = now + b > max(h.b + SECOND, now) -- else it is the same block, by two clocks
		if blocks or f > 0 and h.n == 0 and h.b == 0 then -- over, but with a probe to come
			if not byHand(h) then set(h, 'c', cause) end
			set(h, 'b', now + b)
			set(h, 'f', max(h.f, f))
			if f > 0 then set(h, 'al', true) end
		end
		if blocks then
			set(h, 'bs', now)
			proclaim(h, 0)
		end
	end
	if h.n == 0 and h.le == 0 then
		set(h, 'le', le)
		set(h, 'ea', now)
	end
	set(h, 'v', max(now, h.v + 1))
	return {told(h)}
end

-- peek returns the earliest start of a newcomer, without taking a place, and what told returns.
function ops.peek(h, least, n, each)
	return {open(start(h, least)) + #those(h, QUEUED) * each, told(h)}
end

-- pause lets nothing start on any host for so long from now on; 0 ends a pause.
function ops.pause(_, length)
	gen.p, gen.pd, unsaved = now + length, length, true
	owe(gen.p)
	redis.call('PUBLISH', CHANNEL .. 'all', '')
	return {gen.p}
end

-- limiter returns the name of all that is under the prefix: the one that came first.
function ops.limiter(_, name)
	if not gen.name then gen.name, unsaved = name, true end
	return {gen.name}
end

-- fleet tells the end of the pause, and of each process its id, name and last sign of life.
function ops.fleet()
	local all = redis.call('HGETALL', KEYS[2])
	local found = {gen.p or 0}
	for i = 1, #all, 2 do
		local p = process(all[i + 1])
		if p then found[#found + 1] = {all[i], p[2], p[1], p[3] or ''} end
	end
	return found
end

-- hello publishes what a process promises to one process, or to all. check says to do what else needs
-- the server's permission.
function ops.hello(_, to, text, check)
	if check then
		redis.call('HSET', KEYS[2], '?', '')
		redis.call('HDEL', KEYS[2], '?')
		unsaved = true
	end
	return {redis.call('PUBLISH', CHANNEL .. to, text)}
end

-- state tells what a status page shows: starts, slots in use, requests waiting, next start, blocked
-- until, cause, refusals, whether a probe is on its way, delay in force, by response times, learned.
function ops.state(h)
	return {h.n, (count(h, 0, '')), #those(h, QUEUED) + #those(h, RESERVED), (start(h, 0)), h.b, h.c, h.f, h.pr ~= '',
		max(h.l > 0 and h.a - h.l or 0, h.ad, h.le), h.ad, h.le}
end

local READS = {peek = true, state = true, pause = true, fleet = true, limiter = true, hello = true}
local answers, changed = {}, {}
for j = 2, #call do
	local name, i = call[j][1], call[j][2]
	local loaded, h = pcall(load, i)
	if not loaded then fail(i, h) end
	if not failed[i] then
		local ok, answer = pcall(ops[name], h, unpack(call[j], 3))
		if not ok then fail(i, answer) end
		answers[j] = answer
		if not READS[name] then changed[i] = h end
	end
end
for i, h in pairs(changed) do
	if not failed[i] then
		local ok, err = pcall(save, h) -- what an operation didn't look at may be no number either
		if not ok then fail(i, err) end
	end
end
local replies = {now, gen.id, false, listeners, lapsed, CALL}
for j = 2, #call do replies[#replies + 1] = failed[call[j][2]] or answers[j] end
finishGen()
return cmsgpack.pack(replies)
