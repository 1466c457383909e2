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
--   c        its cause, as in hostlimit.Refusals
--   al       whether requests start one at a time, until one succeeds
--   pr       lease that does, the probe
--   f        refusals in a row
--   cd       crawl-delay of the last request that knew it
--   ad       delay by response times
--   le, ea   delay that refusals have taught; when it was set or shortened last
--   R        the rest of the host's hostlimit.Refusals: clients write and read it
--   v        version of b, c, al, f, le and R: a time, and larger after each change
--   rv       version when R was written
--   n        starts since this state was made
--   e        stamp of the latest start that has ended
--   X        turns whose slots were taken back, until a GO reports them: {process, number of the start}
--   sv, bg   successes since bg: the first start, the last lesson, or the start after an idle time
--   k        until when it is remembered that a block was lifted: a Store or a client may still have it
--   g        generation of the turns
--   s        the generation's s when these times were written
--   lc       when their processes were last looked for
--   L        turns, see below, in the order in which they go
--   P, O     by process: the number of its last call, since t and in the time before
--   t        when P began
--
-- The states of a host are those of hostlimit.Refusals: clients compute the effect of a response, and
-- write it if nothing has changed meanwhile (ops.outcome).
--
-- A turn goes through these:
--
--   state     event                              next       why
--   -         take, every slot is taken          QUEUED     first by priority, then by the time of arrival
--   -         take, a slot is free               RESERVED   or GONE immediately, if its start is near
--   QUEUED    a slot is free                     RESERVED   its process gets a push, if it listens
--   QUEUED    not asked again for WAITING        -
--   RESERVED  take, shortly before its start     GONE
--   RESERVED  the start before owes less         the same   earlier than reserved: its process gets a push
--   RESERVED  CLAIM after its start              -          its process is gone
--   GONE      started, or its release            the same   its window ends with its start
--   GONE      take with a larger number          RESERVED   it missed its window, or starts again
--   GONE      TTL after its start or renewal     -          no process reads the body any more
--   any       release; another generation        -
--   any       its process shows no life for DEAD -

local VERSION = 6

-- The fields of a turn.
local ID = 1      -- PROCESS.NUMBER, the client's lease
local SEQ = 2     -- number of its last take
local DELAY = 3   -- from its start to the next one
local FLOOR = 4   -- from the start before to its own
local ENDS = 5    -- whether the gap counts from its end
local PRIO = 6    -- priority
local CAME = 7    -- when its request arrived
local EXPIRY = 8  -- when it is dropped
local DUE = 9     -- when it starts
local GUARD = 10  -- how much later it may start
local STATE = 11
local DID = 12    -- letters of the operations that were done once, see once
local NUMBER = 13 -- number of its start in its process; nil: not reported yet

-- The states of a turn.
local QUEUED = 0
local RESERVED = 1
local GONE = 2

-- The letters of DID.
local ADAPTED = 'a' -- the delay by response times has moved
local COUNTED = 's' -- the success was counted
local STORED = 'o'  -- the refusals were changed
local ENDED = 'e'   -- the attempt ended without a response: the gap counts from then

-- Why a turn starts no sooner.
local BY_DELAY = 'd'
local BY_BLOCK = 'b'
local BY_HOURS = 'h'
local BY_SLOTS = 's'
local BY_PROBE = 'p' -- the response to a probe is awaited

-- The acts of an operator, for clients.
local NO_ACT = 0

local SECOND = 1000000
local HOUR = 3600 * SECOND
local DAY = 24 * HOUR

-- A queued turn is dropped if its process doesn't ask again for so long. It polls every five seconds.
local WAITING = 2 * 60 * SECOND
-- No copy of a call comes so long after it: clients' patience ends before.
local LATEST = 20 * SECOND
-- The server process is looked for so often. INFO costs more than the rest of a step.
local CHECK = SECOND / 10
-- The processes of a host's turns are looked for so often.
local BURY = SECOND / 2
-- A process that goes on by itself when it is cut off beats every 250 ms; without a beat for so long
-- it counts as cut off.
local CUT_OFF = 1.5 * SECOND
-- A process without a sign of life for so long is no longer listed.
local FORGOTTEN = HOUR
-- A push is worth while only for a start that is earlier by more than this.
local WORTH = 1000
-- Memory for turns taken back that no GO has reported, of one host.
local MOST_TAKEN = 64
-- What a host's key outlives the last time that is owed to it.
local KEY_MARGIN = 60000 -- milliseconds
local KEEP_ADAPTED = HOUR / 6
local KEEP_REFUSALS = HOUR
local KEEP_LEARNED = 7 * DAY
-- Blocks by operators have a cause that begins so.
local BY_HAND = 'by hand: '

local call = cmsgpack.unpack(ARGV[1])

