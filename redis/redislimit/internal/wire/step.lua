#!lua
-- (The first line makes a server that is full, or has too few replicas, refuse a call whole.)
--
-- step runs a list of operations on the hosts of one partition, atomically, at the server's time.
-- Every operation may be run twice with the same effect as once, because clients repeat calls
-- whose reply was lost. A call that comes too late, or for another generation, does nothing; nor does
-- one to a host to which a later call of its process, or the same one, has come.
--
-- KEYS[1]     the partition's generation
-- KEYS[2]     its processes, a hash: PROCESS -> Process
-- KEYS[2+i]   host i
-- ARGV[1]     a Call
-- returns     a Reply
--
-- Keys, arguments and the reply are records of package wire, which says what each field is: maps with
-- names, as MessagePack, which costs a fraction of hashes and lists. The tables of names are put in
-- below, at (records). A field that is missing reads as 0, '' or false; a name that no record has is
-- an error. All times are microseconds; a time is the server's clock unless a name says otherwise.
--
-- The states of a host are those of rules.Refusals: clients compute the effect of a response, and
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

-- (records)

-- The states of a turn.
local QUEUED = 0
local RESERVED = 1
local GONE = 2

-- The letters of did, a turn's.
local ADAPTED = 'a'  -- the delay by response times has moved
local COUNTED = 's'  -- the success was counted
local ENDED = 'e'    -- the attempt ended without a response: the gap counts from then
local RESTORED = 'r' -- a client has told of it after a loss: the letters of before are unknown

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

-- The numbers of changes are remembered for so long at least. A process that can't be reached for
-- longer may count a refusal twice.
local KEEP_CHANGES = HOUR
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
-- An operator can't order longer ones.
local LONGEST_BY_HAND = 100 * 365 * DAY
local LONGEST_PAUSE = 7 * DAY
-- No start is let go, or noted, so far ahead.
local AHEAD = 60 * SECOND
-- No start is owed for longer after the one before to whoever asks without a longer delay.
local LONGEST_GAP = 7 * DAY
-- What a host's key outlives the last time that is owed to it.
local KEY_MARGIN = 60000 -- milliseconds
local KEEP_ADAPTED = HOUR / 6
local KEEP_REFUSALS = HOUR
local KEEP_LEARNED = 7 * DAY
-- A change that leaves the end of the block as it is.
local AS_BEFORE = -1
-- Blocks by operators have a cause that begins so.
local BY_HAND = 'by hand: '

-- Records read as their tables of names where they have no field.
local STRICT = {__index = function(_, name) error('no record has a field ' .. tostring(name)) end}
local function record(names)
	return {__index = setmetatable(names, STRICT)}
end
local callRecord = record(CALL)
local hostRecord = record(HOST)
local turnRecord = record(STOREDTURN)
local processRecord = record(PROCESS)
local generationRecord = record(GENERATION)

-- requested makes a the record of a request, or of a part of one.
local requestRecords = {}
local function requested(a, name)
	requestRecords[name] = requestRecords[name] or record(REQUEST[name]())
	return setmetatable(a, requestRecords[name])
end

local ok, call = pcall(cmsgpack.unpack, ARGV[1])
if not ok or type(call) ~= 'table' or call.version ~= VERSION then
	return redis.error_reply('BADVERSION this call is not of version ' .. VERSION)
end
setmetatable(call, callRecord)

local CHANNEL = call.channel
local ALONE = call.alone
local GEN = call.gen
local STEPPED = call.stepped
local WINDOW = call.window
local LATENCY = call.latency
local CLAIM = call.claim
local TTL = call.ttl
local FORGIVE = call.forgive
local MOST = call.most
local HOURS = call.hours
local PROC = call.proc
local DEAD = call.dead
local SPREAD = call.spread
local CALL_NUMBER = call.call
local TRIED = call.tried or {}

local time = redis.call('TIME')
local now = time[1] * SECOND + time[2]

local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil

-- process reads an entry of KEYS[2]: nil if there is none, or it can't be read.
local function process(raw)
	local ok, p = pcall(cmsgpack.unpack, raw)
	if not ok or type(p) ~= 'table' then return nil end
	-- Version 6 and before had a list.
	if type(p[1]) == 'number' then p = {seen = p[1]} end
	if type(p.seen) == 'number' then return setmetatable(p, processRecord) end
end

-- ownerOf returns the process of a turn.
local function ownerOf(r)
	return string.match(r.id, '^[^.]+')
end

-- The generation shows whether the leases in this server are those that the
-- clients believe in. It changes when the server has lost its data (or its
-- latest data) and when its clock was stepped; then nothing starts until the
-- clients have restored what they hold.
local gen, unsaved

