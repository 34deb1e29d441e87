-- permits_transfer.lua records that permits have passed from one holder to another within
-- this manager, and renews their lease, for several holders in one call.
--
-- KEYS[3i-2..3i]  of transfer i: the counter of free permits, the permits that are
--                 taken, and the channel
-- ARGV[1]         lease in milliseconds
-- ARGV[2..]       of each transfer: how many permits; how many holders follow; the new
--                 holder; further holders of the same manager that may have them
--
-- Returns an array with an answer for each transfer:
--         nil      none of these holders has all of the permits
--         integer  done; the number of subscribers of the channel, or -1 when the server
--                  would not say
--         error    it failed, which does not keep the others from being served
--
-- Safe to repeat: the second run finds the new holder. It never shortens the life of a
-- permit. An expired permit counts as gone.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local lease = tonumber(ARGV[1])
local at = 2

local function id(holder, i)
  return holder .. string.char(math.floor(i / 256), i % 256)
end

local function transfer(counter, taken, channel, first)
  local n, holders = tonumber(ARGV[first]), tonumber(ARGV[first + 1])
  for h = first + 2, first + 1 + holders do
    local old, new = {}, {}
    for i = 0, n - 1 do
      local member = id(ARGV[h], i)
      local score = tonumber(redis.call('ZSCORE', taken, member) or 0)
      if score > now then
        old[#old + 1] = member
        new[#new + 1], new[#new + 2] = math.max(score, now + lease), id(ARGV[first + 2], i)
      end
    end
    if #old == n then
      -- ZREM comes first. After its first write a script is not refused for lack of memory.
      redis.call('ZREM', taken, unpack(old))
      local ok = redis.pcall('ZADD', taken, unpack(new))
      if type(ok) == 'table' then
        if redis.pcall('EXISTS', counter) == 1 then
          redis.pcall('INCRBY', counter, n) -- these permits are in no set now, so they are free
        end
        return ok
      end
      local waiting = redis.pcall('PUBSUB', 'NUMSUB', channel)
      return waiting.err and -1 or waiting[2]
    end
  end
  return false
end

local out = {}
for r = 1, #KEYS / 3 do
  local ok, answer = pcall(transfer, KEYS[3 * r - 2], KEYS[3 * r - 1], KEYS[3 * r], at)
  if not ok and type(answer) ~= 'table' then
    answer = {err = tostring(answer)}
  end
  out[r] = answer
  at = at + 2 + tonumber(ARGV[at + 1])
end
return out