local header = call[1]
local CHANNEL = header[1]    -- prefix of the channels
local ALONE = header[2]      -- whether this server is no node of a cluster
local GEN = header[3]        -- the generation that the client believes in
local STEPPED = header[4]    -- step of this server's clock that the client has seen
local NOTAFTER = header[5]   -- when the client gives the call up
local QUARANTINE = header[6] -- its length
local WINDOW = header[7]     -- how late the client's starts may be
local LATENCY = header[8]    -- how long a reply is under way
local HORIZON = header[9]    -- a turn is let go at most so long before its start
local CLAIM = header[10]     -- a reservation lapses so long after its start
local TTL = header[11]       -- LeaseTTL
local FORGIVE = header[12]   -- refusals are forgotten so long after the block
local HOURS = header[13]     -- windows {from, to} of a day
local PROC = header[14]      -- the client
local BEAT = header[15]      -- its name, for a sign of life; '-': it leaves; '': neither
local PROMISE = header[16]   -- its settings, with a sign of life
local DEAD = header[17]      -- a process without a sign of life for so long has lost its turns
local SPREAD = header[18]    -- number of processes, if they go on by themselves when they are cut off
local CALL = header[19]      -- number of the call in its process

local time = redis.call('TIME')
local now = time[1] * SECOND + time[2]

local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil

-- process reads an entry of KEYS[2]: nil if there is none, or it is broken.
local function process(raw)
	local ok, p = pcall(cmsgpack.unpack, raw)
	if ok and type(p) == 'table' and type(p[1]) == 'number' then return p end
end

-- ownerOf returns the process of a turn.
local function ownerOf(r)
	return string.match(r[ID], '^[^.]+')
end

-- The generation shows whether the leases in this server are those that the
-- clients believe in. It changes when the server has lost its data (or its
-- latest data) and when its clock was stepped; then nothing starts until the
-- clients have restored what they hold.
--   id     names it
--   run    the server process that made it
--   q      end of the quarantine
--   chk    when the server process was last looked for
--   x      until when it is kept
--   m      processes that live
--   p, pd  end and length of a pause that an operator has ordered
--   s      sum of the steps of the clock, as far as they are known
--   name   of all that is under the prefix
local gen, unsaved

local function newGen()
	return {v = VERSION, q = 0, chk = 0, x = 0, m = 1}
end

-- isDeserted reports whether no process has shown life for DEAD. One whose entry can't be read may.
local function isDeserted()
	for _, raw in ipairs(redis.call('HVALS', KEYS[2])) do
		local p = process(raw)
		if not p then return false end
		if p[1] > now - DEAD and p[1] <= now then return false end
	end
	return true
end

-- loadGen reads the generation. It returns an error if something else has written its key, or another
-- version of this script that is in use.
local function loadGen()
	local raw = redis.pcall('GET', KEYS[1])
	if type(raw) == 'table' then
		return redis.error_reply('BADKEY ' .. KEYS[1] .. ': ' .. raw.err)
	end
	local ok, value = true, nil
	if raw then ok, value = pcall(cmsgpack.unpack, raw) end
	local foreign = value and type(value) ~= 'table'
	if not ok or foreign then
		return redis.error_reply('BADKEY ' .. KEYS[1] .. ': not written by redislimit')
	end
	gen = value or newGen()
	local older = gen.v ~= VERSION and type(gen.v) == 'number' and gen.v < VERSION
	if older and isDeserted() then
		-- Its hosts have keys of another name, which expire.
		redis.call('DEL', KEYS[2])
		gen = newGen()
	elseif gen.v ~= VERSION then
		local is = ' is of version ' .. tostring(gen.v)
		return redis.error_reply('BADVERSION ' .. KEYS[1] .. is .. ', this process speaks ' .. VERSION)
	end
	gen.s = gen.s or 0
end

-- checkRun looks for the server process now and then. It returns why the generation is over, nil if it
-- isn't, and by how much the clock was stepped.
local function checkRun()
	local wentBack = now < gen.chk -- this clock, or it is that of another server, after a failover
	if gen.id and now - gen.chk < CHECK and not wentBack then return nil end
	-- If an ACL forbids INFO, restarts from a dump can't be seen.
	local info = redis.pcall('INFO', 'server')
	local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '?'
	local restarted = not gen.id or gen.run ~= run
	gen.run = run
	unsaved = true
	if wentBack then return 's', now - gen.chk end
	if restarted then return 'r' end
end

-- renewGen begins another generation, for the reason why: 'r' for a restart, 's' for a step of the
-- clock by shift.
local function renewGen(why, shift)
	gen.id = why .. string.format('%.0f', now)
	gen.q = now + QUARANTINE
	gen.x = 0
	if why == 's' then
		-- Signs of life of before have times of another clock.
		redis.call('DEL', KEYS[2])
		gen.s = gen.s + shift
		-- A pause moves along, and gets no longer than it was ordered.
		if gen.p then gen.p = min(gen.p + shift, now + gen.pd) end
	end
	-- The other nodes of a cluster may have lost their data as well: clients look there.
	if not ALONE then redis.call('PUBLISH', CHANNEL .. 'all', KEYS[1]) end
	unsaved = true
end

do
	local err = loadGen()
	if err then return err end
	local why, shift = checkRun()
	if STEPPED ~= 0 and GEN == gen.id then
		why, shift = 's', STEPPED
	end
	if why then renewGen(why, shift) end
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

