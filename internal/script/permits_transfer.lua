-- permits_transfer.lua records that permits have passed from one holder to another within
-- this manager, and sets their lease, for several holders in one call.
--
-- KEYS[2i-1], KEYS[2i]  of transfer i: the name, which is not read, and the permits that
--                       are taken
-- ARGV[1]         lease in milliseconds
-- ARGV[2..]       of each transfer: the channel; the hash of the line, see line.lua, which is
--                 no KEY for the reason given there; how many permits; how many holders follow;
--                 the new holder; further holders of the same manager that may have them
--
-- Returns an array with an answer for each transfer:
--         nil      none of these holders has all of the permits
--         integer  done; how many others may want permits, as in transfer.lua
--         error    it failed, which does not keep the others from being served
--
-- Safe to repeat: the second run finds the new holder. Only the run that records the new
-- holder may shorten the life of a permit. An expired permit counts as gone.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local lease = tonumber(ARGV[1])

local function transfer(_, taken, first)
  local channel, wants = ARGV[first], ARGV[first + 1]
  first = first + 2
  local n, holders = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
  for h = first + 2, first + 1 + holders do
    local old, new = {}, {}
    for i = 0, n - 1 do
      local permit = member(ARGV[h], i)
      local score = tonumber(redis.call('ZSCORE', taken, permit) or 0)
      if score > now then
        old[#old + 1] = permit
        local least = h == first + 2 and score or 0
        new[#new + 1], new[#new + 2] = math.max(least, now + lease), member(ARGV[first + 2], i)
      end
    end
    if #old == n then
      -- Removing a member that does not exist is a write. After its first write a script is not
      -- refused for lack of memory. The others are removed last: the old master of a slot that is
      -- moved would not make the set anew.
      redis.call('ZREM', taken, '')
      local ok = redis.pcall('ZADD', taken, unpack(new))
      if type(ok) == 'table' then
        return ok
      end
      if h > first + 2 then
        redis.call('ZREM', taken, unpack(old))
      end
      return waiting(channel, wants)
    end
  end
  return false
end

return each(2, 4, transfer)