local function newGen()
	return setmetatable({v = VERSION, m = 1}, generationRecord)
end

-- isDeserted reports whether no process has shown life for DEAD. One whose entry can't be read may.
local function isDeserted()
	for _, raw in ipairs(redis.call('HVALS', KEYS[2])) do
		local p = process(raw)
		if not p then return false end
		if p.seen > now - DEAD and p.seen <= now then return false end
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
	if not value then
		gen = newGen()
	elseif value.v == VERSION then
		gen = setmetatable(value, generationRecord)
	elseif type(value.v) == 'number' and value.v < VERSION and isDeserted() then
		-- Its hosts have keys of another name, which expire.
		redis.call('DEL', KEYS[2])
		gen = newGen()
		gen.replaced = value.v
	else
		return redis.error_reply('BADVERSION ' .. KEYS[1] .. ' was made by redislimit of version ' ..
			tostring(value.v) .. ': kept; this process speaks version ' .. VERSION)
	end
end

-- checkRun looks for the server process now and then. It returns why the generation is over, nil if it
-- isn't, and by how much the clock was stepped.
local function checkRun()
	local wentBack = now < gen.chk -- this clock, or it is that of another server, after a failover
	if gen.id ~= '' and now - gen.chk < CHECK and not wentBack then return nil end
	-- If an ACL forbids INFO, restarts from a dump can't be seen.
	local info = redis.pcall('INFO', 'server')
	local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '?'
	local restarted = gen.id == '' or gen.run ~= run
	gen.run = run
	unsaved = true
	if wentBack then return 's', now - gen.chk end
	if restarted then return 'r' end
end

-- renewGen begins another generation, for the reason why: 'r' for a restart, 's' for a step of the
-- clock by shift.
local function renewGen(why, shift)
	gen.id = why .. string.format('%.0f', now)
	gen.q = now + call.quarantine
	gen.x = 0
	if why == 's' then
		-- Signs of life of before have times of another clock.
		redis.call('DEL', KEYS[2])
		gen.s = gen.s + shift
		-- A pause moves along, and gets no longer than it was ordered.
		if gen.p > 0 then gen.p = min(gen.p + shift, now + gen.pd) end
	end
	-- The other nodes of a cluster may have lost their data as well: clients look there.
	if not ALONE then redis.call('PUBLISH', CHANNEL .. 'all', cmsgpack.pack({kind = 'gen', key = KEYS[1]})) end
	unsaved = true
end

do
	local err = loadGen()
	if err then return err end
	gen.p = min(gen.p, now + LONGEST_PAUSE)
	gen.q = min(gen.q, now + max(call.quarantine, HOUR))
	gen.chk = min(gen.chk, now)
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
if GEN ~= gen.id or now > call.notafter then
	finishGen()
	local told -- processes that come first
	if now < gen.q + HOUR then told = gen.replaced end
	return cmsgpack.pack({now = now, gen = gen.id, call = CALL_NUMBER, stale = true, replaced = told})
end

-- countLive counts the processes that reach this server, and forgets those that have long gone.
local function countLive()
	local live = 0
	local all = redis.call('HGETALL', KEYS[2])
	for i = 1, #all, 2 do
		local p = process(all[i + 1])
		local seen = p and p.seen or 0
		if seen > now - CUT_OFF then live = live + 1 end
		if seen < now - FORGOTTEN then redis.call('HDEL', KEYS[2], all[i]) end
	end
	if gen.m ~= live then
		gen.m = live
		unsaved = true
	end
end

-- A sign of life comes along with a call of a process now and then.
local listeners = 0   -- to the process's own channel
local lapsed = false  -- it was DEAD, so its turns may be gone
if call.leave then
	redis.call('HDEL', KEYS[2], PROC)
elseif call.beat then
	local was = process(redis.call('HGET', KEYS[2], PROC))
	lapsed = not was or was.seen < now - DEAD
	redis.call('HSET', KEYS[2], PROC, cmsgpack.pack({seen = now, name = call.name, promise = call.promise}))
	redis.call('PEXPIRE', KEYS[2], DAY / 1000)
	listeners = redis.call('PUBLISH', CHANNEL .. PROC, cmsgpack.pack({kind = 'echo'}))
	-- For SHARE; and processes that have long gone are forgotten when another one comes.
	if lapsed or SPREAD > 0 then countLive() end
end

-- If processes that can't reach this server go on by themselves, those that can leave them their
-- share: all delays are longer by this factor.
local SHARE = 1
if SPREAD > gen.m then SHARE = SPREAD / max(gen.m, 1) end

