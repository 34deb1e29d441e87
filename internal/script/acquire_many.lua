-- acquire_many.lua is acquire.lua for many locks in one call: those that take
-- no token and whose record can carry no owner of ours but the new one.
--
-- KEYS[1..n]    locks
-- ARGV[1]       lease in milliseconds
-- ARGV[2..n+1]  the new owner of each
--
-- Returns an array with what acquire.lua would return for each. A lock that
-- fails has its error there, and the others get theirs all the same.
local lease = tonumber(ARGV[1])
local line -- the functions of the lines, if there are any

-- Most often no lock has a record or a line, which one command tells.
local names = {unpack(KEYS)}
for i = 1, #KEYS do
  names[#KEYS + i] = beside(KEYS[i], 'line')
end
local some = redis.pcall('EXISTS', unpack(names)) ~= 0 -- or an error: a line may be at the other master

local function acquire(key, owner)
  local ttl = -2
  if some and redis.pcall('EXISTS', key, beside(key, 'line')) ~= 0 then
    ttl = redis.pcall('PTTL', key)
    if type(ttl) == 'table' then
      return ttl
    end
    if ttl == -2 then
      line = line or theLine()
      local ok, left = pcall(line.refusal, key, '', whole, whole)
      if ok and left then
        return left
      end
    else
      local mine = redis.pcall('HEXISTS', key, owner)
      if type(mine) == 'table' then
        return mine
      elseif mine == 0 then
        if fair(key) or redis.pcall('HEXISTS', key, 'mode') == 1 then
          return {ttl}
        end
        return ttl
      end
    end
  end
  local set = redis.pcall('HSET', key, owner, 1)
  if type(set) == 'table' then
    return set
  end
  if ttl < lease then
    set = redis.pcall('PEXPIRE', key, ARGV[1])
    if type(set) == 'table' then
      -- A lock without an end would be worse than none. One that has an end may be held.
      if ttl < 0 then
        redis.pcall('DEL', key)
      end
      return set
    end
  end
  return false
end

local out = {}
for i = 1, #KEYS do
  out[i] = acquire(KEYS[i], ARGV[i + 1])
end
return out
