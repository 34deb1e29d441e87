-- release_many.lua is release.lua for many locks in one call: those whose
-- record can carry one owner only.
--
-- KEYS[1..n]   locks
-- ARGV[1..2n]  the owner and the channel of each
--
-- Returns an array with what release.lua would return for each. A lock that
-- fails has its error there, and the others are released all the same.
local line -- the functions of the lines, if there are any

local function release(key, owner, channel)
  local gone = redis.pcall('HDEL', key, owner)
  if type(gone) == 'table' then
    return gone
  end
  local message = '00'
  if redis.pcall('EXISTS', key, beside(key, 'line')) ~= 0 then -- or an error: the line may be at the other master
    line = line or theLine()
    if gone == 0 then
      pcall(line.serve, key)
      return false
    end
    local ok, out = pcall(line.released, key, channel, owner, '')
    if ok then
      return out
    end
    message = '000' -- the line was not served
  end
  if gone == 0 then
    return false
  end
  return publish(channel, message)
end

local out = {}
for i = 1, #KEYS do
  out[i] = release(KEYS[i], ARGV[2 * i - 1], ARGV[2 * i])
end
return out
