-- counted_release.lua gives one permit back, as Redisson's semaphore whose
-- permits expire does.
--
-- KEYS[1]  counter of free permits
-- KEYS[2]  permits that are taken, by the end of their lives
-- KEYS[3]  channel
-- ARGV[1]  the permit
-- ARGV[2]  the client's clock in milliseconds
--
-- Returns 1 if the permit was given back, 0 if it was not taken or had expired.
local till = redis.call('ZSCORE', KEYS[2], ARGV[1])
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then
  return 0
end
redis.call('PUBLISH', KEYS[3], redis.call('INCRBY', KEYS[1], 1))
if tonumber(till) <= tonumber(ARGV[2]) then
  return 0
end
return 1