local hosts = {}    -- states by number
local keys = {}     -- their keys, by state
local lastCall = {} -- number of the call of this process that was there before, by state; 0: unknown
local triedBy = {}  -- number of the first call that may have done an operation; 0 or nil: none
local failed = {}   -- by number: why nothing is done to a host

-- set stores a field; the value of a missing one isn't stored.
local function set(h, field, value)
	if value == HOST[field] then value = nil end
	rawset(h, field, value)
end

-- sooner reports whether x goes before y.
local function sooner(x, y)
	if x.rank ~= y.rank then return x.rank > y.rank end
	if x.came ~= y.came then return x.came < y.came end
	return x.id < y.id
end

-- enter gives r its place.
local function enter(h, r)
	local i = #h.L + 1
	while i > 1 and sooner(r, h.L[i - 1]) do i = i - 1 end
	table.insert(h.L, i, r)
end

local function find(h, id)
	local L = h.L
	for i = 1, #L do
		if L[i].id == id then return L[i], i end
	end
end

local function drop(h, id)
	local _, i = find(h, id)
	if i then table.remove(h.L, i) end
	if h.pr == id then set(h, 'pr', '') end
end

-- has reports whether r has done what the letter stands for.
local function has(r, letter)
	return r.did ~= '' and string.find(r.did, letter, 1, true) ~= nil
end

-- live returns the number of slots that are taken.
local function live(h)
	local n = 0
	local L = h.L
	for i = 1, #L do
		if L[i].state ~= QUEUED then n = n + 1 end
	end
	return n
end

-- reserve gives r a slot and a time to start.
local function reserve(r, due)
	r.due = due
	r.guard = WINDOW
	r.state = RESERVED
	r.expiry = max(due, now) + CLAIM
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
	return r.ends or has(r, ENDED)
end

-- finish makes at the end of a lease, for the next start if its gap counts from there.
local function finish(h, r, at)
	if r.state ~= GONE or not countsFromEnd(r) then return end
	if h.lo == r.id then
		-- The gap that is running may have become longer since the start.
		set(h, 'a', max(h.a, at + h.a - h.l))
		set(h, 'l', max(h.l, at))
	else
		later(h, at, at + gap(h, r.delay))
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
	if r.state ~= GONE then return end -- no request was let go
	h.X = h.X or {}
	if #h.X < MOST_TAKEN then h.X[#h.X + 1] = {proc = ownerOf(r), number = r.number} end
end

-- fail makes nothing happen to host i: its key is broken or, of the kind overtaken, a later call was
-- here.
local function fail(i, why, kind)
	local text = type(why) == 'table' and why.err or why
	failed[i] = {kind = kind or 'broken', err = KEYS[2 + i] .. ': ' .. tostring(text)}
end

-- The fields of a host with the last numbers of each process. Two tables take turns, so that
-- processes are forgotten which have long gone.
local CALLS = {recent = 'P', earlier = 'O', since = 't', keep = LATEST}
local CHANGES = {recent = 'D', earlier = 'E', since = 'd', keep = KEEP_CHANGES}

-- lastNumber returns the last number that was noted for this process; 0: none is known.
local function lastNumber(h, fields)
	local recent = h[fields.recent]
	local earlier = h[fields.earlier]
	return recent and recent[PROC] or earlier and earlier[PROC] or 0
end

-- noteNumber notes the last number of this process.
local function noteNumber(h, fields, number)
	if now - h[fields.since] > fields.keep then
		rawset(h, fields.earlier, h[fields.recent] or nil)
		rawset(h, fields.recent, nil)
		rawset(h, fields.since, now)
	end
	if not h[fields.recent] then rawset(h, fields.recent, {}) end
	h[fields.recent][PROC] = number
end

-- isNewest notes the number of this call, and reports whether no later one of its process, or the
-- same one, was at the host.
local function isNewest(h)
	local last = lastNumber(h, CALLS)
	if last >= CALL_NUMBER then return false end
	noteNumber(h, CALLS, CALL_NUMBER)
	lastCall[h] = last
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
	for _, field in ipairs({'bg', 'ea', 'lc', 'e', 't', 'd'}) do set(h, field, 0) end
	set(h, 's', gen.s)
end

