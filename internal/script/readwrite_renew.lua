-- readwrite_renew.lua extends the leases of entries of read-write locks.
--
-- KEYS[2i-1], KEYS[2i]   lock i, and the own key of a reader; for a writer the lock again
-- ARGV[1]                lease in milliseconds
-- ARGV[2i], ARGV[2i+1]   the side of entry i (read or write), and its holder
--
-- Returns an array with the exceptions. A position (from 1) is that of an entry
-- which is lost. An array of a position and an error text is that of an entry
-- which could not be renewed. One entry's error does not keep the others from
-- being renewed.
--
-- Safe to repeat. It never creates a record and never shortens the life of one.
local lease = tonumber(ARGV[1])
local function renew(i)
  local key, own, side, holder = KEYS[2 * i - 1], KEYS[2 * i], ARGV[2 * i], ARGV[2 * i + 1]
  local field = holder
  if side == 'write' then
    field = holder .. ':write'
  end
  if redis.call('HEXISTS', key, field) == 0 then
    if side == 'read' then
      redis.pcall('DEL', own) -- the reader is lost
    end
    return false
  end
  if side == 'read' then
    -- A server that is out of memory refuses SET.
    if redis.call('PTTL', own) < lease and redis.call('PEXPIRE', own, lease) == 0 then
      redis.call('SET', own, 1, 'PX', lease)
    end
  end
  local ttl = redis.call('PTTL', key)
  if ttl < lease and (ttl >= 0 or side == 'write') then
    redis.call('PEXPIRE', key, ARGV[1])
  end
  return true
end
return exceptions(#KEYS / 2, renew)
