-- counted_acquire.lua takes one permit for one caller, as Redisson's semaphore
-- whose permits expire does.
--
-- KEYS[1]  counter of free permits
-- KEYS[2]  permits that are taken, by the end of their lives
-- KEYS[3]  channel
-- ARGV[1]  the permit
-- ARGV[2]  the client's clock in milliseconds
-- ARGV[3]  the end of the permit's life, by that clock
--
-- Returns nil if the permit was taken, else the time in milliseconds until the
-- next permit expires, -1 if none does.
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], 0, ARGV[2], 'LIMIT', 0, 1)
if #gone > 0 then
  redis.call('ZREM', KEYS[2], gone[1])
  local free = redis.call('INCRBY', KEYS[1], 1)
  if free > 0 then
    redis.call('PUBLISH', KEYS[3], free)
  end
end
local free = redis.call('GET', KEYS[1])
if free and tonumber(free) >= 1 then
  redis.call('DECRBY', KEYS[1], 1)
  redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
  return false
end
local next = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if next[2] then
  return math.max(0, tonumber(next[2]) - tonumber(ARGV[2]))
end
return -1
