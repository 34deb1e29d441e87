-- direct_release.lua gives a lock back, as Redisson's plain lock does.
--
-- KEYS[1]  lock
-- KEYS[2]  channel
-- KEYS[3]  latch: keeps the result for a repeated command
-- ARGV[1]  owner
-- ARGV[2]  lease in milliseconds
-- ARGV[3]  life of the latch in milliseconds
--
-- Returns 1 if the lock is free now, 0 if the owner still holds it, nil if it
-- did not hold it.
local latch = redis.call('GET', KEYS[3])
if latch then
  return tonumber(latch)
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return false
end
local free = 0
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
else
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', KEYS[2], '0')
  free = 1
end
redis.call('SET', KEYS[3], free, 'PX', ARGV[3])
return free