-- A call that was under way for so long that its client has given it up, or that is about leases of
-- another generation, does nothing.
if GEN ~= gen.id or now > NOTAFTER then
	finishGen()
	return cmsgpack.pack({now, gen.id, true, -1, false, CALL})
end

-- countLive counts the processes that reach this server, and forgets those that have long gone.
local function countLive()
	local live = 0
	local all = redis.call('HGETALL', KEYS[2])
	for i = 1, #all, 2 do
		local p = process(all[i + 1]) or {0}
		if p[1] > now - CUT_OFF then live = live + 1 end
		if p[1] < now - FORGOTTEN then redis.call('HDEL', KEYS[2], all[i]) end
	end
	if gen.m ~= live then
		gen.m = live
		unsaved = true
	end
end

-- A sign of life comes along with a call of a process now and then.
local listeners = -1  -- to the process's own channel; -1: no sign of life has come
local lapsed = false  -- it was DEAD, so its turns may be gone
if BEAT == '-' then
	redis.call('HDEL', KEYS[2], PROC)
elseif BEAT ~= '' then
	local was = process(redis.call('HGET', KEYS[2], PROC))
	lapsed = not was or was[1] < now - DEAD
	redis.call('HSET', KEYS[2], PROC, cmsgpack.pack({now, BEAT, PROMISE}))
	redis.call('PEXPIRE', KEYS[2], DAY / 1000)
	listeners = redis.call('PUBLISH', CHANNEL .. PROC, '')
	-- For SHARE; and processes that have long gone are forgotten when another one comes.
	if lapsed or SPREAD > 0 then countLive() end
end

-- If processes that can't reach this server go on by themselves, those that can leave them their
-- share: all delays are longer by this factor.
local SHARE = 1
if SPREAD > gen.m then SHARE = SPREAD / max(gen.m, 1) end

local defaults = {__index = {
	a = 0, pa = 0, l = 0, pl = 0, lo = '',
	b = 0, bs = 0, c = '', al = false, pr = '', f = 0, k = 0,
	cd = 0, ad = 0, le = 0, ea = 0,
	R = '', v = 0, rv = 0,
	n = 0, e = 0, sv = 0, bg = 0,
	g = '', s = 0, lc = 0, t = 0,
}}
local hosts = {}  -- states by number
local keys = {}   -- their keys, by state
local failed = {} -- by number: why nothing is done to a host

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

-- has reports whether r has done what the letter stands for.
local function has(r, letter)
	return string.find(r[DID], letter, 1, true) ~= nil
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
	r[DUE] = due
	r[GUARD] = WINDOW
	r[STATE] = RESERVED
	r[EXPIRY] = max(due, now) + CLAIM
end

-- gap is the distance of the next start to one with that delay.
local function gap(h, delay)
	return ceil(max(delay, h.ad, h.le) * SHARE)
end

-- room is the guard of a turn as a part of the gap. Without a delay there is no gap to protect, so the
-- guard doesn't pace.
local function room(d, guard)
	if d > 0 then return guard end
	return 0
end

-- later makes l and a at least that, also if the last start is undone.
local function later(h, l, a)
	set(h, 'l', max(h.l, l))
	set(h, 'pl', max(h.pl, l))
	set(h, 'a', max(h.a, a))
	set(h, 'pa', max(h.pa, a))
end

-- countsFromEnd reports whether the next start keeps its gap from the end of r.
local function countsFromEnd(r)
	return r[ENDS] or has(r, ENDED)
end

-- finish makes at the end of a lease, for the next start if its gap counts from there.
local function finish(h, r, at)
	if r[STATE] ~= GONE or not countsFromEnd(r) then return end
	if h.lo == r[ID] then
		-- The gap that is running may have become longer since the start.
		set(h, 'a', max(h.a, at + h.a - h.l))
		set(h, 'l', max(h.l, at))
	else
		later(h, at, at + gap(h, r[DELAY]))
	end
end

-- raise makes the gap that is running longer, if d is. A shorter delay holds from the next
-- start on only: the gap was promised.
local function raise(h, d)
	-- Also behind the start before, in case the last one is undone.
	if h.l > 0 then set(h, 'a', max(h.a, h.l + d)) end
	if h.pl > 0 then set(h, 'pa', max(h.pa, h.pl + d)) end
end

-- leak notes that the slot of r is taken back.
local function leak(h, r)
	if r[STATE] ~= GONE then return end -- no request was let go
	h.X = h.X or {}
	if #h.X < MOST_TAKEN then h.X[#h.X + 1] = {ownerOf(r), r[NUMBER] or 0} end
end

-- fail makes nothing happen to host i: its key is broken or, with OLD, a later call was here.
local function fail(i, why, kind)
	local text = type(why) == 'table' and why.err or why
	failed[i] = {kind or 'ERR', KEYS[2 + i] .. ': ' .. tostring(text)}
end

-- isNewest notes the number of this call, and reports whether no later one of its process, or the
-- same one, was at the host.
local function isNewest(h)
	if now - h.t > LATEST then
		-- Two tables take turns, so that processes are forgotten which have long gone.
		h.O = h.P
		h.P = nil
		h.t = now
	end
	h.P = h.P or {}
	local last = max(h.P[PROC] or 0, h.O and h.O[PROC] or 0)
	if last >= CALL then return false end
	h.P[PROC] = CALL
	return true
