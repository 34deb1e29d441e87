-- inspect.lua reads all that the server knows of a lock and changes nothing.
--
-- KEYS[1]  lock
-- KEYS[2]  channel
-- KEYS[3]  token counter    only if it is asked for
-- ARGV[1]  channel of a read-write lock of that name
--
-- Returns an array: the remaining life in milliseconds (-1: no end, -2: no
-- such key), the number of subscribers (-1: the server would not say), the
-- last token given (false: none), then owner and count of each holder.
--
-- Safe to repeat.
local ttl = redis.call('PTTL', KEYS[1])
local channel = KEYS[2]
if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
  channel = ARGV[1]
end
local waiting = redis.pcall('PUBSUB', 'NUMSUB', channel)
local n = -1
if not waiting.err then
  n = waiting[2]
end
local token = false
if KEYS[3] then
  token = redis.call('GET', KEYS[3])
end
local out = {ttl, n, token}
for _, field in ipairs(redis.call('HGETALL', KEYS[1])) do
  out[#out + 1] = field
end
return out
