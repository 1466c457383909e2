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
-- Every reply ends with the name of its call, PROC and SEQ: a client may read one that was left on a
-- connection.
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

local FORM, PROC, SEQ, NOT_AFTER, AGAIN = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
local EPOCH, ID, FENCE, WINDOW = tonumber(ARGV[6]), ARGV[7], tonumber(ARGV[8]), tonumber(ARGV[9]) -- as the process knows them
local PROCESSES, KEEP = tonumber(ARGV[10]), ARGV[11]
local PAGES, PER_HOST, BYTES = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14]) -- limits, 0: none
local WARN_PAGES, WARN_HOST, WARN_BYTES = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17]) -- 0: never
local HOST = ARGV[18]
local WANT_PAGES, WANT_HOST, WANT_BYTES, LEAST_BYTES = tonumber(ARGV[19]), tonumber(ARGV[20]), tonumber(ARGV[21]), tonumber(ARGV[22])
local BACK_PAGES, BACK_BYTES = tonumber(ARGV[23]), tonumber(ARGV[24])
local KNOWN_PAGES, KNOWN_BYTES, KNOWN_ELAPSED = tonumber(ARGV[25]), tonumber(ARGV[26]), tonumber(ARGV[27])
local START, WARN_TIME, EVERY = ARGV[28] == '1', tonumber(ARGV[29]), tonumber(ARGV[30]) -- WARN_TIME 0: never
local QUIET_NEW, QUIET, QUIET_SENT = tonumber(ARGV[31]), tonumber(ARGV[32]), tonumber(ARGV[33])
local SENT_EPOCH, SENT = tonumber(ARGV[34]), tonumber(ARGV[35])
local BYE = ARGV[36] == '1' -- whether this is the last call
local LOST_AFTER, LOST_FOR = tonumber(ARGV[37]), tonumber(ARGV[38]) -- seconds of silence between which a process counts as lost
-- From ARGV[39]: SENT hosts and their pages as of SENT_EPOCH; then hosts and how many of their
-- pages are given back.
local FIRST, EPOCHS, MOST_LOST = 39, 16, 7

local function int(x) return string.format('%.0f', x) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local names = { 'form', 'id', 'epoch', 'run', 'fence', 'window', 'quiet', 'pages', 'bytes', 'started', 'procs' }
local s = {}
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(names))) do s[names[i]] = value end
if s.form and s.form ~= FORM then
	return redis.error_reply('POLITENESS this budget is kept in the form ' .. s.form .. ' (version:window), not ' .. FORM ..
		': all processes need the same Every and the same version of redisbudget')
end
if now > NOT_AFTER then return { 'late', int(now), PROC .. SEQ } end
local last = {}
last.seq, last.id, last.window, last.pages, last.host, last.bytes, last.warned =
	string.match(redis.call('GET', KEYS[3]) or '', '^(%d+) (%S+) (%d+) (%d+) (%d+) (%d+) (%a*)$')
if last.seq and tonumber(last.seq) > tonumber(SEQ) then return { 'old', int(now), PROC .. SEQ } end

local info = redis.pcall('INFO', 'server') -- may be forbidden
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or '?'
local id, epoch, window, quiet = s.id, tonumber(s.epoch or 0), tonumber(s.window or 0), tonumber(s.quiet or 0)
local pages, bytes, started = tonumber(s.pages or 0), tonumber(s.bytes or 0), tonumber(s.started or 0)
local fence = tonumber(s.fence or 0)

local function setBase(e, p, b, name) redis.call('HSET', KEYS[1], 'b' .. int(e), int(p) .. ':' .. int(b) .. ':' .. name) end
local function base(e)
	local p, b, name = string.match(redis.call('HGET', KEYS[1], 'b' .. int(e)) or '', '^(%d+):(%d+):(.*)$')
	return tonumber(p), tonumber(b), name
end

-- A new window begins; a clock that was set back begins none.
local current = EVERY > 0 and math.floor(now / EVERY) or 0
if current > window then
	window, pages, bytes, started = current, 0, 0, 0
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
local forgot = id and (s.run ~= run or ID == id and FENCE > fence or not seen)
if not id or forgot then
	quiet = now + ((forgot or seen or ID ~= '') and QUIET or QUIET_NEW)
	local before = epoch
	epoch, id = math.max(epoch, EPOCH, tonumber(seen or 0)) + 1, int(now) .. PROC .. SEQ
	for e = before - EPOCHS, math.min(before, epoch - EPOCHS) do redis.call('HDEL', KEYS[1], 'b' .. int(e)) end
	setBase(epoch, pages, bytes, id)
	redis.call('HSET', KEYS[2], '', int(epoch))
end

