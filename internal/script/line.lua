-- line.lua is the first part of the scripts that serve a line. A line has the managers of this
-- library that wait for permits of a name, in the order in which they came. Each manager has one
-- place, for all its requests. A line has two keys:
--
--   line    list of the managers, the first is next
--   wants   hash: manager -> "n id told"
--           n     how many free permits the first request of the manager needs: 1 if it gathers
--           id    the number of the manager's script that said so
--           told  when the manager was told that permits are free, in ms since 1970; 0: not since
--                 the script ran
--
-- Nobody overtakes: a request gets free permits if as many are left for all managers before its own.
-- So the first manager keeps what is free until that is enough, and nobody who wants many starves.
--
-- Each script that leaves permits free tells the managers for which they are, on a channel of each
-- manager. The place of a manager that does not listen goes at once, and the place of a told manager
-- that runs no script goes after two seconds. Both keys expire if no manager runs a script for longer
-- than managers wait between two tries.
--
-- Clients of Redisson stand in no line. They hear of free permits on the channel of the name, and
-- take what they find. A message of a script of this library begins with 0 there: the line was
-- served, and no manager needs to look.
--
-- While a slot of a cluster is moved, a server runs no script that has some of its keys and not the
-- others, and a line is seldom there. So the keys of the line are no KEYS. Then a script may fail to
-- read or write the line, in the middle of each function below: the script goes on without the line,
-- and its message for all begins with no 0. Half of a change harms nobody: a member of the list
-- without a field goes when it is first, and a field is written after the list. A line that may be
-- at the other master is not joined.
--
-- A script of a manager may run late. A place that is joined late goes like that of a manager that
-- is gone. A script that leaves the line does nothing if a newer one has joined.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local patience = 2000

-- placeOf returns what the hash says of a manager, or nil if the manager has no place.
local function placeOf(wants, manager)
  local n, id, told = string.match(redis.call('HGET', wants, manager) or '', '^(%d+) (%d+) (%d+)$')
  return tonumber(n), tonumber(id), tonumber(told)
end

local function remove(line, wants, manager)
  redis.call('HDEL', wants, manager)
  redis.call('LREM', line, 1, manager)
end

-- at returns the manager at a position of the line, how many permits it wants, the number of its
-- script, and when it was told. Places that are over go.
local function at(line, wants, i)
  while true do
    local manager = redis.call('LINDEX', line, i)
    if not manager then
      return
    end
    local n, id, told = placeOf(wants, manager)
    if n and (told == 0 or math.abs(now - told) < patience) then
      return manager, n, id, told
    end
    remove(line, wants, manager)
  end
end

-- ahead returns how many permits the managers before one want. It stops at more than most. counts is
-- set if PUBSUB NUMSUB counts all who hear.
local function ahead(line, wants, channel, manager, most, counts)
  local sum, i = 0, 0
  while sum <= most do
    local other, n = at(line, wants, i)
    if not other or other == manager then
      break
    end
    if counts and redis.pcall('PUBSUB', 'NUMSUB', channel .. ':' .. other)[2] == 0 then
      remove(line, wants, other)
    else
      sum, i = sum + n, i + 1
    end
  end
  return sum
end

-- join gives a manager a place at the end of the line, unless it has one, and notes what it wants.
-- It does nothing if a newer script of the manager has run.
local function join(line, wants, manager, n, id, life)
  local old, newest = placeOf(wants, manager)
  if old and newest > id then
    return
  end
  if not old then
    redis.call('RPUSH', line, manager)
  end
  redis.call('HSET', wants, manager, string.format('%d %d 0', n, id))
  redis.pcall('PEXPIRE', line, life)
  redis.pcall('PEXPIRE', wants, life)
end

-- leave removes the place of a manager, unless a newer script has joined.
local function leave(line, wants, manager, id)
  local n, newest = placeOf(wants, manager)
  if n and newest <= id then
    remove(line, wants, manager)
  end
end

-- tell tells the managers for which permits are free. counts is set if PUBLISH counts all who hear.
local function tell(line, wants, channel, free, counts)
  local i = 0
  while true do
    local manager, n, id, told = at(line, wants, i)
    if not manager or n > free then
      return
    end
    if told == 0 and redis.pcall('PUBLISH', channel .. ':' .. manager, free) == 0 and counts then
      remove(line, wants, manager)
    else
      if told == 0 then
        redis.pcall('HSET', wants, manager, string.format('%d %d %d', n, id, now))
      end
      free, i = free - n, i + 1
    end
  end
end
