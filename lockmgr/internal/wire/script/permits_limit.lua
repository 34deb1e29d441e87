-- permits_limit.lua changes how many permits there are.
--
-- KEYS[1]   the counter of free permits
-- KEYS[2]   the permits that are taken
-- KEYS[3]   channel
-- ARGV[1]   set, or add
-- ARGV[2]   for set: the new limit; for add: the change, which may be negative
--
-- Returns the new limit. An expired permit counts as taken until an acquire removes it. If
-- more are taken than the limit, the counter is negative, and none is granted until enough
-- are given back.
local counter = redis.call('GET', KEYS[1])
if counter and not string.find(counter, '^%-?%d+$') then
  return {err = 'WRONGTYPE the key does not count permits'}
end
local taken = redis.call('ZCARD', KEYS[2])
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
