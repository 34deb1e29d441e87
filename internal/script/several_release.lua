-- several_release.lua gives up what these holders have of several locks, and tells
-- those who wait.
--
-- KEYS        locks
-- ARGV[1]     n, how many locks there are
-- ARGV[2..n+1]  how each is held: plain, read or write
-- ARGV[n+2..2n+1]  its channel
-- ARGV[2n+2..3n+1]  the prefix of its readers' keys, not used for a plain lock
-- ARGV[3n+2]  "ID number" of a set that leaves the lines with this script, see line.lua; or empty
-- ARGV[3n+3..] every holder of this manager that the records may carry, maybe none
--
-- Returns nil    the records carry none of these holders
--         array  how many locks were released; how many messages were published; how many clients
--                subscribe that stand in no line, the most of one lock, or -1 if there was no message;
--                why a message could not be published; and 1 if a manager of a line was granted a lock,
--                or told. The last two may be missing. Before 1 the reason may be empty
--         error  one of the locks could not be released, the others were
--
-- Safe to repeat: the second run returns nil. A key that is no lock counts as not held. The lines are
-- served also if the records have ended with their lease: no message tells of that.
local n = tonumber(ARGV[1])
local first = 3 * n + 3 -- of the holders
local line -- the functions of the lines, if there are any

-- plain releases a plain lock. It returns whether it has, and the message.
local function plain(key)
  if #ARGV == first then -- the only holder that its record can have
    return redis.call('HDEL', key, ARGV[first]) == 1, '0'
  end
  for h = first, #ARGV do
    if redis.call('HEXISTS', key, ARGV[h]) == 1 then
      redis.call('DEL', key)
      return true, '0'
    end
  end
  return false
end

-- side releases a side of a read-write lock. It returns whether it has, and the
-- message if there is one: see readwrite_release.lua.
local function side(key, prefix)
  local released, wrote, left = giveUp(key, prefix, first, #ARGV)
  if released and (wrote or not left) then
    return true, wrote and '1' or '0'
  elseif not released then
    forget(prefix, first, #ARGV)
  end
  return released
end

local names = {}
for i = 1, n do
  names[i] = beside(KEYS[i], 'line')
end
if redis.pcall('EXISTS', unpack(names)) ~= 0 then -- or an error: a line may be at the other master
  line = theLine()
end
local done, told, most, why, failed, served = 0, 0, -1, '', nil, false
for i = 1, n do
  local key, channel, prefix = KEYS[i], ARGV[n + i + 1], ARGV[2 * n + i + 1]
  channels = ARGV[i + 1] == 'plain' and 'redisson_lock__channel:' or 'redisson_rwlock:'
  if line then
    pcall(line.depart, key, ARGV[3 * n + 2])
  end
  local ok, released, message = pcall(ARGV[i + 1] == 'plain' and plain or side, key, prefix)
  if not ok then
    local text = type(released) == 'table' and released.err or tostring(released)
    if not string.find(text, 'WRONGTYPE', 1, true) then
      failed = text
    end
  else
    local fine, turn, given = true, nil, false
    if line then
      fine, turn, given = pcall(line.serve, key)
      served = served or fine and turn
    end
    done = done + (released and 1 or 0)
    if released and message and not (fine and given) then -- after a grant nobody needs to know
      local reached = publish(channel, (fine and '0' or '00') .. message)
      if type(reached) == 'string' then
        why = reached
      else
        told, most = told + 1, math.max(most, reached)
      end
    end
  end
end
if failed then
  return {err = done > 0 and failed .. ' (others were released)' or failed}
elseif done == 0 then
  return false
elseif served then
  return {done, told, most, why, 1}
elseif why ~= '' then
  return {done, told, most, why}
end
return {done, told, most}