-- A process that ends without a last call takes its chunk along. The more did of late, the smaller
-- are the chunks. One that was only cut off calls again, and no longer counts. After a loss of data
-- the count begins anew.
local procs, lost = not forgot and s.procs and cmsgpack.unpack(s.procs) or {}, {}
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
	pages, bytes = pages + (morePages or 0), bytes + (moreBytes or 0)
	if KNOWN_ELAPSED > 0 then started = math.min(started > 0 and started or now, now - KNOWN_ELAPSED) end
end

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
		local host, known = ARGV[i], tonumber(ARGV[i + 1])
		local n, e, b = hostUse(host)
		if e < from then -- nothing was granted since
			n = math.max(n, known)
		else -- what was granted in several epochs isn't told apart: all of it comes on top
			local more = math.max(known - (e == from and b or 0), 0)
			n, b = n + more, b + more
		end
		setHostUse(host, n, e, b)
	end
	if quiet > now then quiet = math.max(quiet, now + QUIET_SENT) end
end

local grantPages, grantHost, grantBytes, warned = 0, 0, 0, ''
if last.seq == SEQ then
	if last.id == id and tonumber(last.window) == window then
		grantPages, grantHost, grantBytes, warned = tonumber(last.pages), tonumber(last.host), tonumber(last.bytes), last.warned
	end
else
	fence = fence + 1
	-- What was given back before a loss, or in a call that may have counted long ago, stays spent.
	if ID == id and WINDOW == window and not (AGAIN and not last.seq) then
		pages, bytes = math.max(pages - BACK_PAGES, 0), math.max(bytes - BACK_BYTES, 0)
		for i = FIRST + 2 * SENT, #ARGV, 2 do
			local n, e, b = hostUse(ARGV[i])
			setHostUse(ARGV[i], n - ARGV[i + 1], e, b)
		end
	end

	-- chunk is what may be granted of a limit: all of a small want, else a part that
	-- shrinks towards the end, so that no process holds what others lack. The one that reaches the
	-- warning is granted by itself.
	local function chunk(want, least, used, max, warn)
		if want == 0 or quiet > now or not knows then return 0 end
		local n = math.max(math.floor(want / divisor), math.min(want, least))
		if max > 0 then n = math.min(math.max(math.floor((max - used) / (2 * PROCESSES * divisor)), least), n, max - used) end
		if warn > 0 and used < warn - least and used + n >= warn then n = math.min(n, warn - least - used) end
		return math.max(n, 0)
	end
	local function reached(key, field, letter, used, warn)
		if warn > 0 and used >= warn and redis.call('HSETNX', key, 'w:' .. field, 1) == 1 then warned = warned .. letter end
	end

	grantPages = chunk(WANT_PAGES, 1, pages, PAGES, WARN_PAGES)
	grantBytes = chunk(WANT_BYTES, LEAST_BYTES, bytes, BYTES, WARN_BYTES)
	pages, bytes = pages + grantPages, bytes + grantBytes
	if grantPages > 0 then reached(KEYS[1], 'pages', 'p', pages, WARN_PAGES) end
	if grantBytes > 0 then reached(KEYS[1], 'bytes', 'b', bytes, WARN_BYTES) end
	if WANT_HOST > 0 then
		local n, e, b = hostUse(HOST)
		grantHost = chunk(WANT_HOST, 1, n, PER_HOST, WARN_HOST)
		if grantHost > 0 then
			if e ~= epoch then e, b = epoch, n end
			setHostUse(HOST, n + grantHost, e, b)
			reached(KEYS[2], HOST, 'h', n + grantHost, WARN_HOST)
		end
	end
	if START and started == 0 and quiet <= now then started = now end
	if started > 0 and now - started >= WARN_TIME and WARN_TIME > 0 then reached(KEYS[1], 'time', 't', 1, 1) end
end

redis.call('HSET', KEYS[1], 'form', FORM, 'id', id, 'epoch', int(epoch), 'run', run, 'fence', int(fence), 'window', int(window),
	'quiet', int(quiet), 'pages', int(pages), 'bytes', int(bytes), 'started', int(started),
	'procs', cmsgpack.pack(procs))
redis.call('PEXPIRE', KEYS[1], KEEP)
redis.call('PEXPIRE', KEYS[2], KEEP)
redis.call('SET', KEYS[3], SEQ .. ' ' .. id .. ' ' .. int(window) .. ' ' .. int(grantPages) .. ' ' .. int(grantHost) .. ' ' .. int(grantBytes) .. ' ' .. warned,
	'PX', 600000)
return { 'ok', int(now), id, int(epoch), int(fence), int(window), int(math.max(quiet - now, 0)), int(pages), int(bytes),
	HOST ~= '' and int((hostUse(HOST))) or '0', started > 0 and int(now - started) or '-1', int(grantPages), int(grantHost), int(grantBytes), warned,
	int(divisor), PROC .. SEQ }
