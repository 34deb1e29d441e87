-- permits_limit.lua changes how many permits there are.
--
-- KEYS[1]   the counter of free permits
-- KEYS[2]   the permits that are taken
-- ARGV[1]   set, or add
-- ARGV[2]   for set: the new limit; for add: the change, which may be negative
-- ARGV[3]   the limit before an add if there is no counter yet
-- ARGV[4]   channel
--
-- Returns the new limit, or -1 if that would be negative or more than 2^31 - 1. An expired
-- permit counts as taken until an acquire removes it. If more are taken than the limit, the
-- counter is negative, and none is granted until enough are given back. A limit that is
-- lower, or was 0, is published, too, so that waiting requests for more permits fail.
local counter = redis.call('GET', KEYS[1])
if counter and not counts(counter) then
  return {err = 'WRONGTYPE the key does not count permits'}
end
local taken = redis.call('ZCARD', KEYS[2])
local was = counter and tonumber(counter) + taken or tonumber(ARGV[3])
local limit = tonumber(ARGV[2])
if ARGV[1] == 'add' then
  limit = was + limit
end
if limit < 0 or limit > 2147483647 then
  return -1
end
redis.call('SET', KEYS[1], limit - taken, 'KEEPTTL')
if limit > taken and (limit > was or not counter) then
  redis.pcall('PUBLISH', ARGV[4], string.format('00%.0f', limit - taken))
elseif limit < was or was == 0 and limit > 0 then
  redis.pcall('PUBLISH', ARGV[4], '000')
end
return limit
