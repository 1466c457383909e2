-- take grants a process a chunk of the budget, and takes back what it has left over.
-- It may be run twice with the same effect as once.
--
-- KEYS[1]  the budget, a hash: id, pages, bytes, started, w:LIMIT (warned), r:PROCESS (last grant)
-- KEYS[2]  pages by host, a hash: h:HOST, w:HOST
--
-- Counters count what was granted. Times are microseconds of the server's clock.

local PROC, SEQ, ID = ARGV[1], ARGV[2], ARGV[3]
local PARTS, KEEP = tonumber(ARGV[4]), ARGV[5]
local PAGES, PER_HOST, BYTES = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]) -- limits, 0: none
local WARN_PAGES, WARN_HOST, WARN_BYTES = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11]) -- 0: never
local HOST = ARGV[12]
local WANT_PAGES, WANT_HOST, WANT_BYTES, LEAST_BYTES = tonumber(ARGV[13]), tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])
local BACK_PAGES, BACK_BYTES = tonumber(ARGV[17]), tonumber(ARGV[18])
local KNOWN_PAGES, KNOWN_BYTES, KNOWN_HOST, KNOWN_ELAPSED = tonumber(ARGV[19]), tonumber(ARGV[20]), tonumber(ARGV[21]), tonumber(ARGV[22])
local START, WARN_TIME = ARGV[23] == '1', tonumber(ARGV[24]) -- 0: never
-- From ARGV[25]: hosts and how many pages of theirs are given back.

local function int(x) return string.format('%.0f', x) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local f = redis.call('HMGET', KEYS[1], 'id', 'pages', 'bytes', 'started', 'r:' .. PROC)
local id, pages, bytes, started, last = f[1], tonumber(f[2] or 0), tonumber(f[3] or 0), tonumber(f[4] or 0), f[5]
if not id then
	id = int(now)
	redis.call('HSET', KEYS[1], 'id', id)
end
local function hostUsed() return HOST ~= '' and tonumber(redis.call('HGET', KEYS[2], 'h:' .. HOST) or 0) or 0 end
if ID ~= '' and ID ~= id then
	-- The server has lost its data. What each process saw last brings the counters back.
	pages, bytes = math.max(pages, KNOWN_PAGES), math.max(bytes, KNOWN_BYTES)
	if KNOWN_ELAPSED > 0 then started = math.min(started > 0 and started or now, now - KNOWN_ELAPSED) end
	if HOST ~= '' and KNOWN_HOST > hostUsed() then redis.call('HSET', KEYS[2], 'h:' .. HOST, int(KNOWN_HOST)) end
end

local grantPages, grantHost, grantBytes, warned = 0, 0, 0, ''
local seq, a, b, c, w = string.match(last or '', '^(%d+):(%d+):(%d+):(%d+):(.*)$')
if seq == SEQ then
	grantPages, grantHost, grantBytes, warned = tonumber(a), tonumber(b), tonumber(c), w
else
	pages, bytes = math.max(pages - BACK_PAGES, 0), math.max(bytes - BACK_BYTES, 0)
	for i = 25, #ARGV, 2 do
		if redis.call('HINCRBY', KEYS[2], 'h:' .. ARGV[i], -ARGV[i + 1]) <= 0 then redis.call('HDEL', KEYS[2], 'h:' .. ARGV[i]) end
	end

	-- chunk is what may be granted of a limit: all of a small want, else a part that
	-- shrinks towards the end, so that nobody holds what others lack. The one that reaches the
	-- warning is granted by itself.
	local function chunk(want, least, used, max, warn)
		if want == 0 then return 0 end
		local n = want
		if max > 0 then n = math.min(math.max(math.floor((max - used) / (2 * PARTS)), least), want, max - used) end
		if warn > 0 and used < warn - least and used + n >= warn then n = math.min(n, warn - least - used) end
		return math.max(n, 0)
	end
	local function reached(name, key, used, n, warn)
		if warn > 0 and n > 0 and used + n >= warn and redis.call('HSETNX', key, 'w:' .. name, 1) == 1 then
			warned = warned .. string.sub(name, 1, 1)
		end
	end

	local used = hostUsed()
	grantPages = chunk(WANT_PAGES, 1, pages, PAGES, WARN_PAGES)
	grantHost = chunk(WANT_HOST, 1, used, PER_HOST, WARN_HOST)
	grantBytes = chunk(WANT_BYTES, LEAST_BYTES, bytes, BYTES, WARN_BYTES)
	if WANT_PAGES > 0 then reached('pages', KEYS[1], pages, grantPages, WARN_PAGES) end
	if WANT_HOST > 0 then
		if WARN_HOST > 0 and grantHost > 0 and used + grantHost >= WARN_HOST and redis.call('HSETNX', KEYS[2], 'w:' .. HOST, 1) == 1 then
			warned = warned .. 'h'
		end
		if grantHost > 0 then redis.call('HINCRBY', KEYS[2], 'h:' .. HOST, int(grantHost)) end
	end
	if WANT_BYTES > 0 then reached('bytes', KEYS[1], bytes, grantBytes, WARN_BYTES) end
	pages, bytes = pages + grantPages, bytes + grantBytes
end
if START and started == 0 then started = now end
if WARN_TIME > 0 and started > 0 and now - started >= WARN_TIME and redis.call('HSETNX', KEYS[1], 'w:time', 1) == 1 then
	warned = warned .. 't'
end
redis.call('HSET', KEYS[1], 'pages', int(pages), 'bytes', int(bytes), 'started', int(started),
	'r:' .. PROC, SEQ .. ':' .. int(grantPages) .. ':' .. int(grantHost) .. ':' .. int(grantBytes) .. ':' .. warned)
redis.call('PEXPIRE', KEYS[1], KEEP)
redis.call('PEXPIRE', KEYS[2], KEEP)
return {id, int(pages), int(bytes), int(hostUsed()), started > 0 and int(now - started) or '-1', int(grantPages), int(grantHost), int(grantBytes), warned, int(now)}
