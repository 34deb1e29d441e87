-- line.lua is the first part of the scripts that serve a line. A line has the managers of this
-- library that wait for permits of a name, in the order in which they came. Each manager has one
-- position, for all its requests. A line has two keys:
--
--   line    list of the managers, the first is next
--   wants   hash: manager -> "n id till flags"
--           n      how many free permits the first request of the manager needs
--           id     the number of the manager's script that said so
--           till   until when the manager keeps its position if it runs no script, in ms since 1970
--           flags  t: the manager was told that permits are free, since the script ran
--                  g: the manager gathers, and is told of any free permit when it is first
--                  d: the manager is deaf: it does not listen on its channel, and asks from time
--                  to time
--
-- Nobody overtakes: a request gets free permits if as many are left for all managers before its own.
-- So the first manager keeps what is free until that is enough, and nobody who needs many starves.
--
-- A script that begins with line.lua and leaves permits free tells the managers for which they are,
-- on a channel of each manager. The other scripts tell all managers, on the channel of the name. A
-- manager that should listen, and does not, loses its position at once. A manager that runs no script
-- loses it after a time that is longer than managers wait between two tries, or two seconds after it
-- was told. Both keys expire if no manager runs a script for so long.
--
-- Clients of Redisson join no line. A message on the channel of the name is for them. It begins with 0
-- if the line was served: then no manager of this library needs to look.
--
-- The keys of the line are no KEYS: they often do not exist, and while a slot of a cluster is moved, a
-- server refuses a script if only some of its keys are there. So each function below may fail half
-- way. The callers use pcall, and go on without the line. What half of a change leaves harms nobody:
--   - a member of the list without a field goes when it is first
--   - a field is written after the list
--   - a line that may be at the other master is not joined
--
-- A script of a manager may run late. A position that is joined late goes like that of a manager that
-- is gone. A script that leaves the line does nothing if a newer one has joined.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local patience = 2000

-- positionOf returns what the hash says of a manager, or nil if the manager is not in the line.
local function positionOf(wants, manager)
  local n, id, till, flags = string.match(redis.call('HGET', wants, manager) or '', '^(%d+) (%d+) (%d+) (%l*)$')
  return tonumber(n), tonumber(id), tonumber(till), flags
end

local function remove(line, wants, manager)
  redis.call('HDEL', wants, manager)
  redis.call('LREM', line, 1, manager)
end

-- at returns the manager at a position of the line, and what positionOf returns of it. Positions that
-- are over go.
local function at(line, wants, i)
  while true do
    local manager = redis.call('LINDEX', line, i)
    if not manager then
      return
    end
    local n, id, till, flags = positionOf(wants, manager)
    if n and now < till then
      return manager, n, id, till, flags
    end
    remove(line, wants, manager)
  end
end

-- ahead returns how many permits the managers before one need. It stops at more than most. counts is
-- set if PUBLISH and PUBSUB NUMSUB count all subscribers.
local function ahead(line, wants, channel, manager, most, counts)
  local sum, i = 0, 0
  while sum <= most do
    local other, n, _, _, flags = at(line, wants, i)
    if not other or other == manager then
      break
    end
    if counts and not string.find(flags, 'd') and redis.pcall('PUBSUB', 'NUMSUB', channel .. ':' .. other)[2] == 0 then
      remove(line, wants, other)
    else
      sum, i = sum + n, i + 1
    end
  end
  return sum
end

-- join puts a manager at the end of the line, unless it is in the line, and notes what it needs. It
-- does nothing if a newer script of the manager has run.
local function join(line, wants, manager, n, id, life, flags)
  local old, newest = positionOf(wants, manager)
  if old and newest > id then
    return
  end
  if not old then
    redis.call('RPUSH', line, manager)
  end
  redis.call('HSET', wants, manager, string.format('%d %d %d %s', n, id, now + life, flags))
  redis.pcall('PEXPIRE', line, life)
  redis.pcall('PEXPIRE', wants, life)
end

-- leave removes a manager from the line, unless a newer script has joined.
local function leave(line, wants, manager, id)
  local n, newest = positionOf(wants, manager)
  if n and newest <= id then
    remove(line, wants, manager)
  end
end

-- tell tells the managers for which permits are free.
local function tell(line, wants, channel, free, counts)
  local i = 0
  while true do
    local manager, n, id, till, flags = at(line, wants, i)
    local any = manager and i == 0 and free > 0 and string.find(flags, 'g')
    if not manager or n > free and not any then
      return
    end
    local told = string.find(flags, 't')
    local heard = told or redis.pcall('PUBLISH', channel .. ':' .. manager, free) ~= 0
    if not heard and counts and not string.find(flags, 'd') then
      remove(line, wants, manager)
    else
      if not told then
        till = math.min(till, now + patience)
        redis.pcall('HSET', wants, manager, string.format('%d %d %d %st', n, id, till, flags))
      end
      free, i = free - n, i + 1
    end
  end
end
