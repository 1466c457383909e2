-- take grants a process a chunk of the budget, and takes back what it has left over.
--
-- KEYS[1]  the budget, a hash; it and KEYS[2] expire when unused for long:
--            form          version of this layout, and the window in microseconds
--            id, epoch     name and number of the server's present state; both are new after a loss
--            b<epoch>      pages:bytes:id, as the epoch began; of the last 16
--            run           run_id of the server that wrote it
--            fence         number of calls that counted
--            window        number of the window, 0 without
--            quiet         until when nothing is granted
--            pages, bytes  granted and not given back
--            started       first page or byte, 0: none
--            w:LIMIT       the limit has warned
--            procs         last call of each process that hasn't said goodbye, in seconds: a map in
--                          MessagePack
-- KEYS[2]  by host, a hash: h:HOST pages:epoch:base, w:HOST; the empty field holds the last epoch
-- KEYS[3]  last call of the process, a string that expires in ten minutes: seq, id, window, grants
--
-- Times are microseconds of the server's clock.
--
-- Every reply ends with the name of its call, PROC and SEQ: a client may read one that was left on
-- a connection.
--
-- A call counts once, however often it arrives. One that comes after its not-after time or after a
-- later call of its process does nothing and says so.
--
-- The server's data may be lost or go back in time: a restart from an old dump, a failover to a
-- replica that lags, FLUSHALL. Each of these begins an epoch: a new run_id, a missing key or a
-- process that knows a later fence shows it. For a while nothing is granted then, and each process
-- sends the counts that it has seen last. A process that sends them later adds what its counts are
-- above those at the beginning of the first epoch that it doesn't know: what has been granted since
-- comes on top.

local FORM = ARGV[1]
local PROC = ARGV[2] -- the client
local SEQ = ARGV[3]  -- number of its call
local NOT_AFTER = tonumber(ARGV[4])
local AGAIN = ARGV[5] == '1' -- whether a copy was sent before
-- The state as the process knows it.
local EPOCH = tonumber(ARGV[6])
local ID = ARGV[7]
local FENCE = tonumber(ARGV[8])
local WINDOW = tonumber(ARGV[9])
local PROCESSES = tonumber(ARGV[10])
local KEEP = ARGV[11] -- milliseconds that the keys outlive the last call
-- Limits; 0: none.
local PAGES = tonumber(ARGV[12])
local PER_HOST = tonumber(ARGV[13])
local BYTES = tonumber(ARGV[14])
-- Uses that warn; 0: never.
local WARN_PAGES = tonumber(ARGV[15])
local WARN_HOST = tonumber(ARGV[16])
local WARN_BYTES = tonumber(ARGV[17])
local HOST = ARGV[18]
-- The size of the next chunks; bytes may be fewer, but not fewer than LEAST_BYTES.
local WANT_PAGES = tonumber(ARGV[19])
local WANT_HOST = tonumber(ARGV[20])
local WANT_BYTES = tonumber(ARGV[21])
local LEAST_BYTES = tonumber(ARGV[22])
-- The process gives these back.
local BACK_PAGES = tonumber(ARGV[23])
local BACK_BYTES = tonumber(ARGV[24])
-- The counts that the process has seen last.
local KNOWN_PAGES = tonumber(ARGV[25])
local KNOWN_BYTES = tonumber(ARGV[26])
local KNOWN_ELAPSED = tonumber(ARGV[27])
local START = ARGV[28] == '1'        -- whether the grant is spent, which starts the budget's clock
local WARN_TIME = tonumber(ARGV[29]) -- 0: never
local EVERY = tonumber(ARGV[30])     -- length of a window
local QUIET_NEW = tonumber(ARGV[31])
local QUIET = tonumber(ARGV[32])
local QUIET_SENT = tonumber(ARGV[33]) -- at least this after counts were sent
local SENT_EPOCH = tonumber(ARGV[34])
local SENT = tonumber(ARGV[35])
local BYE = ARGV[36] == '1' -- whether this is the last call
-- Seconds of silence between which a process counts as lost.
local LOST_AFTER = tonumber(ARGV[37])
local LOST_FOR = tonumber(ARGV[38])
-- From ARGV[FIRST]: SENT hosts and their pages as of SENT_EPOCH; then hosts and how many of their
-- pages are given back.
local FIRST = 39

