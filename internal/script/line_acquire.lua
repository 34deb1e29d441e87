-- line_acquire.lua takes a plain lock that is free, if no other manager is first in the line, or one
-- that this manager's own owners hold, for a new owner. Else the manager joins the line. It begins
-- with line.lua.
--
-- KEYS[1]   lock             hash: owner -> 1
-- KEYS[2]   token counter    only when ARGV[2] > 0
-- ARGV[1]   lease in milliseconds
-- ARGV[2]   how many fencing tokens to take, 0 for none
-- ARGV[3]   the manager
-- ARGV[4]   the number of the script
-- ARGV[5]   for how long the manager stays in the line without a further script, in milliseconds;
--           0: it does not join
-- ARGV[6]   1: the manager may be deaf
-- ARGV[7]   the number of the hold if it is granted by message
-- ARGV[8..11] for a grant by message: a text without spaces that it returns; its lease in milliseconds;
--           a secret of the manager, hexadecimal, empty: no grant by message; how many fencing tokens
--           it takes, 0 or 1
-- ARGV[12]  the new owner
-- ARGV[13..] further owners of the same manager that the record may carry
--
-- Returns what acquire.lua returns.
--
-- Safe to repeat, as acquire.lua is. A manager that has the lock leaves the line.
local key, manager, number, waits = KEYS[1], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local line, wants, channel = keysOf(key)

-- stand joins the line, unless a key of the line may be at the other master of a slot that is moved.
local function stand()
  if waits > 0 and type(redis.pcall('EXISTS', key, line, wants)) == 'number' then
    local note = ''
    if ARGV[10] ~= '' then
      note = table.concat({'', ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], string.format('%.0f', micros), server()}, ' ')
    end
    join(line, wants, manager, 1, number, waits, ARGV[6] == '1' and 'd' or '', note)
  end
end

local ttl, ours = -1, false
if redis.call('EXISTS', key) == 1 then
  for i = 12, #ARGV do
    if redis.call('HEXISTS', key, ARGV[i]) == 1 then
      ours = i
      break
    end
  end
  ttl = redis.call('PTTL', key)
  if not ours then
    if fair(key) or redis.call('HEXISTS', key, 'mode') == 1 then
      return {ttl}
    end
    pcall(stand)
    return ttl
  end
else
  local ok, before = pcall(ahead, line, wants, channel, manager, 0)
  if ok and before > 0 then
    pcall(stand)
    local served, left = pcall(refusal, key, manager)
    if served and left then
      return left
    end
  end
end
local last
if ARGV[2] ~= '0' then
  redis.call('INCRBY', KEYS[2], ARGV[2])
  last = redis.call('GET', KEYS[2]) -- as text: a Lua number has 53 bits
end
redis.call('HSET', key, ARGV[12], 1)
if ours ~= 12 or ttl < tonumber(ARGV[1]) then
  local set = redis.pcall('PEXPIRE', key, ARGV[1])
  if type(set) == 'table' then
    -- A lock without an end would be worse than none.
    redis.pcall('DEL', key)
    return set
  end
end
-- Last, as it may be refused: the record has its end by now.
for i = 13, #ARGV do
  redis.call('HDEL', key, ARGV[i])
end
pcall(leave, line, wants, manager, number)
return last
