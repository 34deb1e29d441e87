-- permits_limit.lua changes how many permits there are, or only tells it.
--
-- KEYS[1]   the counter of free permits
-- KEYS[2]   the permits that are taken
-- KEYS[3]   channel
-- ARGV[1]   set, or add
-- ARGV[2]   for set how many permits there shall be, for add how many more, which may be
--           negative
--
-- Returns how many permits there are now, taken ones included. Those that have expired
-- and were not counted as free yet are taken. If more are taken than there shall be, none
-- comes free before enough were given back.
local taken = redis.call('ZCARD', KEYS[2])
local counter = redis.call('GET', KEYS[1])
local free, by = tonumber(counter or 0), tonumber(ARGV[2])
if ARGV[1] == 'set' then
  by = by - taken - free
end
if by ~= 0 or not counter then
  free = redis.call('INCRBY', KEYS[1], by)
end
if by > 0 and free > 0 then
  redis.pcall('PUBLISH', KEYS[3], free)
end
return free + taken