-- bound caps the times of a host by what the processes could have written: one that somebody else
-- has written, once, must not stay. A start that lies ahead can't have been, nor its gap.
local function bound(h)
	if h.l > now + AHEAD then
		set(h, 'a', min(h.a, now + max(h.a - h.l, 0)))
		set(h, 'l', now)
	end
	if h.pl > now + AHEAD then
		set(h, 'pa', min(h.pa, now + max(h.pa - h.pl, 0)))
		set(h, 'pl', now)
	end
	-- Who asks for a longer gap than that, by a Crawl-delay, states it.
	local gap = max(LONGEST_GAP, MOST)
	if h.a > max(h.l, now) + gap then set(h, 'a', max(h.l, now) + gap) end
	if h.pa > max(h.pl, now) + gap then set(h, 'pa', max(h.pl, now) + gap) end
	local most = MOST
	if string.sub(h.c, 1, #BY_HAND) == BY_HAND then most = LONGEST_BY_HAND end
	if most > 0 and h.b > now + most then set(h, 'b', now + most) end
	set(h, 'bs', min(h.bs, now))
end

-- expire drops the turns whose time is over.
local function expire(h)
	-- From the end, as drop moves the turns behind.
	for j = #h.L, 1, -1 do
		local r = h.L[j]
		if r.expiry <= now then
			leak(h, r)
			finish(h, r, r.expiry)
			drop(h, r.id)
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
	setmetatable(h, hostRecord)
	if not isNewest(h) then return fail(i, 'a later call was here', 'overtaken') end
	h.L = h.L or {}
	local L = h.L
	for j = 1, #L do setmetatable(L[j], turnRecord) end
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
	bound(h)
	expire(h)
	if h.al and now > h.b + FORGIVE then
		for _, field in ipairs({'f', 'al', 'b', 'c'}) do h[field] = nil end
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
	local L = h.L
	for j = 1, #L do
		if L[j].expiry > owed then owed = L[j].expiry end
	end
	if #L == 0 then h.L = nil end -- isn't stored
	redis.call('SET', keys[h], cmsgpack.pack(h), 'PX', ceil((owed - now) / 1000) + KEY_MARGIN)
	h.L = L
	owe(owed)
end

-- count returns the number of leases that were let go, other than that of id,
-- since when started requests hold all n slots (0: they don't), and when the first of those started.
local function count(h, n, id)
	local gone, last, first = 0, 0, now
	local L = h.L
	for i = 1, #L do
		local r = L[i]
		if r.state == GONE and r.id ~= id then
			gone = gone + 1
			last = max(last, r.due)
			first = min(first, r.due)
		end
	end
	local fullSince = 0
	if gone >= n and last <= now then fullSince = last end
	return gone, fullSince, first
end

-- those returns the turns of a state, in the order in which they go.
local function those(h, state)
	local order = {}
	local L = h.L
	for i = 1, #L do
		if L[i].state == state then order[#order + 1] = L[i] end
	end
	return order
end

-- open returns the earliest time from t on at which a request may start by HOURS, and remain
-- inside for as long as a start may be late.
local function open(t)
	if not HOURS then return t end
	local at = t % DAY -- the clock counts from a midnight
	local wait = DAY
	for _, window in ipairs(HOURS) do
		local from = window.from or 0
		local to = window.to or 0
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
	local s = max(now, h.a, h.b, gen.q, gen.p)
	local l = h.l
	local L = h.L
	for i = 1, #L do
		local r = L[i]
		-- L is in the order in which turns go.
		if r == me or me and not sooner(r, me) then break end
		if r.state == RESERVED then
			local at = max(s, l + r.floor)
			local d = gap(h, r.delay)
			-- s and l as they will be after r.
			s = at + room(d, r.guard) + d
			l = at + r.guard
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
	local message = cmsgpack.pack({kind = 'push', id = r.id, due = due, now = now, why = why})
	return redis.call('PUBLISH', CHANNEL .. ownerOf(r), message)
end

-- report returns a Report: the fields that a client keeps of a host, to compute the effect of a
-- response, and to restore it after a loss of data.
local function report(h)
	local delay
	if h.l > 0 and h.a > h.l then delay = floor((h.a - h.l) / SHARE) end
	setmetatable(h, nil) -- fields that are missing here are missing there
	local r = {
		next = h.a, adaptive = h.ad, delay = delay, served = h.sv, since = h.bg,
		block = h.b, setat = h.bs, cause = h.c, single = h.al, row = h.f,
		learned = h.le, easedat = h.ea, version = h.v, rest = h.R,
	}
	setmetatable(h, hostRecord)
	return r
end

-- proclaim reports a block to every process, or that there is none any more; act is 1 if an operator
-- has blocked the host, and 2 if one has lifted the block.
local function proclaim(h, act)
	redis.call('PUBLISH', CHANNEL .. 'all', cmsgpack.pack({
		kind = 'block', key = keys[h], now = now, act = act, host = report(h),
	}))
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
		if r.state == GONE then t = max(t, r.due + r.guard) end
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
		local s, why = start(h, r.floor, r)
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
	local s, why = start(h, r.floor, r)
	if always or s < r.due - WORTH then
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
	at = max(at, r.due, h.pl) -- pl and pa are owed to others
	local isLast = h.lo == r.id and h.l == r.due + r.guard
	local isEarlier = at < h.l
	local hasGap = h.a > h.l
	if not (isLast and isEarlier and hasGap) or has(r, ENDED) then return end
	set(h, 'a', max(at + h.a - h.l, h.pa))
	set(h, 'l', at)
	r.guard = at - r.due
	follow(h)
end

-- back undoes the letting go of a lease. started is the take by which it has started, 0 if it has
-- never started: no start has followed a later GO.
local function back(h, r, started)
	if r.state ~= GONE then return end
	if r.seq ~= started then set(h, 'n', max(h.n - 1, 0)) end
	if h.lo == r.id then
		-- The start before is the last one again.
		set(h, 'a', h.pa)
		set(h, 'l', h.pl)
		set(h, 'lo', '')
	end
	if h.pr == r.id then set(h, 'pr', '') end
	r.state = RESERVED
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
			isLive[proc] = p ~= nil and p.seen > now - DEAD
		end
		if not isLive[proc] then dead[#dead + 1] = r end
	end
	for _, r in ipairs(dead) do
		leak(h, r)
		finish(h, r, now)
		drop(h, r.id)
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
	local L = h.L
	for i = 1, #L do
		if L[i] == r then break end
		if L[i].state == QUEUED then place = place + 1 end
	end
	return place
end

-- expiryFor returns when the first turn expires that a queued one waits for.
local function expiryFor(h, place)
	local expiry = now + TTL
	local L = h.L
	for i = 1, #L do
		local r = L[i]
		-- Only the first in the queue looks after a reservation that lapses.
		if r.state == GONE or r.state == RESERVED and place == 0 then expiry = min(expiry, r.expiry) end
	end
	return expiry
end

-- queue answers a take of me while every slot is taken.
local function queue(h, me, n, least, longest)
	if not find(h, me.id) then enter(h, me) end
	local place = placeOf(h, me)
	local _, fullSince, first = count(h, n, '')
	local s, why = start(h, me.floor)
	s = s + place * least
	if s - now > longest then
		-- In the queue it would only keep others behind it.
		drop(h, me.id)
		return {kind = 'late', at = s, why = why, host = report(h)}
	end
	me.expiry = now + WAITING
	if fullSince > 0 then why = BY_SLOTS end
	local expiry = expiryFor(h, place)
	return {kind = 'wait', place = place, why = why, full = fullSince, expiry = expiry, first = first}
end

-- letGo answers a take of me, whose start s is near.
local function letGo(h, n, me, s, started, ceiling)
	-- The reply is LATENCY under way, which counts only if it arrives after s.
	local guard = max(WINDOW, now + LATENCY + WINDOW - s)
	-- A lease starts within its guard at the latest.
	me.guard = guard
	me.state = GONE
	me.expiry = s + guard + TTL
	me.number = nil
	local idle = 0
	if started == 0 and h.l > 0 then idle = s - max(h.a, h.l + me.floor, h.b, gen.p) end
	tally(h, s, idle, ceiling)
	-- If the gap counts from its end, the delay may be shorter by then, but the promise holds.
	me.delay = max(me.delay, h.ad, h.le)
	local d = ceil(me.delay * SHARE)
	set(h, 'pa', h.a)
	set(h, 'pl', h.l)
	set(h, 'a', max(h.a, s + room(d, guard) + d))
	set(h, 'l', s + guard)
	set(h, 'lo', me.id)
	if h.al then set(h, 'pr', me.id) end
	-- This start may owe less than was planned for it.
	local awaited = follow(h)
	local taken = h.X or nil
	h.X = nil
	local slots = count(h, n, '')
	return {
		kind = 'go', at = s, guard = guard, delay = d, slots = slots, probe = h.pr == me.id,
		taken = taken, prev = h.e, others = awaited, host = report(h),
	}
end

-- take asks for a turn, again and again until the answer is go. After that it takes the turn back and
-- asks for another. Turns go by rank, then by when they came.
function ops.take(h, a)
	local id, n, started, longest = a.id, a.slots, a.started, a.longest
	local delay, floor = a.delay, a.floor
	if a.blind then
		floor = h.cd
		delay = max(delay, floor)
	else
		set(h, 'cd', floor)
	end
	local me, at = find(h, id)
	if me then
		-- The question takes a turn back that was let go before.
		back(h, me, started)
		me.seq = a.seq
		me.delay = delay
		me.floor = floor
		me.ends = a.ends
		if me.rank ~= a.rank then -- a Start goes before all that have no lease
			me.rank = a.rank
			enter(h, table.remove(h.L, at))
		end
	else
		me = setmetatable({
			id = id, seq = a.seq, delay = delay, came = now - a.ago, due = now, guard = WINDOW,
		}, turnRecord)
		-- These are missing in most turns.
		if floor > 0 then me.floor = floor end
		if a.ends then me.ends = true end
		if a.rank ~= 0 then me.rank = a.rank end
	end
	if byHand(h) then
		drop(h, id)
		return {kind = 'late', at = h.b, why = BY_BLOCK, host = report(h)}
	end
	if me.state == RESERVED and count(h, n, id) >= n then
		me.state = QUEUED -- restored leases have filled the slots
	end
	local isQueued = me.state == QUEUED
	local awaitsProbe = h.pr ~= '' and h.pr ~= id
	-- Slots and a probe of dead processes are looked for only if they are in the way.
	if isQueued and live(h) >= n or awaitsProbe then bury(h) end
	if isQueued then
		-- Turns that have waited longer get the free slots first.
		hand(h, n, me)
		if me.state == QUEUED and live(h) >= n then return queue(h, me, n, a.least, longest) end
		if not find(h, id) then enter(h, me) end
		me.state = RESERVED
	end
	local s, why = start(h, me.floor, me)
	if s - now > longest then
		-- Its slot and its place are for others.
		drop(h, id)
		again(h)
		hand(h, n)
		return {kind = 'late', at = s, why = why, host = report(h)}
	end
	reserve(me, s)
	local probing = h.pr ~= '' and h.pr ~= id and find(h, h.pr)
	if h.al and probing then
		-- The end of the probe pushes it. If that is lost, it asks before it lapses.
		me.expiry = now + CLAIM + SECOND
		return {kind = 'wait', why = BY_PROBE, expiry = now + TTL}
	end
	-- Once it is let go, a block can't stop it.
	if s - now > call.horizon then return {kind = 'at', at = s, why = why, host = report(h)} end
	return letGo(h, n, me, s, started, a.ceiling)
end

-- DONE is the answer that has nothing to say.
local DONE = {kind = 'ok'}

-- release gives a slot back. The turn may have been let go once more since the take by which it has
-- started.
function ops.release(h, a)
	local id, n, undone, started = a.id, a.slots, a.undone, a.started
	set(h, 'e', max(h.e, a.stamp))
	local r = find(h, id)
	if r then
		if not undone and r.seq == started then began(h, r, a.by) end
		local probed = h.pr == id
		local held = r.state ~= QUEUED
		local oncemore = r.state == GONE and started > 0 and r.seq ~= started
		if not undone and oncemore and countsFromEnd(r) then
			later(h, now, now + gap(h, r.delay)) -- the start before that ends now
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
	return DONE
end

-- mark notes that r has done what the letter stands for.
local function mark(r, letter)
	if not has(r, letter) then r.did = r.did .. letter end
end

-- mayBeDone reports whether an earlier call may have done a. It hasn't if no call of its process was
-- here since: one that comes after this call does nothing.
local function mayBeDone(h, a)
	local tried = triedBy[a] or 0
	local last = lastCall[h]
	return tried > 0 and (last == 0 or last >= tried)
end

-- once reports whether the lease of a does this for the first time, and notes it. In doubt it has done
-- it before: a success that isn't counted makes no delay shorter.
local function once(h, a, letter)
	local r = find(h, a.id)
	local isFirst = not mayBeDone(h, a)
	if r and not has(r, RESTORED) then isFirst = not has(r, letter) end
	if r then mark(r, letter) end
	return isFirst
end

-- adapt moves the delay by response times, within least and most.
local function adapt(h, a)
	local d = a.atonce
	if a.half >= 0 then d = max(d, (max(h.ad, a.least) + a.half) / 2) end
	d = max(a.least, min(ceil(d), a.most))
	if a.longer then d = max(d, h.ad) end
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
		mark(lease, ENDED)
		finish(h, lease, now)
	else
		-- It was lost with the server's data, and may come by a later restore.
		later(h, now, now + max(delay, gap(h, 0)))
	end
end

-- change stores the refusals of a host as a client has changed them, if they still are of the version
-- that it has computed from. It doesn't do so twice: a process has one change of a host under way,
-- and sends it until it has the answer. The answer newer has the client compute anew.
local function change(h, id, served, c)
	-- The same change: its reply was lost.
	local isStored = c.number > 0 and lastNumber(h, CHANGES) == c.number
	if isStored then return {kind = 'stored', latest = latest(h), host = report(h)} end
	-- Another process has changed the refusals since.
	if c.version ~= h.v then return {kind = 'newer', host = report(h)} end
	noteNumber(h, CHANGES, c.number)
	if c.ended then endAttempt(h, id, c.delay) end
	-- A clearing is remembered, so that no Store or client brings the block back.
	if c.cleared then set(h, 'k', max(h.b, now) + FORGIVE) end
	if c.blocked then set(h, 'k', 0) end
	if c.stay ~= AS_BEFORE then set(h, 'b', now + c.stay) end
	if c.newly then set(h, 'bs', now) end
	if served then set(h, 'sv', h.sv + 1) end
	if c.taught then
		-- The next lesson is about the successes at the new delay.
		raise(h, c.learned)
		set(h, 'bg', now)
		set(h, 'sv', 0)
	end
	if c.taught or c.eased then set(h, 'ea', now) end
	set(h, 'c', c.cause)
	set(h, 'al', c.single)
	set(h, 'f', c.row)
	set(h, 'le', c.learned)
	set(h, 'R', c.rest)
	set(h, 'v', max(now, h.v + 1))
	set(h, 'rv', h.v)
	if c.blocked or c.cleared then proclaim(h, c.act) end
	if c.blocked or c.cleared or h.pr == id then
		-- A probe whose response decides nothing leaves it to the next one.
		set(h, 'pr', '')
		again(h, true)
		hand(h, c.slots)
	end
	local lastStart = 0
	if c.blocked or c.ended then lastStart = latest(h) end
	return {kind = 'stored', latest = lastStart, host = report(h)}
end

-- outcome stores the effect of a lease's outcome, or of an operator. It does no part of it twice.
function ops.outcome(h, a)
	if a.adapt and once(h, a, ADAPTED) then adapt(h, requested(a.adapt, 'adapt')) end
	if a.change then return change(h, a.id, a.ok, requested(a.change, 'change')) end
	-- A success ends refusals, which the client doesn't know of yet.
	local hasRefusals = h.R ~= '' or h.le > 0 or h.al or h.f > 0
	if a.ok and hasRefusals then return {kind = 'newer', host = report(h)} end
	if a.ok and once(h, a, COUNTED) then set(h, 'sv', h.sv + 1) end
	return {kind = 'counted'}
end

-- started reports a start.
function ops.started(h, a)
	local r = find(h, a.id)
	if r and r.state == GONE and r.seq == a.seq then -- else it has asked again since
		r.number = a.number
		began(h, r, a.by)
	end
	return DONE
end

-- renew prolongs a lease whose body is still being read.
function ops.renew(h, a)
	local r = find(h, a.id)
	if r and r.state == GONE then r.expiry = now + TTL end
	return DONE
end

-- restoreLost stores what a client knows of the refusals of a host. Of two clients the later version
-- holds, and the later block.
local function restoreLost(h, a)
	local b, single, f = a.block, a.single, a.row
	if h.k >= now and a.version <= h.rv then
		-- That block was lifted since.
		b = 0
		single = false
		f = 0
	end
	if b > 0 or single then -- over, but with a probe to come
		if now + b > h.b then set(h, 'c', a.cause) end
		set(h, 'b', max(h.b, now + b))
	end
	if b > 0 then set(h, 'bs', now) end
	set(h, 'al', h.al or single)
	set(h, 'f', max(h.f, f))
	set(h, 'le', max(h.le, a.learned))
	set(h, 'ea', max(h.ea, now + a.easedat))
	if a.version > h.rv then
		set(h, 'R', a.rest)
		set(h, 'rv', a.version)
	end
	set(h, 'v', max(now, h.v + 1))
	if h.bg == 0 or a.served > h.sv then
		set(h, 'bg', now + a.since)
		set(h, 'sv', a.served)
	end
end

-- restore stores a client's knowledge of a host.
function ops.restore(h, a)
	later(h, now + a.last, now + a.next)
	if a.lost then restoreLost(h, requested(a.lost, 'lost')) end
	for _, lease in ipairs(a.leases or {}) do
		requested(lease, 'lease')
		local expiry = now + lease.left
		local r = find(h, lease.id)
		if not r then
			enter(h, setmetatable({
				id = lease.id, seq = lease.seq, delay = lease.delay, ends = lease.ends or nil,
				expiry = expiry, due = now, guard = WINDOW, state = GONE, did = RESTORED,
			}, turnRecord))
		elseif r.state ~= GONE then
			-- It was let go by a state that this server has lost.
			r.seq = max(lease.seq, r.seq)
			r.expiry = expiry
			r.due = now
			r.state = GONE
		end
	end
	return DONE
end

-- recall stores the debt of a client's Store.
function ops.recall(h, a)
	-- Stores of other processes still have a block that was lifted here.
	if h.k < now then
		local blocks = now + a.block > max(h.b + SECOND, now) -- else it is the same block, by two clocks
		local isNew = h.n == 0 and h.b == 0
		if blocks or a.row > 0 and isNew then -- over, but with a probe to come
			if not byHand(h) then set(h, 'c', a.cause) end
			set(h, 'b', now + a.block)
			set(h, 'f', max(h.f, a.row))
			if a.row > 0 then set(h, 'al', true) end
		end
		if blocks then
			set(h, 'bs', now)
			proclaim(h, NO_ACT)
		end
	end
	if h.n == 0 and h.le == 0 then -- a delay that was learned since is newer
		set(h, 'le', a.learned)
		set(h, 'ea', now)
	end
	set(h, 'v', max(now, h.v + 1))
	return {kind = 'ok', host = report(h)}
end

-- peek returns the earliest start of a newcomer, without taking a place.
function ops.peek(h, a)
	local s = open(start(h, a.floor))
	return {kind = 'ok', at = s + #those(h, QUEUED) * a.least, host = report(h)}
end

-- pause lets nothing start on any host for so long from now on; 0 ends a pause.
function ops.pause(_, a)
	gen.p = now + a.length
	gen.pd = a.length
	unsaved = true
	owe(gen.p)
	redis.call('PUBLISH', CHANNEL .. 'all', cmsgpack.pack({kind = 'pause'}))
	return DONE
end

-- limiter returns the name of all that is under the prefix: the one that came first.
function ops.limiter(_, a)
	if gen.name == '' then
		gen.name = a.name
		unsaved = true
	end
	return {kind = 'ok', name = gen.name}
end

-- fleet returns the end of the pause, and the processes.
function ops.fleet()
	local all = redis.call('HGETALL', KEYS[2])
	local found = {}
	for i = 1, #all, 2 do
		local p = process(all[i + 1])
		if p then found[#found + 1] = {id = all[i], name = p.name, seen = p.seen, promise = p.promise} end
	end
	return {kind = 'ok', paused = gen.p, processes = found}
end

-- hello publishes the promise of a process to one process, or to all. check says to do everything else
-- that needs the server's permission.
function ops.hello(_, a)
	if a.check then
		redis.call('HSET', KEYS[2], '?', '')
		redis.call('HDEL', KEYS[2], '?')
		unsaved = true
	end
	redis.call('PUBLISH', CHANNEL .. a.to, a.text)
	return DONE
end

-- state returns the values of a status page.
function ops.state(h)
	local running = 0
	if h.l > 0 then running = h.a - h.l end
	return {
		kind = 'ok',
		starts = h.n,
		inflight = count(h, 0, ''),
		waiting = #those(h, QUEUED) + #those(h, RESERVED),
		next = start(h, 0),
		block = h.b,
		cause = h.c,
		refusals = h.f,
		probing = h.pr ~= '',
		delay = max(running, h.ad, h.le),
		adaptive = h.ad,
		learned = h.le,
	}
end

-- Operations that change no host.
local READS = {peek = true, state = true, pause = true, fleet = true, limiter = true, hello = true}

local answers = {}
local changed = {} -- hosts by number
local requests = call.ops or {}
for j, a in ipairs(requests) do
	requested(a, a.op)
	triedBy[a] = TRIED[j]
	local i = a.on
	-- A host that is broken keeps no other one from its operations.
	local loaded, h = pcall(load, i)
	if not loaded then fail(i, h) end
	if not failed[i] then
		local ok, answer = pcall(ops[a.op], h, a)
		if not ok then fail(i, answer) end
		answers[j] = answer
		if not READS[a.op] then changed[i] = h end
	end
end
for i, h in pairs(changed) do
	if not failed[i] then
		-- A field that no operation looked at may be no number either.
		local ok, err = pcall(save, h)
		if not ok then fail(i, err) end
	end
end
for j, a in ipairs(requests) do answers[j] = failed[a.on] or answers[j] end
finishGen()
return cmsgpack.pack({
	now = now, gen = gen.id, call = CALL_NUMBER, listeners = listeners, lapsed = lapsed, answers = answers,
})