end

-- shift moves the times of a host, which are those of another clock, to this one. If a process has
-- slept, which looks the same, no time is further away than it was at first.
local function shift(h)
	for _, times in ipairs({{'l', 'a'}, {'pl', 'pa'}, {'bs', 'b', 'k'}}) do
		local by = min(gen.s - h.s, now - h[times[1]])
		for _, field in ipairs(times) do
			local at = 0 -- never, on any clock
			if h[field] > 0 then at = h[field] + by end
			set(h, field, at)
		end
	end
	for _, field in ipairs({'bg', 'ea', 'lc', 'e', 't'}) do set(h, field, 0) end
	set(h, 's', gen.s)
end

-- expire drops the turns whose time is over.
local function expire(h)
	-- From the end, as drop moves the turns behind.
	for j = #h.L, 1, -1 do
		local r = h.L[j]
		if r[EXPIRY] <= now then
			leak(h, r)
			finish(h, r, r[EXPIRY])
			drop(h, r[ID])
		end
	end
end

-- load returns host i; nil if nothing may be done to it.
local function load(i)
	if hosts[i] or failed[i] then return hosts[i] end
	local raw = redis.pcall('GET', KEYS[2 + i])
	if type(raw) == 'table' then return fail(i, raw) end
	local ok, h = true, {}
	if raw then ok, h = pcall(cmsgpack.unpack, raw) end
	if not ok or type(h) ~= 'table' then return fail(i, 'not written by redislimit') end
	setmetatable(h, defaults)
	if not isNewest(h) then return fail(i, 'a later call was here', 'OLD') end
	h.L = h.L or {}
	keys[h] = KEYS[2 + i]
	hosts[i] = h
	if h.g ~= gen.id then
		-- These turns are of a lost state. Clients restore those that live.
		h.L = {}
		set(h, 'pr', '')
		set(h, 'lo', '')
		h.g = gen.id
	end
	if h.s ~= gen.s then shift(h) end
	expire(h)
	if h.al and now > h.b + FORGIVE then
		for _, field in ipairs({'f', 'al', 'b', 'c'}) do set(h, field, nil) end
		set(h, 'v', h.v + 1) -- the same each time, as it may not be stored
	end
	return h
end

-- save stores a host for as long as anything is owed to it.
local function save(h)
	local owed = max(now, h.a, h.l, h.k)
	if h.ad > 0 then owed = max(owed, now + KEEP_ADAPTED) end
	if h.R ~= '' then owed = max(owed, now + KEEP_REFUSALS) end
	if h.le > 0 then owed = max(owed, now + KEEP_LEARNED) end
	if h.al or h.b > now then owed = max(owed, h.b + FORGIVE) end
	for _, r in ipairs(h.L) do owed = max(owed, r[EXPIRY]) end
	local L = h.L
	if #L == 0 then h.L = nil end -- isn't stored
	redis.call('SET', keys[h], cmsgpack.pack(h), 'PX', ceil((owed - now) / 1000) + KEY_MARGIN)
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
			last = max(last, r[DUE])
			first = min(first, r[DUE])
		end
	end
	local fullSince = 0
	if gone >= n and last <= now then fullSince = last end
	return gone, fullSince, first
end

