-- permits_delete.lua removes all that the server knows of permits, if none is taken.
--
-- KEYS[1]   the counter of free permits
-- KEYS[2]   the permits that are taken
-- ARGV[1]   channel
--
-- Returns 1, or 0 if nothing was there or a permit is taken that has not expired.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local counter = redis.call('GET', KEYS[1])
if counter and not counts(counter) then
  return {err = 'WRONGTYPE the key does not count permits'}
end
if redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf') > 0 then
  return 0
end
local removed = redis.call('DEL', KEYS[1], KEYS[2])
if counter then
  redis.pcall('PUBLISH', ARGV[1], '001') -- those who wait may set the limit again
end
return math.min(1, removed)
