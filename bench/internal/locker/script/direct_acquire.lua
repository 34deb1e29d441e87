-- direct_acquire.lua takes a lock for one thread, as Redisson's plain lock
-- does.
--
-- KEYS[1]  lock
-- ARGV[1]  lease in milliseconds
-- ARGV[2]  owner
--
-- Returns nil if the lock was taken, else the remaining life of the record in
-- milliseconds.
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return redis.call('PTTL', KEYS[1])
end
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return false
