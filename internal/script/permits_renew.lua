-- permits_renew.lua extends the leases of permits.
--
-- KEYS[2i-1], KEYS[2i]  of holder i: the name, which is not read, and the permits that are
--                       taken
-- ARGV[1]    lease in milliseconds
-- ARGV[2i], ARGV[2i+1]  how many permits holder i has, and the holder
--
-- Returns an array with the exceptions. A position (from 1) is that of a holder that has
-- lost at least one of its permits. An array of a position and an error text is that of
-- one whose permits could not be renewed. One holder's error does not keep the others
-- from being renewed.
--
-- Safe to repeat. It never adds a permit and never shortens the life of one. An expired
-- permit counts as lost.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local till = now + tonumber(ARGV[1])

local function renew(i)
  local taken, n, holder, longer = KEYS[2 * i], tonumber(ARGV[2 * i]), ARGV[2 * i + 1], {}
  for p = 0, n - 1 do
    local permit = member(holder, p)
    local score = tonumber(redis.call('ZSCORE', taken, permit) or 0)
    if score <= now then
      return false
    end
    longer[#longer + 1], longer[#longer + 2] = math.max(score, till), permit
  end
  local ok = redis.pcall('ZADD', taken, unpack(longer))
  if type(ok) == 'table' and string.find(ok.err, 'OOM', 1, true) then
    -- Removing a member that does not exist is a write. After its first write a script is
    -- not refused for lack of memory.
    redis.call('ZREM', taken, '')
    ok = redis.call('ZADD', taken, unpack(longer))
  end
  if type(ok) == 'table' then
    error(ok)
  end
  return true
end

return exceptions(#KEYS / 2, renew)
