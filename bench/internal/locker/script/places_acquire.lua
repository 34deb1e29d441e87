-- places_acquire.lua takes a lock for one waiter, or gives the waiter a place in
-- the queue, as Redisson's fair lock does.
--
-- KEYS[1]  lock
-- KEYS[2]  queue: list of owners
-- KEYS[3]  deadlines: owner -> by when its place is over, by the client's clock
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner
-- ARGV[3]  for how long the waiter waits, in milliseconds
-- ARGV[4]  the client's clock in milliseconds
--
-- Returns nil if the lock was taken. Else it returns the remaining life of the
-- record in milliseconds, or, to a waiter that is new, the time until the place
-- before it is over.
while true do
  local first = redis.call('LINDEX', KEYS[2], 0)
  local till = first and redis.call('ZSCORE', KEYS[3], first)
  if not till or tonumber(till) > tonumber(ARGV[4]) then
    break
  end
  redis.call('ZREM', KEYS[3], first)
  redis.call('LPOP', KEYS[2])
end
if redis.call('EXISTS', KEYS[1]) == 0
  and (redis.call('EXISTS', KEYS[2]) == 0 or redis.call('LINDEX', KEYS[2], 0) == ARGV[2]) then
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], ARGV[2])
  for _, owner in ipairs(redis.call('ZRANGE', KEYS[3], 0, -1)) do
    redis.call('ZINCRBY', KEYS[3], -tonumber(ARGV[3]), owner)
  end
  redis.call('HSET', KEYS[1], ARGV[2], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
  return false
end
if redis.call('ZSCORE', KEYS[3], ARGV[2]) then
  return math.max(0, redis.call('PTTL', KEYS[1]))
end
local last = redis.call('LINDEX', KEYS[2], -1)
local till = last and last ~= ARGV[2] and redis.call('ZSCORE', KEYS[3], last)
local ttl = till and tonumber(till) - tonumber(ARGV[4]) or redis.call('PTTL', KEYS[1])
if redis.call('ZADD', KEYS[3], ttl + tonumber(ARGV[3]) + tonumber(ARGV[4]), ARGV[2]) == 1 then
  redis.call('RPUSH', KEYS[2], ARGV[2])
end
return ttl
