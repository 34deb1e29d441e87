-- written.lua makes a write that changes nothing. WAIT then counts the replicas that have all that was
-- written before.
--
-- KEYS[1]  the record of a lock, or the set of the permits that are taken
--
-- Returns 1   written
--         0   there is no record, and nothing was written
--
-- Safe to repeat. The first HDEL and ZREM remove nothing. After its first write a script is not refused
-- for lack of memory.
local key = KEYS[1]
if redis.call('EXISTS', key) == 0 then
  return 0
end
local removed = redis.pcall('HDEL', key, '')
if type(removed) == 'number' then
  redis.call('HSET', key, '', 1)
  redis.call('HDEL', key, '')
elseif not string.find(removed.err, 'WRONGTYPE', 1, true) then
  return removed
else
  redis.call('ZREM', key, '')
  redis.call('ZADD', key, 0, '')
  redis.call('ZREM', key, '')
end
return 1
