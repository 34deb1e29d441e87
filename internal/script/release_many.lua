-- release_many.lua is release.lua for many locks in one call: those whose
-- record can carry one owner only.
--
-- KEYS[1..n]   locks
-- ARGV[1..2n]  the owner and the channel of each
--
-- Returns an array with what release.lua would return for each. A lock that
-- fails has its error there, and the others are released all the same.
local line -- the functions of the lines, if there are any

-- released is for a lock that may have a line. gone says that owner was removed from the record.
local function released(key, gone, owner, channel)
  local message = '00'
  if redis.pcall('EXISTS', key, beside(key, 'line')) ~= 0 then
    line = line or theLine()
    if not gone then
      pcall(line.serve, key)
      return false
    end
    local ok, out = pcall(line.released, key, channel, owner, '')
    if ok then
      return out
    end
    message = '000' -- the line was not served
  end
  return gone and publish(channel, message)
end

local out, names = {}, {unpack(KEYS)}
for i = 1, #KEYS do
  out[i] = redis.pcall('HDEL', KEYS[i], ARGV[2 * i - 1])
  names[#KEYS + i] = beside(KEYS[i], 'line')
end
-- Most often no lock has a line, which one command tells.
local some = redis.pcall('EXISTS', unpack(names)) ~= 0 -- or an error: a line may be at the other master
for i = 1, #KEYS do
  if some and type(out[i]) == 'number' then
    out[i] = released(KEYS[i], out[i] == 1, ARGV[2 * i - 1], ARGV[2 * i])
  elseif out[i] == 1 then
    out[i] = publish(ARGV[2 * i], '00')
  elseif out[i] == 0 then
    out[i] = false
  end
end
return out
