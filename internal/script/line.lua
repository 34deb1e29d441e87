-- line.lua is in the scripts that serve a line. A line has the managers of this library that wait for
-- a lock, or for permits of a name, in the order in which they came. Each manager has one position, for
-- all its requests. A set has a position of its own, under "manager:number": below, a manager is either.
-- For plain and read-write locks see plain_line.lua. A line has two keys:
--
--   list    the managers, the first is next
--   wants   hash: manager -> "n id till flags", and for a lock the note of a grant by message
--           n      how many free permits the first request of the manager needs
--           id     the number of the manager's script that said so
--           till   until when the manager keeps its position if it runs no script, in ms since 1970
--           flags  t: the manager was told that permits are free, since the script ran
--                  g: the manager gathers, and is told of any free permit when it is first
--                  d: the manager may be deaf: it does not listen on its channel and asks from
--                  time to time, or the server does not count all who listen
--
-- A script of a lock says what its manager wants in one text, which begins with "manager id life
-- flags". The manager keeps its position for life, in ms. If life is 0, the manager does not join. If
-- the manager can be granted the lock by message, the note follows:
--
--   " place sent lease secret fenced", and in the hash " since server" behind that
--           place   the number of the hold
--           sent    a text without spaces, which the message returns
--           lease   of the record, in ms
--           secret  of the manager, hexadecimal
--           fenced  how many tokens the hold takes, 0 or 1
--           since   when the script ran, in microseconds since 1970
--           server  the replication ID of the server that ran it
--
-- Nobody overtakes: a request gets free permits only if enough stay free for all managers before its own.
-- So the first manager keeps what is free until that is enough, and nobody who needs many starves.
--
-- A script that has line.lua and leaves permits free tells the managers that may take the permits, each
-- on a channel of its own. The other scripts tell all managers, on the channel of the name. A manager
-- that should listen, and does not, loses its position at once. A manager that runs no script loses
-- its position at till. Both keys expire when the last position is over, if no manager joins before.
--
-- Clients of Redisson join no line. A message on the channel of the name is for them. A script that
-- has served the line puts a 0 before the message: '00' for '0', '05' for '5'. Then no manager of this
-- library needs to look. A script of this library that has not served the line puts two: '000'.
--
-- The keys of the line are no KEYS: they often do not exist, and while a slot of a cluster is moved, a
-- server refuses a script if only some of its keys are there. So each function below may fail half
-- way. The callers use pcall, and go on without the line. What half of a change leaves harms nobody:
--   - A field is written after the list. A member of the list without a field goes when a script comes to it.
--     If the manager joins before that, it is in the list twice, and counts twice.
--   - A hash without a list goes with the next script that joins.
--   - A line that may be at the other master is not joined: EXISTS of several keys fails if only some
--     of them may be here.
--
-- A script of a manager may run late. A position that is joined late goes like that of a manager that
-- is gone. A script that leaves the line does nothing if a newer one has joined.
--
-- The functions below get a line as a table, which has the names of both keys and of the channel of the name.
local clock = redis.pcall('TIME')
if not clock[1] then
  return clock -- an error: the user may not ask. It ends theLine, or the script that begins with this part
end
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local patience = 2000 -- how long a told manager keeps its position: as long as managers wait between two tries
local longest = 60000 -- managers ask for three seconds

-- lasts reports whether a position is not over. A till further away than longest is of another server's clock.
local function lasts(till)
  return now < till and till <= now + longest
end

-- positionOf returns what the hash says of a manager, or nil if the manager is not in the line.
local function positionOf(line, manager)
  local n, id, till, flags, note =
    string.match(redis.call('HGET', line.wants, manager) or '', '^(%d+) (%d+) (%d+) (%l*)(.*)$')
  return tonumber(n), tonumber(id), tonumber(till), flags, note
end

local function remove(line, manager)
  redis.call('HDEL', line.wants, manager)
  redis.call('LREM', line.list, 1, manager)
end

-- at returns the manager at a position of the line, and what positionOf returns of it. Positions that
-- are over go.
local function at(line, i)
  while true do
    local manager = redis.call('LINDEX', line.list, i)
    if not manager then
      return
    end
    local n, id, till, flags, note = positionOf(line, manager)
    if n and lasts(till) then
      return manager, n, id, till, flags, note
    end
    remove(line, manager)
  end
end

-- ahead returns how many permits the managers before manager need. It stops at more than most.
local function ahead(line, manager, most)
  local sum, i = 0, 0
  while sum <= most do
    local other, n, _, _, flags = at(line, i)
    if not other or other == manager then
      break
    end
    if not string.find(flags, 'd') and redis.pcall('PUBSUB', 'NUMSUB', line.channel .. ':' .. other)[2] == 0 then
      remove(line, other)
    else
      sum, i = sum + n, i + 1
    end
  end
  return sum
end

-- join puts a manager at the end of the line, unless it is in the line, and notes what it needs. It
-- does nothing if a newer script of the manager has joined.
local function join(line, manager, n, id, life, flags, note)
  local left, old, newest = redis.call('PTTL', line.list), nil, nil
  -- The first write is one that needs no memory: after it none is refused for lack of memory.
  if left == -2 then
    redis.call('DEL', line.wants) -- of a list that the server has lost
  else
    redis.call('HDEL', line.wants, '')
    old, newest = positionOf(line, manager)
  end
  if old and newest > id then
    return
  end
  if not old then
    redis.call('RPUSH', line.list, manager)
  end
  local till = now + life
  life = math.max(life, left) -- others may wait for longer
  redis.pcall('PEXPIRE', line.list, life)
  redis.call('HSET', line.wants, manager, string.format('%d %d %d %s%s', n, id, till, flags, note or ''))
  redis.pcall('PEXPIRE', line.wants, life)
end

-- leave removes a manager from the line, unless a newer script has joined. It returns how many permits the manager
-- needed, if it was removed.
local function leave(line, manager, id)
  local n, newest = positionOf(line, manager)
  if n and newest <= id then
    remove(line, manager)
    return n
  end
end

-- tell tells the managers that may take free permits. A manager that may be deaf counts as told. The
-- field of a manager that was told loses its note, because the manager asks.
local function tell(line, free)
  local i = 0
  while true do
    local manager, n, id, till, flags = at(line, i)
    if not manager then
      return
    end
    local enough = n <= free or i == 0 and free > 0 and string.find(flags, 'g')
    if not enough then
      return
    end
    local told = string.find(flags, 't')
    local heard = told or redis.pcall('PUBLISH', line.channel .. ':' .. manager, '1') ~= 0
    if not heard and not string.find(flags, 'd') then
      remove(line, manager)
    else
      if not told then
        till = math.min(till, now + patience)
        redis.pcall('HSET', line.wants, manager, string.format('%d %d %d %st', n, id, till, flags))
      end
      free, i = free - n, i + 1
    end
  end
end
