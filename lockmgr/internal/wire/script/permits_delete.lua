-- permits_delete.lua removes all that the server knows of permits, if none is taken.
--
-- KEYS[1]   the counter of free permits
-- KEYS[2]   the permits that are taken
-- KEYS[3]   channel, not used
-- KEYS[4]   who gathers
--
-- Returns 1, or 0 if a permit is taken that has not expired.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf') > 0 then
  return 0
end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[4])
return 1