local EPOCHS = 16    -- whose beginnings are kept
local MOST_LOST = 7  -- lost processes that make chunks smaller
local LAST_CALL_MS = 600000
local DAY = 24 * 3600 * 1000000 -- microseconds

local function int(x) return string.format('%.0f', x) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local names = { 'form', 'id', 'epoch', 'run', 'fence', 'window', 'quiet', 'pages', 'bytes', 'started', 'procs' }
local s = {}
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do s[names[i]] = value end
if s.form and s.form ~= FORM then
	local is = 'POLITENESS this budget is kept in the form ' .. s.form .. ' (version:window), not ' .. FORM
	return redis.error_reply(is .. ': all processes need the same Every and the same version of redisbudget')
end
if now > NOT_AFTER then return { 'late', int(now), PROC .. SEQ } end
local last = {}
last.seq, last.id, last.window, last.pages, last.host, last.bytes, last.warned =
	string.match(redis.call('GET', KEYS[3]) or '', '^(%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%a*)$')
if last.seq and tonumber(last.seq) > tonumber(SEQ) then return { 'old', int(now), PROC .. SEQ } end

local info = redis.pcall('INFO', 'server') -- may be forbidden
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '?'
local id = s.id
local epoch = tonumber(s.epoch or 0)
local window = tonumber(s.window or 0)
local quiet = tonumber(s.quiet or 0)
local pages = tonumber(s.pages or 0)
local bytes = tonumber(s.bytes or 0)
local started = tonumber(s.started or 0)
local fence = tonumber(s.fence or 0)
-- No process writes times further ahead. One that somebody else has written must not stay.
quiet = math.min(quiet, now + math.max(QUIET, QUIET_NEW, QUIET_SENT))
started = math.min(started, now)

-- setBase stores the counts at the beginning of epoch e, whose id is name.
local function setBase(e, p, b, name)
	redis.call('HSET', KEYS[1], 'b' .. int(e), int(p) .. ':' .. int(b) .. ':' .. name)
end

local function base(e)
	local p, b, name = string.match(redis.call('HGET', KEYS[1], 'b' .. int(e)) or '', '^(%d+):(%d+):(.*)$')
	return tonumber(p), tonumber(b), name
end

-- A new window begins; a clock that was set back begins none.
local current = EVERY > 0 and math.floor(now / EVERY) or 0
-- It is set back by a day at most. A window that lies further ahead is somebody else's, and must not
-- keep the budget from being renewed for good.
if EVERY > 0 then window = math.min(window, current + math.ceil(DAY / EVERY)) end
if current > window then
	window = current
	pages = 0
	bytes = 0
	started = 0
	redis.call('DEL', KEYS[2])
	redis.call('HDEL', KEYS[1], 'w:pages', 'w:bytes', 'w:time')
	for e = math.max(epoch - EPOCHS, 0), epoch do redis.call('HDEL', KEYS[1], 'b' .. int(e)) end
	if id then
		redis.call('HSET', KEYS[2], '', int(epoch))
		setBase(epoch, 0, 0, id)
	end
end

-- A loss of data, or what may be one, begins an epoch.
local seen = redis.call('HGET', KEYS[2], '')
local wentBack = ID == id and FENCE > fence
local forgot = id and (s.run ~= run or wentBack or not seen)
if not id or forgot then
	local isNew = not (forgot or seen or ID ~= '') -- no trace of it is left anywhere
	quiet = now + (isNew and QUIET_NEW or QUIET)
	local before = epoch
	epoch = math.max(epoch, EPOCH, tonumber(seen or 0)) + 1
	id = int(now) .. PROC .. SEQ
	for e = before - EPOCHS, math.min(before, epoch - EPOCHS) do redis.call('HDEL', KEYS[1], 'b' .. int(e)) end
	setBase(epoch, pages, bytes, id)
	redis.call('HSET', KEYS[2], '', int(epoch))
