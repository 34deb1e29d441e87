-- several_renew.lua extends the leases of several locks that were taken together.
--
-- KEYS       of each lock: the lock, and the own key of a reader (for others the lock
--            again)
-- ARGV[1]    lease in milliseconds
-- ARGV[2]    the holder of all of them
-- ARGV[3..]  how each is held: plain, read or write
--
-- Returns 1   all are renewed
--         0   at least one is lost, and none was renewed
--
-- Safe to repeat. It never creates a record and never shortens the life of one.
local lease = tonumber(ARGV[1])
local n = #KEYS / 2
for i = 1, n do
  local field = ARGV[i + 2] == 'write' and ARGV[2] .. ':write' or ARGV[2]
  local has = redis.pcall('HEXISTS', KEYS[2 * i - 1], field)
  if has == 0 or type(has) == 'table' and string.find(has.err, 'WRONGTYPE', 1, true) then
    return 0
  elseif type(has) == 'table' then
    return has
  end
end
for i = 1, n do
  local key, want = KEYS[2 * i - 1], ARGV[i + 2]
  if want == 'read' then
    local own = KEYS[2 * i]
    -- A server that is out of memory refuses SET.
    if redis.call('PTTL', own) < lease and redis.call('PEXPIRE', own, lease) == 0 then
      redis.call('SET', own, 1, 'PX', lease)
    end
  end
  local ttl = redis.call('PTTL', key)
  if ttl < lease and (ttl >= 0 or want ~= 'read') then
    redis.call('PEXPIRE', key, ARGV[1])
  end
end
return 1