-- those returns the turns of a state, in the order in which they go.
local function those(h, state)
	local order = {}
	for _, r in ipairs(h.L) do
		if r[STATE] == state then order[#order + 1] = r end
	end
	return order
end

-- open returns the earliest time from t on at which a request may start by HOURS, and remain
-- inside for as long as a start may be late.
local function open(t)
	if not HOURS[1] then return t end
	local at = t % DAY -- the clock counts from a midnight
	local wait = DAY
	for _, window in ipairs(HOURS) do
		local from, to = unpack(window)
		local after = at >= from
		-- A start that is late must be inside as well.
		local before = at < to - LATENCY - WINDOW
		local overMidnight = from > to
		if after and before or overMidnight and (after or before) then return t end
		wait = min(wait, (from - at) % DAY)
	end
	return t + wait
end

-- start returns when a turn may start, behind the reservations that are sooner than me, or behind
-- all, and why not sooner. The reservations are followed one by one, because each is moved by what
-- has moved those before it.
local function start(h, least, me)
	-- A quarantine and a pause stop all hosts.
	local s = max(now, h.a, h.b, gen.q, gen.p or 0)
	local l = h.l
	for _, r in ipairs(those(h, RESERVED)) do
		if r ~= me and (not me or sooner(r, me)) then
			local at = max(s, l + r[FLOOR])
			local d = gap(h, r[DELAY])
			-- s and l as they will be after r.
			s = at + room(d, r[GUARD]) + d
			l = at + r[GUARD]
		end
	end
	s = max(s, l + least)
	local why = BY_DELAY
	if h.b > now and h.b >= s then why = BY_BLOCK end
	local opens = open(s)
	if opens > s then return opens, BY_HOURS end
	return s, why
end

-- push sends the process of r when it may start. It returns the number of listeners.
local function push(r, due, why)
	return redis.call('PUBLISH', CHANNEL .. ownerOf(r), cmsgpack.pack({r[ID], due, now, why}))
end

-- report returns the fields that a client keeps of a host, to compute the effect of a response, and
-- to restore it after a loss of data.
local function report(h)
	local delay = 0
	if h.l > 0 then delay = max(0, floor((h.a - h.l) / SHARE)) end
	local began = now
	if h.bg > 0 then began = h.bg end
	return h.a, h.ad, delay, h.sv, began, h.b, h.bs, h.c, h.al, h.f, h.le, h.ea, h.v, h.R
end

-- proclaim reports a block to every process, or that there is none any more; act is 1 if an operator
-- has blocked the host, and 2 if one has lifted the block.
local function proclaim(h, act)
	redis.call('PUBLISH', CHANNEL .. 'all', cmsgpack.pack({keys[h], now, act, report(h)}))
end

-- byHand reports whether an operator has blocked the host.
local function byHand(h)
	return h.b > now and string.sub(h.c, 1, #BY_HAND) == BY_HAND
end

-- latest returns when the last request that was let go may still start. Those that were let go
-- before a loss of data start within the quarantine, if at all.
local function latest(h)
	local t = 0
	if gen.q > now then t = gen.q end
	for _, r in ipairs(h.L) do
		if r[STATE] == GONE then t = max(t, r[DUE] + r[GUARD]) end
	end
	return t
end

-- hand gives free slots to the turns that have waited longest, with a time to start. me is asking, and
-- needs no push.
local function hand(h, n, me)
	local taken = live(h)
	local free = n - taken
	local queued = #h.L - taken
	if free <= 0 or queued == 0 then return end
	for _, r in ipairs(those(h, QUEUED)) do
		local s, why = start(h, r[FLOOR], r)
		-- Without a listener its process will ask. On a cluster, PUBLISH counts only the node's own
		-- listeners; there the reservation lapses unless it is claimed.
		if r == me or push(r, s, why) > 0 or not ALONE then
			reserve(r, s)
			free = free - 1
			if free == 0 then return end
		end
	end
end

-- replan plans a reservation anew, and pushes it to its process if it is earlier than before, or if
-- always.
local function replan(h, r, always)
	local s, why = start(h, r[FLOOR], r)
	if always or s < r[DUE] - WORTH then
		reserve(r, s)
		push(r, s, why)
	end
end

-- again plans the reservations anew after a turn was given back or a block
-- lifted, and pushes those that may start earlier; all of them if they wait for a probe.
local function again(h, probed)
	for _, r in ipairs(those(h, RESERVED)) do replan(h, r, probed) end
end

-- follow does so for the first of them after a start, which may owe less than was planned. It
-- returns whether there is one.
local function follow(h)
	local first = those(h, RESERVED)[1]
	if first then replan(h, first) end
	return first ~= nil
end

-- began ends the window of r, which has started when this clock showed at, at the latest: the rest
-- of the window isn't added to the gap. It does nothing if the gap counts from an end, or
-- from another start.
local function began(h, r, at)
	at = max(at, r[DUE], h.pl) -- pl and pa are owed to others
	local isLast = h.lo == r[ID] and h.l == r[DUE] + r[GUARD]
	local isEarlier = at < h.l
	local hasGap = h.a > h.l
	if not (isLast and isEarlier and hasGap) or has(r, ENDED) then return end
	set(h, 'a', max(at + h.a - h.l, h.pa))
	set(h, 'l', at)
	r[GUARD] = at - r[DUE]
	follow(h)
end

-- back undoes the letting go of a lease. started is the take by which it has started, 0 if it has
-- never started: no start has followed a later GO.
local function back(h, r, started)
	if r[STATE] ~= GONE then return end
	if r[SEQ] ~= started then set(h, 'n', max(h.n - 1, 0)) end
	if h.lo == r[ID] then
		-- The start before is the last one again.
		set(h, 'a', h.pa)
		set(h, 'l', h.pl)
		set(h, 'lo', '')
	end
	if h.pr == r[ID] then set(h, 'pr', '') end
	r[STATE] = RESERVED
end

-- bury drops the turns of processes that show no life.
local function bury(h)
	if now - h.lc < BURY then return end
	h.lc = now
	local isLive = {[PROC] = true}
	local dead = {}
	for _, r in ipairs(h.L) do
		local proc = ownerOf(r)
		if isLive[proc] == nil then -- once for each process
			local p = process(redis.call('HGET', KEYS[2], proc))
			isLive[proc] = p ~= nil and p[1] > now - DEAD
		end
		if not isLive[proc] then dead[#dead + 1] = r end
	end
	for _, r in ipairs(dead) do
		leak(h, r)
		finish(h, r, now)
		drop(h, r[ID])
	end
end

-- tally counts a start at s of a host that was free for idle without a request. If that is longer than
-- a delay can be, the counting of successes begins anew: the rate of a crawler that had nothing to
-- fetch isn't the rate that the host allows.
local function tally(h, s, idle, ceiling)
	if h.bg == 0 or idle > ceiling then
		set(h, 'bg', s)
		set(h, 'sv', 0)
	end
	set(h, 'n', h.n + 1)
end

local ops = {}

-- placeOf returns how many queued turns are ahead of r.
local function placeOf(h, r)
	local place = 0
	for i, other in ipairs(those(h, QUEUED)) do
		if other == r then place = i - 1 end
	end
	return place
end

-- expiryFor returns when the first turn expires that a queued one waits for.
local function expiryFor(h, place)
	local expiry = now + TTL
	for _, r in ipairs(h.L) do
		-- Only the first in the queue looks after a reservation that lapses.
		if r[STATE] == GONE or r[STATE] == RESERVED and place == 0 then expiry = min(expiry, r[EXPIRY]) end
	end
	return expiry
end

-- queue answers a take of me while every slot is taken.
local function queue(h, me, n, least, longest)
	if not find(h, me[ID]) then enter(h, me) end
	local place = placeOf(h, me)
	local _, fullSince, first = count(h, n, '')
	local s, why = start(h, me[FLOOR])
	s = s + place * least
	if s - now > longest then
		-- In the queue it would only keep others behind it.
		drop(h, me[ID])
		return {'LATE', s, why, report(h)}
	end
	me[EXPIRY] = now + WAITING
	if fullSince > 0 then why = BY_SLOTS end
	return {'WAIT', place, why, fullSince, expiryFor(h, place), first}
end

-- letGo answers a take of me, whose start s is near.
local function letGo(h, n, me, s, started, ceiling)
	-- The reply is LATENCY under way, which counts only if it arrives after s.
	local guard = max(WINDOW, now + LATENCY + WINDOW - s)
	-- A lease starts within its guard at the latest.
	me[GUARD] = guard
	me[STATE] = GONE
	me[EXPIRY] = s + guard + TTL
	me[NUMBER] = nil
	local idle = 0
	if started == 0 and h.l > 0 then idle = s - max(h.a, h.l + me[FLOOR], h.b, gen.p or 0) end
	tally(h, s, idle, ceiling)
	-- If the gap counts from its end, the delay may be shorter by then, but the promise holds.
	me[DELAY] = max(me[DELAY], h.ad, h.le)
	local d = ceil(me[DELAY] * SHARE)
	set(h, 'pa', h.a)
	set(h, 'pl', h.l)
	set(h, 'a', max(h.a, s + room(d, guard) + d))
	set(h, 'l', s + guard)
	set(h, 'lo', me[ID])
	if h.al then set(h, 'pr', me[ID]) end
	-- This start may owe less than was planned for it.
	local awaited = follow(h)
	local taken = h.X or {}
	h.X = nil
	local slots = count(h, n, '')
	return {'GO', s, guard, d, slots, h.pr == me[ID], taken, h.e, awaited, report(h)}
end

-- take asks for a turn, again and again until the reply is GO. After that it takes the
-- turn back and asks for another; started is the seq of the take by which the turn has started, 0 if
-- it hasn't. seq numbers the takes of the lease. n is the number of slots, longest how long the caller
-- may wait, least the smallest gap to a turn ahead, ceiling bounds the learned delay. Turns go by
-- priority, then by when they came, which is so long ago. A least2 below 0 isn't known: cd stands for
-- it.
--   GO     start, guard, delay, slots in use, probe, X, e, whether others wait, the values of report
--   AT     start, why, the values of report: come again shortly before that time
--   WAIT   place, why, full since, expiry, first start: every slot is taken, until then or until a push
--   LATE   start, why, the values of report: that is later than the caller may wait, or the host is
--          blocked by hand
function ops.take(h, id, seq, n, longest, least, started, ceiling, delay, least2, ends, prio, ago)
	if least2 >= 0 then
		set(h, 'cd', least2)
	else
		least2 = h.cd
		delay = max(delay, h.cd)
	end
	local me, at = find(h, id)
	if me then
		-- The question takes a turn back that was let go before.
		back(h, me, started)
		me[SEQ] = seq
		me[DELAY] = delay
		me[FLOOR] = least2
		me[ENDS] = ends
		if me[PRIO] ~= prio then -- a Start goes before all that have no lease
			me[PRIO] = prio
			enter(h, table.remove(h.L, at))
		end
	else
		me = {id, seq, delay, least2, ends, prio, now - ago, 0, now, WINDOW, QUEUED, ''}
	end
	if byHand(h) then
		drop(h, id)
		return {'LATE', h.b, BY_BLOCK, report(h)}
	end
	if me[STATE] == RESERVED and count(h, n, id) >= n then
		me[STATE] = QUEUED -- restored leases have filled the slots
	end
	local isQueued = me[STATE] == QUEUED
	local awaitsProbe = h.pr ~= '' and h.pr ~= id
	-- Slots and a probe of dead processes are looked for only if they are in the way.
	if isQueued and live(h) >= n or awaitsProbe then bury(h) end
	if isQueued then
		-- Turns that have waited longer get the free slots first.
		hand(h, n, me)
		if me[STATE] == QUEUED and live(h) >= n then return queue(h, me, n, least, longest) end
		if not find(h, id) then enter(h, me) end
		me[STATE] = RESERVED
	end
	local s, why = start(h, me[FLOOR], me)
	if s - now > longest then
		-- Its slot and its place are for others.
		drop(h, id)
		again(h)
		hand(h, n)
		return {'LATE', s, why, report(h)}
	end
	reserve(me, s)
	local probing = h.pr ~= '' and h.pr ~= id and find(h, h.pr)
	if h.al and probing then
		-- The end of the probe pushes it. If that is lost, it asks before it lapses.
		me[EXPIRY] = now + CLAIM + SECOND
		return {'WAIT', 0, BY_PROBE, 0, now + TTL, 0}
	end
	-- Once it is let go, a block can't stop it.
	if s - now > HORIZON then return {'AT', s, why, report(h)} end
	return letGo(h, n, me, s, started, ceiling)
end

-- release gives a slot back; undone says that the request hasn't started since it was let go, and
-- started is as for take: the turn may have been let go once more since then. at is the stamp of its
-- start, 0 if that is void, and by as for started.
function ops.release(h, id, n, undone, started, at, by)
	set(h, 'e', max(h.e, at))
	local r = find(h, id)
	if r then
		if not undone and r[SEQ] == started then began(h, r, by) end
		local probed = h.pr == id
		local held = r[STATE] ~= QUEUED
		local oncemore = r[STATE] == GONE and started > 0 and r[SEQ] ~= started
		if not undone and oncemore and countsFromEnd(r) then
			later(h, now, now + gap(h, r[DELAY])) -- the start before that ends now
		end
		if undone or oncemore then
			back(h, r, started)
		else
			finish(h, r, now)
		end
		drop(h, id)
		-- Turns behind it may start earlier, and wait for the next probe.
		if held and (probed or undone) then again(h, probed) end
	end
	hand(h, n)
	return {}
end

-- once reports whether lease id does this for the first time, as far as is known, and notes it.
local function once(h, id, letter)
	local r = find(h, id)
	if not r then return true end
	if has(r, letter) then return false end
	r[DID] = r[DID] .. letter
	return true
end

-- adapt moves the delay by response times, within least and most: at least to atonce, and half the
-- way to half (-1: nowhere). longer says that it gets no shorter.
local function adapt(h, least, most, atonce, half, longer)
	local d = atonce
	if half >= 0 then d = max(d, (max(h.ad, least) + half) / 2) end
	d = max(least, min(ceil(d), most))
	if longer then d = max(d, h.ad) end
	if d ~= h.ad then
		raise(h, d)
		set(h, 'ad', d)
	end
end

-- endAttempt makes now the end of an attempt without a response, by lease id, of which this server may
-- know nothing any more. The next start is delay later.
local function endAttempt(h, id, delay)
	local lease = find(h, id)
	if lease then
		-- Its release comes later, and moves the gap once more.
		once(h, id, ENDED)
		finish(h, lease, now)
	else
		-- It was lost with the server's data, and may come by a later restore.
		later(h, now, now + max(delay, gap(h, 0)))
	end
end

-- outcome stores the effect of lease id's outcome, or of an operator: act is 1 for a block, 2 for a
-- clearing. It does no part of it twice, as far as is known.
--
-- It moves the delay by response times, with most > 0, as adapt does. ok says that the outcome is a
-- success.
--
-- It stores the host's refusals as a client has changed them, if they still are of version v: stay is
-- the rest of the block (-1: it ends as before), newly whether that is set or lengthened, taught
-- and eased whether le is longer or shorter, ended whether the attempt has ended without an answer,
-- and owes delay from now on. Without v nothing is to be changed unless the host has refusals.
--
-- It returns false if the client has to compute anew, the latest time at which a request that was let
-- go before may still start, if there is a block now, and the values of report.
function ops.outcome(h, id, least, most, atonce, half, longer, ok,
		v, n, R, f, al, stay, newly, c, le, taught, eased, blocked, cleared, act, ended, delay)
	if most > 0 and once(h, id, ADAPTED) then adapt(h, least, most, atonce, half, longer) end
	if not v then
		-- A success ends refusals, which the client doesn't know of yet.
		local hasRefusals = h.R ~= '' or h.le > 0 or h.al or h.f > 0
		if ok and hasRefusals then return {false, 0, report(h)} end
		if ok and once(h, id, COUNTED) then set(h, 'sv', h.sv + 1) end
		return {true}
	end
	local lease = find(h, id)
	-- The same change: its reply was lost.
	if lease and has(lease, STORED) then return {true, latest(h), report(h)} end
	-- Another process has changed the refusals since.
	if v ~= h.v then return {false, 0, report(h)} end
	once(h, id, STORED)
	if ended then endAttempt(h, id, delay) end
	-- A clearing is remembered, so that no Store or client brings the block back.
	if cleared then set(h, 'k', max(h.b, now) + FORGIVE) end
	if blocked then set(h, 'k', 0) end
	if stay ~= -1 then set(h, 'b', now + stay) end
	if newly then set(h, 'bs', now) end
	if ok then set(h, 'sv', h.sv + 1) end
	if taught then
		-- The next lesson is about the successes at the new delay.
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
		-- A probe whose response decides nothing leaves it to the next one.
		set(h, 'pr', '')
		again(h, true)
		hand(h, n)
	end
	local lastStart = 0
	if blocked or ended then lastStart = latest(h) end
	return {true, lastStart, report(h)}
end

-- started reports the number of a start by the take seq, and the latest time that this clock may have
-- shown then.
function ops.started(h, id, seq, number, by)
	local r = find(h, id)
	if r and r[STATE] == GONE and r[SEQ] == seq then -- else it has asked again since
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

-- restore stores a client's knowledge of a host, times as durations from now, in the past if
-- they are negative: the next start, the last start, and its leases, lists of five: id, number, the
-- time they have left, delay, and whether the gap counts from their end. all says that the server may
-- have lost the rest too: the block with its cause, al, f, le, when that was set, v, R, and the
-- successes since so long ago. Of two clients the later version holds, and the later block.
function ops.restore(h, all, a, l, leases, b, cause, al, f, le, ea, v, R, served, since)
	later(h, now + l, now + a)
	if all then
		if h.k >= now and v <= h.rv then
			-- That block was lifted since.
			b = 0
			al = false
			f = 0
		end
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
			-- It was let go by a state that this server has lost.
			r[SEQ] = max(seq, r[SEQ])
			r[EXPIRY] = now + left
			r[DUE] = now
			r[STATE] = GONE
		end
	end
	return {}
end

-- recall stores the debt of a client's Store: the end of the block as a duration from now, its cause,
-- refusals, the learned delay. It returns the values of report.
function ops.recall(h, b, cause, f, le)
	-- Stores of other processes still have a block that was lifted here.
	if h.k < now then
		local blocks = now + b > max(h.b + SECOND, now) -- else it is the same block, by two clocks
		local isNew = h.n == 0 and h.b == 0
		if blocks or f > 0 and isNew then -- over, but with a probe to come
			if not byHand(h) then set(h, 'c', cause) end
			set(h, 'b', now + b)
			set(h, 'f', max(h.f, f))
			if f > 0 then set(h, 'al', true) end
		end
		if blocks then
			set(h, 'bs', now)
			proclaim(h, NO_ACT)
		end
	end
	if h.n == 0 and h.le == 0 then -- a delay that was learned since is newer
		set(h, 'le', le)
		set(h, 'ea', now)
	end
	set(h, 'v', max(now, h.v + 1))
	return {report(h)}
end

-- peek returns the earliest start of a newcomer, without taking a place, and the values of report.
function ops.peek(h, least, n, each)
	local s = open(start(h, least))
	return {s + #those(h, QUEUED) * each, report(h)}
end

-- pause lets nothing start on any host for so long from now on; 0 ends a pause.
function ops.pause(_, length)
	gen.p = now + length
	gen.pd = length
	unsaved = true
	owe(gen.p)
	redis.call('PUBLISH', CHANNEL .. 'all', '')
	return {gen.p}
end

-- limiter returns the name of all that is under the prefix: the one that came first.
function ops.limiter(_, name)
	if not gen.name then
		gen.name = name
		unsaved = true
	end
	return {gen.name}
end

-- fleet returns the end of the pause, and of each process its id, name, last sign of life and promise.
function ops.fleet()
	local all = redis.call('HGETALL', KEYS[2])
	local found = {gen.p or 0}
	for i = 1, #all, 2 do
		local p = process(all[i + 1])
		if p then found[#found + 1] = {all[i], p[2], p[1], p[3] or ''} end
	end
	return found
end

-- hello publishes the promise of a process to one process, or to all. check says to do everything else
-- that needs the server's permission.
function ops.hello(_, to, text, check)
	if check then
		redis.call('HSET', KEYS[2], '?', '')
		redis.call('HDEL', KEYS[2], '?')
		unsaved = true
	end
	return {redis.call('PUBLISH', CHANNEL .. to, text)}
end

-- state returns the values of a status page: starts, slots in use, requests waiting, next start,
-- blocked until, cause, refusals, whether a probe is on its way, delay in force, by response times,
-- learned.
function ops.state(h)
	local inUse = count(h, 0, '')
	local waiting = #those(h, QUEUED) + #those(h, RESERVED)
	local earliest = start(h, 0)
	local running = 0
	if h.l > 0 then running = h.a - h.l end
	return {h.n, inUse, waiting, earliest, h.b, h.c, h.f, h.pr ~= '', max(running, h.ad, h.le), h.ad, h.le}
end

-- Operations that change no host.
local READS = {peek = true, state = true, pause = true, fleet = true, limiter = true, hello = true}

local answers = {}
local changed = {} -- hosts by number
for j = 2, #call do
	local name, i = call[j][1], call[j][2]
	-- A host that is broken keeps no other one from its operations.
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
		-- A field that no operation looked at may be no number either.
		local ok, err = pcall(save, h)
		if not ok then fail(i, err) end
	end
end
local replies = {now, gen.id, false, listeners, lapsed, CALL}
for j = 2, #call do replies[#replies + 1] = failed[call[j][2]] or answers[j] end
finishGen()
return cmsgpack.pack(replies)
