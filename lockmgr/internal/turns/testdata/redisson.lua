-- redisson.lua does what a client of Redisson does about a fair lock.
--
-- KEYS[1]  lock
-- KEYS[2]  queue
-- KEYS[3]  deadlines
-- ARGV[1]  acquire, leave or release
-- ARGV[2]  the owner
-- ARGV[3]  how long it waits, in milliseconds
-- ARGV[4]  lease in milliseconds
-- ARGV[5]  the first part of the names of the channels
--
-- Returns of an acquire: nil if the owner has the lock, or in how many milliseconds it should
-- try again.
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local verb, owner, wait = ARGV[1], ARGV[2], tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function lower(from)
  for _, member in ipairs(redis.call('LRANGE', queue, from, -1)) do
    redis.call('ZINCRBY', deadlines, -wait, member)
  end
end
local function remove()
  redis.call('ZREM', deadlines, owner)
  redis.call('LREM', queue, 0, owner)
end
if verb == 'leave' then
  for i, member in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if member == owner then
      lower(i)
    end
  end
  remove()
  return 0
end
local head = redis.call('LINDEX', queue, 0)
while head and tonumber(redis.call('ZSCORE', deadlines, head)) <= now do
  redis.call('LPOP', queue)
  redis.call('ZREM', deadlines, head)
  head = redis.call('LINDEX', queue, 0)
end
if verb == 'release' then
  if redis.call('HEXISTS', lock, owner) == 1 or redis.call('EXISTS', lock) == 0 then
    redis.call('DEL', lock)
    if head then
      redis.call('PUBLISH', ARGV[5] .. ':' .. head, '0')
    end
  end
  return 0
end
if redis.call('EXISTS', lock) == 0 and (not head or head == owner) then
  remove()
  lower(0)
  redis.call('HSET', lock, owner, 1)
  redis.call('PEXPIRE', lock, ARGV[4])
  return nil
end
if redis.call('ZSCORE', deadlines, owner) then
  return math.max(0, redis.call('PTTL', lock))
end
local last = redis.call('LINDEX', queue, -1)
local ttl = last and redis.call('ZSCORE', deadlines, last) - now or redis.call('PTTL', lock)
redis.call('ZADD', deadlines, string.format('%.0f', now + ttl + wait), owner)
redis.call('RPUSH', queue, owner)
return ttl