end

-- A process that ends without a last call takes its chunk along. The more did of late, the smaller
-- are the chunks. One that was only cut off calls again, and no longer counts. After a loss of data
-- the count begins anew.
local procs = {}
if s.procs and not forgot then procs = cmsgpack.unpack(s.procs) end
local lost = {}
procs[PROC] = math.floor(now / 1000000)
for name, at in pairs(procs) do
	local silent = now / 1000000 - at
	if silent > LOST_FOR then
		procs[name] = nil
	elseif silent > LOST_AFTER then
		table.insert(lost, name)
	end
end
table.sort(lost, function(a, b) return procs[a] > procs[b] end)
for i = MOST_LOST + 1, #lost do procs[lost[i]] = nil end
if BYE then procs[PROC] = nil end
local divisor = 1 + math.min(#lost, MOST_LOST)

local knows = ID == id or ID == ''
if not knows and WINDOW == window then
	local _, _, name = base(EPOCH)
	if name ~= ID then quiet = math.max(quiet, now + QUIET) end -- others may come from there too
	local morePages, moreBytes
	for e = math.max(math.min(EPOCH + 1, epoch), epoch - EPOCHS), epoch do
		local p, b, its = base(e)
		if p then
			morePages = morePages or math.max(KNOWN_PAGES - p, 0)
			moreBytes = moreBytes or math.max(KNOWN_BYTES - b, 0)
			setBase(e, p + morePages, b + moreBytes, its)
		end
	end
	pages = pages + (morePages or 0)
	bytes = bytes + (moreBytes or 0)
	if KNOWN_ELAPSED > 0 then
		local known = now - KNOWN_ELAPSED
		if started == 0 or known < started then started = known end
	end
end

-- hostUse returns the pages of a host, the epoch in which some were granted last, and the pages as
-- that began.
local function hostUse(host)
	local n, e, b = string.match(redis.call('HGET', KEYS[2], 'h:' .. host) or '', '^(%d+):(%d+):(%d+)$')
	return tonumber(n or 0), tonumber(e or 0), tonumber(b or 0)
end

local function setHostUse(host, n, e, b)
	if n > 0 then
		redis.call('HSET', KEYS[2], 'h:' .. host, int(n) .. ':' .. int(e) .. ':' .. int(b))
	else
		redis.call('HDEL', KEYS[2], 'h:' .. host)
	end
end
if SENT > 0 and WINDOW == window and last.seq ~= SEQ then
	local from = math.min(SENT_EPOCH + 1, epoch)
	for i = FIRST, FIRST + 2 * SENT - 1, 2 do
		local host = ARGV[i]
		local known = tonumber(ARGV[i + 1])
		local n, e, b = hostUse(host)
		if e < from then -- nothing was granted since
			n = math.max(n, known)
		else
			-- Grants of several epochs aren't kept apart: then all of them come on top.
			local atFrom = e == from and b or 0
			local more = math.max(known - atFrom, 0)
			n = n + more
			b = b + more
		end
		setHostUse(host, n, e, b)
	end
	if quiet > now then quiet = math.max(quiet, now + QUIET_SENT) end
end

local grantPages = 0
local grantHost = 0
local grantBytes = 0
local warned = ''
if last.seq == SEQ then
	-- A copy of a call that has counted gets the same grants, unless they were lost since.
	if last.id == id and tonumber(last.window) == window then
		grantPages = tonumber(last.pages)
		grantHost = tonumber(last.host)
		grantBytes = tonumber(last.bytes)
		warned = last.warned
	end
else
	fence = fence + 1
	-- Pages that were given back before a loss, or in a call that may have counted long ago, stay
	-- spent.
	local mayHaveCounted = AGAIN and not last.seq
	if ID == id and WINDOW == window and not mayHaveCounted then
		pages = math.max(pages - BACK_PAGES, 0)
		bytes = math.max(bytes - BACK_BYTES, 0)
		for i = FIRST + 2 * SENT, #ARGV, 2 do
			local n, e, b = hostUse(ARGV[i])
			setHostUse(ARGV[i], n - ARGV[i + 1], e, b)
		end
	end

	-- chunk is the grant of a limit: all of a small want, else a part that shrinks towards the end,
	-- so that no process holds pages that others lack. The page that reaches the warning is granted
	-- by itself.
	local function chunk(want, least, used, max, warn)
		if want == 0 or quiet > now or not knows then return 0 end
		local n = math.max(math.floor(want / divisor), math.min(want, least))
		if max > 0 then
			local left = max - used
			local share = math.floor(left / (2 * PROCESSES * divisor))
			n = math.min(math.max(share, least), n, left)
		end
		local before = warn - least -- the last use that doesn't warn
		if warn > 0 and used < before and used + n >= warn then n = math.min(n, before - used) end
		return math.max(n, 0)
	end

	-- reached warns once, of all processes.
	local function reached(key, field, letter, used, warn)
		if warn == 0 or used < warn then return end
		if redis.call('HSETNX', key, 'w:' .. field, 1) == 1 then warned = warned .. letter end
	end

	grantPages = chunk(WANT_PAGES, 1, pages, PAGES, WARN_PAGES)
	grantBytes = chunk(WANT_BYTES, LEAST_BYTES, bytes, BYTES, WARN_BYTES)
	pages = pages + grantPages
	bytes = bytes + grantBytes
	if grantPages > 0 then reached(KEYS[1], 'pages', 'p', pages, WARN_PAGES) end
	if grantBytes > 0 then reached(KEYS[1], 'bytes', 'b', bytes, WARN_BYTES) end
	if WANT_HOST > 0 then
		local n, e, b = hostUse(HOST)
		grantHost = chunk(WANT_HOST, 1, n, PER_HOST, WARN_HOST)
		if grantHost > 0 then
			if e ~= epoch then
				e = epoch
				b = n
			end
			setHostUse(HOST, n + grantHost, e, b)
			reached(KEYS[2], HOST, 'h', n + grantHost, WARN_HOST)
		end
	end
	if START and started == 0 and quiet <= now then started = now end
	if started > 0 and now - started >= WARN_TIME and WARN_TIME > 0 then reached(KEYS[1], 'time', 't', 1, 1) end
end

redis.call('HSET', KEYS[1],
	'form', FORM,
	'id', id,
	'epoch', int(epoch),
	'run', run,
	'fence', int(fence),
	'window', int(window),
	'quiet', int(quiet),
	'pages', int(pages),
	'bytes', int(bytes),
	'started', int(started),
	'procs', cmsgpack.pack(procs))
redis.call('PEXPIRE', KEYS[1], KEEP)
redis.call('PEXPIRE', KEYS[2], KEEP)
local grants = int(grantPages) .. ' ' .. int(grantHost) .. ' ' .. int(grantBytes)
redis.call('SET', KEYS[3], SEQ .. ' ' .. id .. ' ' .. int(window) .. ' ' .. grants .. ' ' .. warned, 'PX', LAST_CALL_MS)

local ofHost = 0
if HOST ~= '' then ofHost = hostUse(HOST) end
local elapsed = -1 -- the clock hasn't begun
if started > 0 then elapsed = now - started end
return {
	'ok',
	int(now),
	id,
	int(epoch),
	int(fence),
	int(window),
	int(math.max(quiet - now, 0)),
	int(pages),
	int(bytes),
	int(ofHost),
	int(elapsed),
	int(grantPages),
	int(grantHost),
	int(grantBytes),
	warned,
	int(divisor),
	PROC .. SEQ,
}
