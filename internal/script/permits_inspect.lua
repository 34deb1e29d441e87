-- permits_inspect.lua returns what the server knows of permits. It changes nothing.
--
-- KEYS[1]   the counter of free permits
-- KEYS[2]   the permits that are taken
-- ARGV[1]   how many of the taken permits to return at most
-- ARGV[2]   channel
-- ARGV[3]   the hash of the line
--
-- Returns an array: the counter, or an empty text if there is none; how many are taken,
-- and how many of them have expired; how many wait, or -1 when the server
-- would not say; then the ID of each taken permit and its remaining life in milliseconds,
-- -1 if it has no end.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local counter = redis.call('GETRANGE', KEYS[1], 0, 31) -- a number has fewer digits
if not counts(counter) and redis.call('EXISTS', KEYS[1]) == 1 then
  return {err = 'WRONGTYPE the key does not count permits'}
end
local out = {
  counter, redis.call('ZCARD', KEYS[2]), redis.call('ZCOUNT', KEYS[2], '-inf', now),
  waiting(ARGV[2], ARGV[3]),
}
if large(KEYS[2], ARGV[1] / out[2]) then
  return {err = 'WRONGTYPE the permits are too large'}
end
local some = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. now, '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[1])
for i = 1, #some, 2 do
  local score = tonumber(some[i + 1])
  out[#out + 1] = string.sub(some[i], 1, 64) -- an ID has 16 bytes
  out[#out + 1] = score >= no_end and -1 or math.ceil(score - now)
end
return out
